#include "dist/collectives/combine_rule.h"
#include "dist/collectives/cuda/combine.h"
#include "tensor/cuda/launch.cuh"

namespace rondo::dist {
namespace {

template <ReduceOp op, class T>
void run(int device, T* into, const T* from, std::int64_t count) {
  cuda::for_each(device, count,
                 [=] RONDO_HD(std::int64_t i) { into[i] = combined<op>(into[i], from[i]); });
}

template <class T>
void run(int device, T* into, const T* from, std::int64_t count, ReduceOp op, int divisor) {
  if constexpr (is_float<T>) {
    using W = typename Working<T>::type;
    if (divisor != 1) {
      const DividedBy<W> quotient{static_cast<W>(divisor)};
      return cuda::for_each(device, count, [=] RONDO_HD(std::int64_t i) {
        into[i] = averaged(into[i], from[i], quotient);
      });
    }
  }
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
      return run<ReduceOp::sum>(device, into, from, count);
    case ReduceOp::prod:
      return run<ReduceOp::prod>(device, into, from, count);
    case ReduceOp::min:
      return run<ReduceOp::min>(device, into, from, count);
    case ReduceOp::max:
      return run<ReduceOp::max>(device, into, from, count);
    case ReduceOp::band:
    case ReduceOp::bor:
      if constexpr (!is_float<T>) {  // refused by check_reducible
        if (op == ReduceOp::band) return run<ReduceOp::band>(device, into, from, count);
        return run<ReduceOp::bor>(device, into, from, count);
      }
  }
}

}  // namespace

void combine_on_device(const cuda::Stream& stream, void* into, const void* from, std::int64_t count,
                       DType dtype, ReduceOp op, int divisor) {
  const cuda::StreamGuard guard(stream);
  visit_dtype(dtype, [&]<class T>() {
    run(stream.device(), static_cast<T*>(into), static_cast<const T*>(from), count, op, divisor);
  });
}

}  // namespace rondo::dist
