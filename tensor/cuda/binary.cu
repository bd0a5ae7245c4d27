// y = op(a, b) and y = condition ? a : b, element by element: the same two kinds of kernel as in
// unary.cu. In the wide one either operand may also be a single number.

#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/strided.cuh"
#include "tensor/functors.h"

namespace rondo::cuda {
namespace {

template <class C, class F>
struct Strided {
  Operands<3> operands;
  F f;
  RONDO_HD void operator()(std::int64_t i) const {
    const auto at = operands.locate(i);
    operands.write(at, 2, f(operands.template read<C>(at, 0), operands.template read<C>(at, 1)));
  }
};

/// An operand of the wide kernel: a dense run, or one number for all.
template <class T>
struct Input {
  const T* data;
  bool constant;
  RONDO_HD Pack<T> pack(std::int64_t first) const {
    if (!constant) return *reinterpret_cast<const Pack<T>*>(data + first);
    Pack<T> same;
    for (int k = 0; k < Pack<T>::size; ++k) same.values[k] = *data;
    return same;
  }
  RONDO_HD T value(std::int64_t i) const { return data[constant ? 0 : i]; }
};

template <class T, class C, class F>
struct Packed {
  Input<T> a, b;
  T* y;
  std::int64_t n;
  F f;
  RONDO_HD void operator()(std::int64_t i) const {
    constexpr int size = Pack<T>::size;
    const std::int64_t first = i * size;
    if (first + size > n) {
      for (std::int64_t k = first; k < n; ++k)
        y[k] = convert<T>(f(static_cast<C>(a.value(k)), static_cast<C>(b.value(k))));
      return;
    }
    const Pack<T> left = a.pack(first), right = b.pack(first);
    Pack<T> result;
    for (int k = 0; k < size; ++k)
      result.values[k] =
          convert<T>(f(static_cast<C>(left.values[k]), static_cast<C>(right.values[k])));
    *reinterpret_cast<Pack<T>*>(y + first) = result;
  }
};

template <class C>
struct Launch {
  int device;
  const Tensor &a, &b, &y;

  template <class F>
  bool operator()(F f) const {
    const Collapsed<3> shape({&a, &b, &y});
    if constexpr (std::is_same_v<C, float>) {
      if (packed<float>(shape, f) || packed<BFloat16>(shape, f) || packed<Half>(shape, f))
        return true;
    }
    for_each(device, shape.numel, Strided<C, F>{Operands<3>(shape, {&a, &b, &y}), f});
    return true;
  }

  template <class T, class F>
  bool packed(const Collapsed<3>& shape, F f) const {
    auto fits = [&](std::size_t k, const Tensor& x) {
      return is_packable<T>(shape, k, x) || (x.dtype() == dtype_of<T> && is_constant(shape, k));
    };
    if (!fits(0, a) || !fits(1, b) || !is_packable<T>(shape, 2, y)) return false;
    constexpr std::int64_t size = Pack<T>::size;
    for_each(device, (shape.numel + size - 1) / size,
             Packed<T, C, F>{input<T>(shape, 0), input<T>(shape, 1), static_cast<T*>(y.data_ptr()),
                             shape.numel, f});
    return true;
  }

  template <class T>
  static Input<T> input(const Collapsed<3>& shape, std::size_t k) {
    return {reinterpret_cast<const T*>(shape.data[k]), is_constant(shape, k)};
  }
};

/// Moves elements of a word's size, whatever they mean.
template <class Word>
struct Where {
  Operands<4> operands;
  RONDO_HD void operator()(std::int64_t i) const {
    const auto at = operands.locate(i);
    const char* from = *reinterpret_cast<const bool*>(at.at[0]) ? at.at[1] : at.at[2];
    *reinterpret_cast<Word*>(at.at[3]) = *reinterpret_cast<const Word*>(from);
  }
};

}  // namespace

void CudaBackend::binary(BinaryOp op, const Tensor& a, const Tensor& b, const Tensor& y,
                         OpParams params) {
  visit_compute_type(a.dtype(), [&]<class C>() {
    visit_binary<C>(op, params, Launch<C>{device_, a, b, y});
  });
}

void CudaBackend::where(const Tensor& condition, const Tensor& a, const Tensor& b,
                        const Tensor& y) {
  const std::array<const Tensor*, 4> tensors = {&condition, &a, &b, &y};
  const Collapsed<4> shape(tensors);
  const Operands<4> operands(shape, tensors);
  visit_word(size_of(y.dtype()),
             [&]<class Word>() { for_each(device_, shape.numel, Where<Word>{operands}); });
}

}  // namespace rondo::cuda
