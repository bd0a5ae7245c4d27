#include "tensor/cpu/convert.h"

#include "tensor/cpu/isa/table.h"

namespace rondo::cpu {
namespace {

/// The element at an address. A bool's byte may have another value than 0 and 1 if it is not
/// rondo's (from_blob): all but 0 are true.
template <class T>
T element(const char* at) {
  if constexpr (std::is_same_v<T, bool>) return *reinterpret_cast<const std::uint8_t*>(at) != 0;
  return *reinterpret_cast<const T*>(at);
}

}  // namespace

template <class C>
void load_row(DType dtype, const char* from, std::int64_t step, std::int64_t n, C* to) {
  visit_dtype(dtype, [&]<class T>() {
    if constexpr (std::is_same_v<C, float>) {
      // With autocast, half of a step's tensors take this path.
      if (std::is_same_v<T, BFloat16> && step == sizeof(T))
        return kernels().elementwise.from_bf16(reinterpret_cast<const Bf16Bits*>(from), to, n);
    }
    if (step == static_cast<std::int64_t>(sizeof(T))) {
      constexpr auto width = static_cast<std::int64_t>(sizeof(T));
      for (std::int64_t i = 0; i < n; ++i) to[i] = convert<C>(element<T>(from + i * width));
    } else if (step == 0) {
      C value = convert<C>(element<T>(from));
      for (std::int64_t i = 0; i < n; ++i) to[i] = value;
    } else {
      for (std::int64_t i = 0; i < n; ++i) to[i] = convert<C>(element<T>(from + i * step));
    }
  });
}

template <class C>
void store_row(DType dtype, const C* from, std::int64_t n, char* to, std::int64_t step) {
  visit_dtype(dtype, [&]<class T>() {
    if constexpr (std::is_same_v<C, float>) {
      if (std::is_same_v<T, BFloat16> && step == sizeof(T))
        return kernels().elementwise.to_bf16(from, reinterpret_cast<Bf16Bits*>(to), n);
    }
    if (step == static_cast<std::int64_t>(sizeof(T))) {
      T* dense = reinterpret_cast<T*>(to);
      for (std::int64_t i = 0; i < n; ++i) dense[i] = convert<T>(from[i]);
    } else {
      for (std::int64_t i = 0; i < n; ++i)
        *reinterpret_cast<T*>(to + i * step) = convert<T>(from[i]);
    }
  });
}

template void load_row(DType, const char*, std::int64_t, std::int64_t, float*);
template void load_row(DType, const char*, std::int64_t, std::int64_t, double*);
template void load_row(DType, const char*, std::int64_t, std::int64_t, std::int64_t*);
template void store_row(DType, const float*, std::int64_t, char*, std::int64_t);
template void store_row(DType, const double*, std::int64_t, char*, std::int64_t);
template void store_row(DType, const std::int64_t*, std::int64_t, char*, std::int64_t);

}  // namespace rondo::cpu
