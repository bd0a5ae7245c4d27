#pragma once
// Eight elements for each thread, read and written 16 bytes at a time: the element-wise kernels of
// rows in one piece, and the optimizers.

#include <optional>

#include "tensor/cuda/strided.cuh"

namespace rondo::cuda {

/// Eight elements, computed as C: 16 bytes of bf16 and f16, 32 bytes of f32, 64 bytes of f64.
template <class C>
struct Octet {
  C values[8] = {};
};

/// Elements at[0] … at[7], 16 bytes at a time if all of them exist and `packed`; else 0 from
/// at[count] on.
template <class C, class T>
RONDO_HD Octet<C> load_octet(const T* at, std::int64_t count, bool packed) {
  constexpr int size = Pack<T>::size;
  Octet<C> octet;
  if (packed && count >= 8) {
    for (int p = 0; p < 8; p += size) {
      const auto pack = *reinterpret_cast<const Pack<T>*>(at + p);
      for (int k = 0; k < size; ++k) octet.values[p + k] = convert<C>(pack.values[k]);
    }
    return octet;
  }
  for (int k = 0; k < 8 && k < count; ++k) octet.values[k] = convert<C>(at[k]);
  return octet;
}
/// Stores the first `count` of eight elements, 16 bytes at a time if those are all and `packed`.
/// Eight bools are 8 bytes.
template <class T, class C>
RONDO_HD void store_octet(T* at, std::int64_t count, bool packed, const Octet<C>& octet) {
  if (packed && count >= 8) {
    if constexpr (sizeof(T) == 1) {
      struct alignas(8) Eight {
        T values[8];
      } eight;
      for (int k = 0; k < 8; ++k) eight.values[k] = convert<T>(octet.values[k]);
      *reinterpret_cast<Eight*>(at) = eight;
    } else {
      constexpr int size = Pack<T>::size;
      for (int p = 0; p < 8; p += size) {
        Pack<T> pack;
        for (int k = 0; k < size; ++k) pack.values[k] = convert<T>(octet.values[p + k]);
        store_16(at + p, pack);
      }
    }
    return;
  }
  for (int k = 0; k < 8 && k < count; ++k) at[k] = convert<T>(octet.values[k]);
}

/// n elements in memory order, of f32, bf16 or f16, or of f64 if C is double. The dtype is checked
/// in the kernel: compared with the memory access this costs nothing, and it saves a third of the
/// compile time.
template <class C>
struct PackedRun {
  char* data = nullptr;
  std::int64_t n = 0;
  DType dtype = DType::f32;
  bool packed = false;  // data is aligned for accesses of 16 bytes

  /// Elements first … first + 7; 0 for elements beyond n.
  RONDO_HD Octet<C> load(std::int64_t first) const {
    if constexpr (std::is_same_v<C, double>)
      if (dtype == DType::f64) return load_as<double>(first);
    if (dtype == DType::f32) return load_as<float>(first);
    return dtype == DType::bf16 ? load_as<BFloat16>(first) : load_as<Half>(first);
  }
  /// Stores no elements beyond n.
  RONDO_HD void store(std::int64_t first, const Octet<C>& octet) const {
    if constexpr (std::is_same_v<C, double>)
      if (dtype == DType::f64) return store_as<double>(first, octet);
    if (dtype == DType::f32) return store_as<float>(first, octet);
    return dtype == DType::bf16 ? store_as<BFloat16>(first, octet) : store_as<Half>(first, octet);
  }

 private:
  template <class T>
  RONDO_HD Octet<C> load_as(std::int64_t first) const {
    return load_octet<C>(reinterpret_cast<const T*>(data) + first, n - first, packed);
  }
  template <class T>
  RONDO_HD void store_as(std::int64_t first, const Octet<C>& octet) const {
    store_octet(reinterpret_cast<T*>(data) + first, n - first, packed, octet);
  }
};

/// Eight neighbours in a row of strided tensors, of f32, bf16 or f16. An operand's step along the
/// row is one element, or 0 if it is one number for all of the row.
template <std::size_t N>
struct OctetOperands {
  Operands<N> operands;
  std::int64_t n;
  bool repeated[N];  // the step is 0

  using Addresses = typename Operands<N>::Addresses;
  RONDO_HD Addresses locate(std::int64_t first) const { return operands.locate(first); }
  RONDO_HD Octet<float> load(const Addresses& a, std::size_t k, std::int64_t first) const {
    if (repeated[k]) {
      const float number = operands.template read<float>(a, k);
      Octet<float> octet;
      for (int j = 0; j < 8; ++j) octet.values[j] = number;
      return octet;
    }
    const auto as = [&]<class T>(const T*) {
      return load_octet<float>(reinterpret_cast<const T*>(a.at[k]), n - first, true);
    };
    if (operands.dtypes[k] == DType::f32) return as(static_cast<const float*>(nullptr));
    return operands.dtypes[k] == DType::bf16 ? as(static_cast<const BFloat16*>(nullptr))
                                             : as(static_cast<const Half*>(nullptr));
  }
  RONDO_HD void store(const Addresses& a, std::size_t k, std::int64_t first,
                      const Octet<float>& octet) const {
    const auto as = [&]<class T>(T*) {
      store_octet(reinterpret_cast<T*>(a.at[k]), n - first, true, octet);
    };
    if (operands.dtypes[k] == DType::f32) return as(static_cast<float*>(nullptr));
    if (operands.dtypes[k] == DType::boolean) return as(static_cast<bool*>(nullptr));
    operands.dtypes[k] == DType::bf16 ? as(static_cast<BFloat16*>(nullptr))
                                      : as(static_cast<Half*>(nullptr));
  }
};

/// The operands in this form, or nullopt if they do not have it: rows whose length 8 does not
/// divide, another dtype, step or alignment. Only the last `outputs` may be boolean, and they must
/// not repeat.
template <std::size_t N>
std::optional<OctetOperands<N>> octets(const Collapsed<N>& shape,
                                       const std::array<const Tensor*, N>& tensors,
                                       std::size_t outputs) {
  if (shape.dims > 1 && shape.sizes[0] % 8 != 0) return std::nullopt;
  OctetOperands<N> result{Operands<N>(shape, tensors), shape.numel, {}};
  for (std::size_t k = 0; k < N; ++k) {
    const bool is_output = k + outputs >= N;
    const DType dtype = tensors[k]->dtype();
    const bool has_kernel =
        dtype == f32 || dtype == bf16 || dtype == f16 || (is_output && dtype == DType::boolean);
    result.repeated[k] = !is_output && (shape.steps[0][k] == 0 || shape.numel == 1);
    if (!has_kernel) return std::nullopt;
    if (result.repeated[k]) continue;
    const std::int64_t width = dtype == DType::boolean ? 8 : 16;
    bool fits = shape.steps[0][k] == size_of(dtype) &&
                reinterpret_cast<std::uintptr_t>(shape.data[k]) % 16 == 0;
    for (std::size_t d = 1; d < shape.dims; ++d) fits = fits && shape.steps[d][k] % width == 0;
    if (!fits) return std::nullopt;
  }
  return result;
}

}  // namespace rondo::cuda
