#pragma once
// DType: the nine element types, the two 16-bit floats that C++20 lacks, and type promotion.
//
// Promotion follows PyTorch: the higher category wins (bool < integer < float), and within a
// category the wider type. Two pairs are equally wide: bf16 with f16 gives f32, and u8 with i8
// gives i32 (PyTorch gives int16, which rondo does not have). For scalars and 0-dim tensors, see
// `result_type` in autograd/ops/arithmetic.h.

#include <bit>
#include <cstdint>
#include <cstring>
#include <iosfwd>
#include <string_view>
#include <type_traits>

#if defined(__CUDACC__)
#define RONDO_HD __host__ __device__
/// Marks a template that runs on the host if its arguments are host functions, and in a kernel if
/// they are device functions. Place it before the keyword `template`.
#define RONDO_WHERE_CALLED _Pragma("nv_exec_check_disable")
#else
#define RONDO_HD
#define RONDO_WHERE_CALLED
#endif

namespace rondo {

/// bfloat16: the upper half of a float; rounds to nearest even, NaN stays NaN.
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  RONDO_HD explicit BFloat16(float value) {
#if defined(__CUDA_ARCH__)
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#else
    auto u = std::bit_cast<std::uint32_t>(value);
    if ((u & 0x7fffffffu) > 0x7f800000u) {
      bits = static_cast<std::uint16_t>((u >> 16) | 0x40u);  // quiet the NaN, keep its sign
    } else {
      bits = static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
    }
#endif
  }
  RONDO_HD operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};

/// IEEE 754 binary16, with subnormals; rounds to nearest even.
struct Half {
  std::uint16_t bits = 0;

  Half() = default;
  RONDO_HD explicit Half(float value) {
#if defined(__CUDA_ARCH__)
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#else
    auto u = std::bit_cast<std::uint32_t>(value);
    std::uint32_t sign = (u >> 16) & 0x8000u;
    std::uint32_t magnitude = u & 0x7fffffffu;
    std::uint32_t h;
    if (magnitude > 0x7f800000u) {
      h = 0x7e00u;
    } else if (magnitude >= 0x477ff000u) {  // 65520 and above round to infinity
      h = 0x7c00u;
    } else if (magnitude < 0x38800000u) {  // below 2^-14: let the FPU round at the subnormal ulp
      h = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
    } else {
      h = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    }
    bits = static_cast<std::uint16_t>(sign | h);
#endif
  }
  RONDO_HD operator float() const {
#if defined(__CUDA_ARCH__)
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
#else
    std::uint32_t sign = (bits & 0x8000u) << 16;
    std::uint32_t rest = bits & 0x7fffu;
    std::uint32_t u;
    if (rest >= 0x7c00u) {
      u = 0x7f800000u | (rest & 0x3ffu) << 13;
    } else if (rest >= 0x400u) {
      u = (rest << 13) + 0x38000000u;
    } else {
      u = std::bit_cast<std::uint32_t>(static_cast<float>(rest) * 0x1p-24f);
    }
    return std::bit_cast<float>(sign | u);
#endif
  }
};

enum class DType : std::uint8_t { f64, f32, bf16, f16, i64, i32, u8, i8, boolean };

inline constexpr DType f64 = DType::f64, f32 = DType::f32, bf16 = DType::bf16, f16 = DType::f16,
                       i64 = DType::i64, i32 = DType::i32, u8 = DType::u8, i8 = DType::i8,
                       boolean = DType::boolean;

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<double> : std::integral_constant<DType, DType::f64> {};
template <>
struct DTypeOf<float> : std::integral_constant<DType, DType::f32> {};
template <>
struct DTypeOf<BFloat16> : std::integral_constant<DType, DType::bf16> {};
template <>
struct DTypeOf<Half> : std::integral_constant<DType, DType::f16> {};
template <>
struct DTypeOf<std::int64_t> : std::integral_constant<DType, DType::i64> {};
template <>
struct DTypeOf<std::int32_t> : std::integral_constant<DType, DType::i32> {};
template <>
struct DTypeOf<std::uint8_t> : std::integral_constant<DType, DType::u8> {};
template <>
struct DTypeOf<std::int8_t> : std::integral_constant<DType, DType::i8> {};
template <>
struct DTypeOf<bool> : std::integral_constant<DType, DType::boolean> {};
/// The DType of a C++ element type: dtype_of<float> == f32.
template <class T>
inline constexpr DType dtype_of = DTypeOf<std::remove_cv_t<T>>::value;

/// Calls `f.template operator()<T>()` with the C++ type of `dtype`:
/// `visit_dtype(x.dtype(), [&]<class T>() { ... x.data_ptr<T>() ... })`.
template <class F>
decltype(auto) visit_dtype(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f64:
      return f.template operator()<double>();
    case DType::f32:
      return f.template operator()<float>();
    case DType::bf16:
      return f.template operator()<BFloat16>();
    case DType::f16:
      return f.template operator()<Half>();
    case DType::i64:
      return f.template operator()<std::int64_t>();
    case DType::i32:
      return f.template operator()<std::int32_t>();
    case DType::u8:
      return f.template operator()<std::uint8_t>();
    case DType::i8:
      return f.template operator()<std::int8_t>();
    case DType::boolean:
      break;
  }
  return f.template operator()<bool>();
}

/// Bytes of one element.
constexpr std::int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::bf16:
    case DType::f16:
      return 2;
    default:
      return 1;
  }
}
constexpr bool is_floating(DType dtype) { return dtype <= DType::f16; }
constexpr bool is_integral(DType dtype) { return dtype >= DType::i64 && dtype <= DType::i8; }
/// The first criterion of promotion: bool 0, integers 1, floats 2.
constexpr int category_of(DType dtype) {
  return is_floating(dtype) ? 2 : is_integral(dtype) ? 1 : 0;
}

/// An integer type, or an enumeration that converts to one.
template <class T>
concept IntegerNotBool = (std::is_integral_v<T> ||
                          std::is_enum_v<T>)&&std::is_convertible_v<T, std::int64_t> &&
                         !std::is_same_v<T, bool>;

/// "f32", "bool" …
std::string_view name_of(DType dtype);
/// Parses the output of name_of. Throws DTypeError for anything else.
DType parse_dtype(std::string_view name);
/// A hint for the end of an error about an op that needs equal dtypes: what the caller can do.
const char* how_to_convert(DType a, DType b);
/// The dtype to which a and b, both full tensors, are promoted (see the head of this file).
DType promote(DType a, DType b);

std::ostream& operator<<(std::ostream& out, DType dtype);

}  // namespace rondo
