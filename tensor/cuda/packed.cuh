#pragma once
// Eight elements for each thread, read and written 16 bytes at a time: the element-wise kernels of
// dense tensors and the optimizers.

#include "tensor/cuda/strided.cuh"

namespace rondo::cuda {

/// Eight elements, computed as C: 16 bytes of bf16 and f16, 32 bytes of f32, 64 bytes of f64.
template <class C>
struct Octet {
  C values[8] = {};
};

/// How threads reach the elements of a run.
enum class Access : std::uint8_t {
  packs,       // 16 bytes at a time; data is aligned for it
  elements,    // one at a time, since data is not aligned
  one_number,  // the run is a single number, which stands for all elements; it is never stored
};

/// n elements in memory order, of f32, bf16 or f16, or of f64 if C is double. The dtype is checked
/// in the kernel: compared with the memory access this costs nothing, and it saves a third of the
/// compile time.
template <class C>
struct PackedRun {
  char* data = nullptr;
  std::int64_t n = 0;
  DType dtype = DType::f32;
  Access access = Access::elements;

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
    constexpr int size = Pack<T>::size;
    const auto* run = reinterpret_cast<const T*>(data);
    Octet<C> octet;
    if (access == Access::packs && first + 8 <= n) {
      for (int p = 0; p < 8; p += size) {
        const auto pack = *reinterpret_cast<const Pack<T>*>(run + first + p);
        for (int k = 0; k < size; ++k) octet.values[p + k] = convert<C>(pack.values[k]);
      }
      return octet;
    }
    for (int k = 0; k < 8 && first + k < n; ++k)
      octet.values[k] = convert<C>(run[access == Access::one_number ? 0 : first + k]);
    return octet;
  }
  template <class T>
  RONDO_HD void store_as(std::int64_t first, const Octet<C>& octet) const {
    constexpr int size = Pack<T>::size;
    auto* run = reinterpret_cast<T*>(data);
    if (access == Access::packs && first + 8 <= n) {
      for (int p = 0; p < 8; p += size) {
        Pack<T> pack;
        for (int k = 0; k < size; ++k) pack.values[k] = convert<T>(octet.values[p + k]);
        store_16(run + first + p, pack);
      }
      return;
    }
    for (int k = 0; k < 8 && first + k < n; ++k) run[first + k] = convert<T>(octet.values[k]);
  }
};

}  // namespace rondo::cuda
