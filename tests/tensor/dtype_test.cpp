#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tensor/error.h"

namespace rondo {
namespace {

float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

TEST(BFloat16, RoundsToNearestEven) {
  EXPECT_EQ(BFloat16(1.0f).bits, 0x3f80);
  EXPECT_EQ(BFloat16(from_bits(0x3f808000)).bits, 0x3f80);  // tie: an even number stays
  EXPECT_EQ(BFloat16(from_bits(0x3f818000)).bits, 0x3f82);  // tie: an odd number is rounded up
  EXPECT_EQ(BFloat16(from_bits(0x3f808001)).bits, 0x3f81);
  EXPECT_EQ(BFloat16(std::numeric_limits<float>::max()).bits, 0x7f80);  // rounds to infinity
  EXPECT_EQ(BFloat16(-0.0f).bits, 0x8000);
  EXPECT_TRUE(std::isnan(float(BFloat16(from_bits(0x7f800001)))));  // NaN with a truncated payload
  EXPECT_TRUE(std::isnan(float(BFloat16(from_bits(0xffffffff)))));
}

TEST(BFloat16, EveryValueSurvivesTheRoundTrip) {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    BFloat16 value;
    value.bits = static_cast<std::uint16_t>(bits);
    if (std::isnan(float(value))) continue;
    ASSERT_EQ(BFloat16(float(value)).bits, bits);
  }
}

// The compiler's own binary16 is the reference.
#if defined(__FLT16_MAX__)
#if defined(__aarch64__)
using Binary16 = __fp16;  // which has another name in C++ from GCC 13 on
#else
using Binary16 = _Float16;
#endif
TEST(Half, EveryValueAgreesWithTheCompilersType) {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    Half value;
    value.bits = static_cast<std::uint16_t>(bits);
    auto oracle = static_cast<float>(std::bit_cast<Binary16>(value.bits));
    if (std::isnan(oracle)) {
      ASSERT_TRUE(std::isnan(float(value))) << bits;
      ASSERT_TRUE(std::isnan(float(Half(float(value))))) << bits;
      continue;
    }
    ASSERT_EQ(std::bit_cast<std::uint32_t>(float(value)), std::bit_cast<std::uint32_t>(oracle))
        << bits;
    ASSERT_EQ(Half(oracle).bits, bits);
  }
}

TEST(Half, RoundingAgreesWithTheCompilersType) {
  for (std::uint64_t u = 0; u <= 0xffffffffu; u += 4099) {  // a prime step through all floats
    float value = from_bits(static_cast<std::uint32_t>(u));
    auto oracle = std::bit_cast<std::uint16_t>(static_cast<Binary16>(value));
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(float(Half(value))));
    } else {
      ASSERT_EQ(Half(value).bits, oracle) << value;
    }
  }
  for (float value :
       {65504.f, 65519.99f, 65520.f, 6.1e-5f, 5.96e-8f, 2.98e-8f, 2.9802325e-8f, 0.f}) {
    EXPECT_EQ(Half(value).bits, std::bit_cast<std::uint16_t>(static_cast<Binary16>(value)))
        << value;
  }
}
#endif

TEST(DType, NamesRoundTrip) {
  for (DType dtype : {f64, f32, bf16, f16, i64, i32, u8, i8, boolean}) {
    EXPECT_EQ(parse_dtype(name_of(dtype)), dtype);
    visit_dtype(dtype, [&]<class T>() {
      EXPECT_EQ(dtype_of<T>, dtype);
      EXPECT_EQ(size_of(dtype), static_cast<std::int64_t>(sizeof(T)));
    });
  }
  EXPECT_THROW(parse_dtype("float"), DTypeError);
}

TEST(DType, PromotionTable) {
  EXPECT_EQ(promote(f32, f64), f64);
  EXPECT_EQ(promote(bf16, f32), f32);
  EXPECT_EQ(promote(bf16, f16), f32);
  EXPECT_EQ(promote(i64, bf16), bf16);
  EXPECT_EQ(promote(u8, i8), i32);
  EXPECT_EQ(promote(u8, i64), i64);
  EXPECT_EQ(promote(boolean, i8), i8);
  EXPECT_EQ(promote(boolean, boolean), boolean);
  for (DType a : {f64, f32, bf16, f16, i64, i32, u8, i8, boolean}) {
    for (DType b : {f64, f32, bf16, f16, i64, i32, u8, i8, boolean})
      EXPECT_EQ(promote(a, b), promote(b, a));
  }
}

}  // namespace
}  // namespace rondo
