// y = op(x), element by element.
//
// Two kernels for each op: one for any strides and dtypes, which finds each element by division,
// and one for dense f32, bf16 and f16, which moves 16 bytes at a time and does nothing else: these
// ops are bound by memory, and only accesses as wide as that reach its rate.

#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/strided.cuh"
#include "tensor/functors.h"

namespace rondo::cuda {
namespace {

template <class C, class F>
struct Strided {
  Operands<2> operands;
  F f;
  RONDO_HD void operator()(std::int64_t i) const {
    const auto at = operands.locate(i);
    operands.write(at, 1, f(operands.template read<C>(at, 0)));
  }
};

/// Call i does elements i · Pack::size onwards.
template <class T, class C, class F>
struct Packed {
  const T* x;
  T* y;
  std::int64_t n;
  F f;
  RONDO_HD void operator()(std::int64_t i) const {
    constexpr int size = Pack<T>::size;
    const std::int64_t first = i * size;
    if (first + size > n) {
      for (std::int64_t k = first; k < n; ++k) y[k] = convert<T>(f(static_cast<C>(x[k])));
      return;
    }
    Pack<T> pack = *reinterpret_cast<const Pack<T>*>(x + first);
    for (int k = 0; k < size; ++k) pack.values[k] = convert<T>(f(static_cast<C>(pack.values[k])));
    *reinterpret_cast<Pack<T>*>(y + first) = pack;
  }
};

/// What visit_unary calls with the op's functor. (Not a lambda: nvcc must be able to name it.)
template <class C>
struct Launch {
  int device;
  const Tensor &x, &y;

  template <class F>
  bool operator()(F f) const {
    const Collapsed<2> shape({&x, &y});
    if constexpr (std::is_same_v<C, float>) {
      if (packed<float>(shape, f) || packed<BFloat16>(shape, f) || packed<Half>(shape, f))
        return true;
    }
    for_each(device, shape.numel, Strided<C, F>{Operands<2>(shape, {&x, &y}), f});
    return true;
  }

  template <class T, class F>
  bool packed(const Collapsed<2>& shape, F f) const {
    if (!is_packable<T>(shape, 0, x) || !is_packable<T>(shape, 1, y)) return false;
    constexpr std::int64_t size = Pack<T>::size;
    for_each(device, (shape.numel + size - 1) / size,
             Packed<T, C, F>{static_cast<const T*>(x.data_ptr()), static_cast<T*>(y.data_ptr()),
                             shape.numel, f});
    return true;
  }
};

}  // namespace

void CudaBackend::unary(UnaryOp op, const Tensor& x, const Tensor& y, OpParams params) {
  visit_compute_type(x.dtype(), [&]<class C>() {
    visit_unary<C>(op, params, Launch<C>{device_, x, y});
  });
}

}  // namespace rondo::cuda
