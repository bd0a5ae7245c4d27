#include "io/stored_type.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

namespace rondo::io::detail {
namespace {

template <class From, class To>
bool widen(const void* from, std::uint64_t n, void* to) {
  bool fits = true;
  for (std::uint64_t i = 0; i < n; ++i) {
    From value;
    std::memcpy(&value, static_cast<const char*>(from) + i * sizeof value, sizeof value);
    fits &= std::in_range<To>(value);
    const auto wide = static_cast<To>(value);
    std::memcpy(static_cast<char*>(to) + i * sizeof wide, &wide, sizeof wide);
  }
  return fits;
}

/// The special values of a format: which of the 256 bytes are NaN, and whether it has infinities.
enum class Special { ieee, last_is_nan, minus_zero_is_nan };

/// Decodes a sign, exponent bits and `mantissa` bits: 1.m * 2^(e - bias), or 0.m * 2^(1 - bias) if
/// e is 0.
float small_float(unsigned byte, int mantissa, int bias, Special special) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  const unsigned m = byte & ((1U << mantissa) - 1), rest = byte & 0x7f;
  const int e = static_cast<int>(rest >> mantissa);
  const float sign = (byte & 0x80) != 0 ? -1.0F : 1.0F;
  if (special == Special::minus_zero_is_nan && byte == 0x80) return nan;
  if (special == Special::last_is_nan && rest == 0x7f) return nan;
  if (special == Special::ieee && e == 0x7f >> mantissa)
    return m != 0 ? nan : sign * std::numeric_limits<float>::infinity();
  const float fraction = std::ldexp(static_cast<float>(m), -mantissa);
  return sign * (e == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, e - bias));
}

template <float (*value_of)(unsigned byte)>
bool from_bytes(const void* from, std::uint64_t n, void* to) {
  std::array<float, 256> values;
  for (unsigned byte = 0; byte < 256; ++byte) values[byte] = value_of(byte);
  const auto* bytes = static_cast<const unsigned char*>(from);
  for (std::uint64_t i = 0; i < n; ++i)
    std::memcpy(static_cast<char*>(to) + i * sizeof(float), &values[bytes[i]], sizeof(float));
  return true;
}

float e4m3fn(unsigned byte) { return small_float(byte, 3, 7, Special::last_is_nan); }
float e4m3fnuz(unsigned byte) { return small_float(byte, 3, 8, Special::minus_zero_is_nan); }
float e5m2(unsigned byte) { return small_float(byte, 2, 15, Special::ieee); }
float e5m2fnuz(unsigned byte) { return small_float(byte, 2, 16, Special::minus_zero_is_nan); }
float e8m0fnu(unsigned byte) {
  return byte == 0xff ? std::numeric_limits<float>::quiet_NaN()
                      : std::ldexp(1.0F, static_cast<int>(byte) - 127);
}

constexpr StoredType all_stored_types[] = {
    {"F64", "float64", "DoubleStorage", 8, f64},
    {"F32", "float32", "FloatStorage", 4, f32},
    {"BF16", "bfloat16", "BFloat16Storage", 2, bf16},
    {"F16", "float16", "HalfStorage", 2, f16},
    {"I64", "int64", "LongStorage", 8, i64},
    {"I32", "int32", "IntStorage", 4, i32},
    {"U8", "uint8", "ByteStorage", 1, u8},
    {"I8", "int8", "CharStorage", 1, i8},
    {"BOOL", "bool", "BoolStorage", 1, boolean},

    {"I16", "int16", "ShortStorage", 2, i32, false, widen<std::int16_t, std::int32_t>},
    {"U16", "uint16", "", 2, i32, false, widen<std::uint16_t, std::int32_t>},
    {"U32", "uint32", "", 4, i64, false, widen<std::uint32_t, std::int64_t>},
    {"U64", "uint64", "", 8, i64, false, widen<std::uint64_t, std::int64_t>},
    {"F8_E4M3", "float8_e4m3fn", "", 1, f32, false, from_bytes<e4m3fn>},
    {"F8_E4M3FNUZ", "float8_e4m3fnuz", "", 1, f32, false, from_bytes<e4m3fnuz>},
    {"F8_E5M2", "float8_e5m2", "", 1, f32, false, from_bytes<e5m2>},
    {"F8_E5M2FNUZ", "float8_e5m2fnuz", "", 1, f32, false, from_bytes<e5m2fnuz>},
    {"F8_E8M0", "float8_e8m0fnu", "", 1, f32, false, from_bytes<e8m0fnu>},
    {"", "complex32", "ComplexHalfStorage", 4, f16, true},
    {"C64", "complex64", "ComplexFloatStorage", 8, f32, true},
    {"", "complex128", "ComplexDoubleStorage", 16, f64, true},

    {"", "qint8", "QInt8Storage", 1},
    {"", "quint8", "QUInt8Storage", 1},
    {"", "qint32", "QInt32Storage", 4},
    {"", "quint4x2", "QUInt4x2Storage", 1},
    {"", "quint2x4", "QUInt2x4Storage", 1},
};

}  // namespace

std::span<const StoredType> stored_types() { return all_stored_types; }

}  // namespace rondo::io::detail
