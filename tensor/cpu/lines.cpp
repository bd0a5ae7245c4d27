// Conversion of lines between the nine dtypes and the three compute types; see lines.h.

#include "tensor/cpu/lines.h"

namespace rondo::cpu {
namespace {

template <class To, class From>
To convert(From value) {
  if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (std::is_same_v<To, BFloat16> || std::is_same_v<To, Half>) {
    return To(static_cast<float>(value));
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace

template <class C>
void load(DType dtype, const void* data, std::int64_t offset, std::int64_t stride, std::int64_t n,
          C* out) {
  visit_dtype(dtype, [&]<class T>() {
    const T* in = static_cast<const T*>(data) + offset;
    if (stride == 1) {
      for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<C>(in[i]);
    } else {
      for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<C>(in[i * stride]);
    }
  });
}

template <class C>
void store(DType dtype, void* data, std::int64_t offset, std::int64_t stride, std::int64_t n,
           const C* in) {
  visit_dtype(dtype, [&]<class T>() {
    T* out = static_cast<T*>(data) + offset;
    if (stride == 1) {
      for (std::int64_t i = 0; i < n; ++i) out[i] = convert<T>(in[i]);
    } else {
      for (std::int64_t i = 0; i < n; ++i) out[i * stride] = convert<T>(in[i]);
    }
  });
}

template void load(DType, const void*, std::int64_t, std::int64_t, std::int64_t, float*);
template void load(DType, const void*, std::int64_t, std::int64_t, std::int64_t, double*);
template void load(DType, const void*, std::int64_t, std::int64_t, std::int64_t, std::int64_t*);
template void store(DType, void*, std::int64_t, std::int64_t, std::int64_t, const float*);
template void store(DType, void*, std::int64_t, std::int64_t, std::int64_t, const double*);
template void store(DType, void*, std::int64_t, std::int64_t, std::int64_t, const std::int64_t*);

}  // namespace rondo::cpu
