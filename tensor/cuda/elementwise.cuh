#pragma once
// y = f(x1, … xN), element by element: the two kernels that every unary and binary op has.
//
// One takes any strides and dtypes, and finds each element by division. The other takes dense f32,
// bf16 or f16 (or, as an input, one number for all), moves 16 bytes at a time and does nothing
// else: these ops are bound by memory, and only accesses as wide as that reach its rate.

#include <utility>

#include "tensor/cuda/strided.cuh"

namespace rondo::cuda {

template <std::size_t N, class C, class F>
struct StridedMap {
  Operands<N + 1> operands;  // the inputs, then y
  F f;
  RONDO_HD void operator()(std::int64_t i) const { map(i, std::make_index_sequence<N>()); }

 private:
  template <std::size_t... K>
  RONDO_HD void map(std::int64_t i, std::index_sequence<K...>) const {
    const auto at = operands.locate(i);
    operands.write(at, N, f(operands.template read<C>(at, K)...));
  }
};

/// An input of the wide kernel: a dense run, or one number for all.
template <class T>
struct PackedInput {
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

/// Call i does elements i · Pack::size onwards.
template <std::size_t N, class T, class C, class F>
struct PackedMap {
  PackedInput<T> inputs[N];
  T* y;
  std::int64_t n;
  F f;
  RONDO_HD void operator()(std::int64_t i) const { map(i, std::make_index_sequence<N>()); }

 private:
  template <std::size_t... K>
  RONDO_HD void map(std::int64_t i, std::index_sequence<K...>) const {
    constexpr int size = Pack<T>::size;
    const std::int64_t first = i * size;
    if (first + size > n) {
      for (std::int64_t k = first; k < n; ++k)
        y[k] = convert<T>(f(static_cast<C>(inputs[K].value(k))...));
      return;
    }
    const Pack<T> packs[N] = {inputs[K].pack(first)...};
    Pack<T> result;
    for (int k = 0; k < size; ++k)
      result.values[k] = convert<T>(f(static_cast<C>(packs[K].values[k])...));
    *reinterpret_cast<Pack<T>*>(y + first) = result;
  }
};

/// What visit_unary and visit_binary call with the op's functor. (Not a lambda: nvcc must be able
/// to name it.)
template <std::size_t N, class C>
struct LaunchMap {
  int device;
  std::array<const Tensor*, N + 1> tensors;  // the inputs, then y

  template <class F>
  bool operator()(F f) const {
    const Collapsed<N + 1> shape(tensors);
    if constexpr (std::is_same_v<C, float>) {
      if (packed<float>(shape, f) || packed<BFloat16>(shape, f) || packed<Half>(shape, f))
        return true;
    }
    for_each(device, shape.numel, StridedMap<N, C, F>{Operands<N + 1>(shape, tensors), f});
    return true;
  }

 private:
  template <class T, class F>
  bool packed(const Collapsed<N + 1>& shape, F f) const {
    if (!is_packable<T>(shape, N, *tensors[N])) return false;
    PackedMap<N, T, C, F> map{{}, reinterpret_cast<T*>(shape.data[N]), shape.numel, f};
    for (std::size_t k = 0; k < N; ++k) {
      const bool constant = tensors[k]->dtype() == dtype_of<T> && is_constant(shape, k);
      if (!constant && !is_packable<T>(shape, k, *tensors[k])) return false;
      map.inputs[k] = {reinterpret_cast<const T*>(shape.data[k]), constant};
    }
    constexpr std::int64_t size = Pack<T>::size;
    for_each(device, (shape.numel + size - 1) / size, map);
    return true;
  }
};

}  // namespace rondo::cuda
