#include "dist/reduce.h"

#include <ostream>

#include "dist/combine_rule.h"
#include "dist/transport.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

template <class T, class F>
void each(void* into, const void* from, std::int64_t count, F f) {
  auto* __restrict a = static_cast<T*>(into);
  const auto* __restrict b = static_cast<const T*>(from);
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) a[i] = f(a[i], b[i]);
}

template <ReduceOp op, class T>
void combine_as(void* into, const void* from, std::int64_t n) {
  each<T>(into, from, n, [](T a, T b) { return combined<op>(a, b); });
}

}  // namespace

const char* name_of(ReduceOp op) {
  static constexpr const char* names[] = {"sum", "avg", "min", "max", "prod", "band", "bor"};
  return names[static_cast<int>(op)];
}

std::ostream& operator<<(std::ostream& out, ReduceOp op) { return out << name_of(op); }

void combine(void* into, const void* from, std::int64_t count, DType dtype, ReduceOp op) {
  visit_dtype(dtype, [&]<class T>() {
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::avg:
        return combine_as<ReduceOp::sum, T>(into, from, count);
      case ReduceOp::prod:
        return combine_as<ReduceOp::prod, T>(into, from, count);
      case ReduceOp::min:
        return combine_as<ReduceOp::min, T>(into, from, count);
      case ReduceOp::max:
        return combine_as<ReduceOp::max, T>(into, from, count);
      case ReduceOp::band:
        return combine_as<ReduceOp::band, T>(into, from, count);
      case ReduceOp::bor:
        return combine_as<ReduceOp::bor, T>(into, from, count);
    }
  });
}

void combine_and_divide(void* into, const void* from, std::int64_t count, DType dtype,
                        int divisor) {
  visit_dtype(dtype, [&]<class T>() {
    if constexpr (is_float<T>)
      each<T>(into, from, count, [divisor](T a, T b) { return averaged(a, b, divisor); });
  });
}

void divide(void* data, std::int64_t count, DType dtype, int divisor) {
  visit_dtype(dtype, [&]<class T>() {
    if constexpr (is_float<T>) {
      using W = typename Working<T>::type;
      W d = static_cast<W>(divisor);
      auto* a = static_cast<T*>(data);
#pragma omp simd
      for (std::int64_t i = 0; i < count; ++i) a[i] = T(W(a[i]) / d);
    }
  });
}

void Arithmetic::combine(void* into, const void* from, std::int64_t count, DType dtype, ReduceOp op,
                         int divisor) {
  if (divisor == 1) return dist::combine(into, from, count, dtype, op);
  combine_and_divide(into, from, count, dtype, divisor);
}

Arithmetic& Arithmetic::host() {
  static Arithmetic arithmetic;
  return arithmetic;
}

void check_reducible(DType dtype, ReduceOp op) {
  require<DTypeError>(op != ReduceOp::avg || is_floating(dtype), "all_reduce: no avg of ", dtype,
                      ", which would have to be rounded; use sum");
  require<DTypeError>((op != ReduceOp::band && op != ReduceOp::bor) || !is_floating(dtype),
                      "all_reduce: no ", op, " of ", dtype, ", whose bits are no number's");
}

}  // namespace rondo::dist
