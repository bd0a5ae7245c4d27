// Printing against PyTorch's own output, character by character (tests/golden/make_print.py).

#include <limits>

#include "support/golden.h"
#include "support/support.h"
#include "tensor/backend.h"

namespace rondo::test {
namespace {

Tensor counted(std::int64_t n, const Dims& sizes) {
  return arange(n).as_view(sizes, strides_of(sizes), 0);
}
Tensor counted_floats(std::int64_t n, const Dims& sizes, double step) {
  std::vector<float> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(static_cast<double>(i) * step);
  }
  return tensor<float>(values, sizes);
}

std::map<std::string, Tensor> printed_cases() {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> hidden(1101, 2.5f);
  std::fill_n(hidden.begin(), 500, 1.0f);
  hidden[500] = 1e9f;
  return {
      {"scalar_f32", scalar(3.14159)},
      {"scalar_whole", scalar(2.0)},
      {"scalar_i64", scalar(-7, {.dtype = i64})},
      {"scalar_bool", scalar(true, {.dtype = boolean})},
      {"vector", tensor<float>({1.5, -2.25, 1000})},
      {"whole", tensor<float>({1, 20, -300})},
      {"zeros", zeros({3})},
      {"nan_inf", tensor<float>({nan, inf, -inf, 1})},
      {"nan_only", tensor<float>({nan, nan})},
      {"nan_decimals", tensor<float>({nan, 0.5, -inf})},
      {"inf_wide", tensor<float>({-inf, 1})},
      {"minus_zero", tensor<float>({-0.0, 0.5})},
      {"sci_small", tensor<float>({1e-5, 1})},
      {"sci_ratio", tensor<float>({1, 1001.5})},
      {"no_sci_ratio", tensor<float>({1, 1000})},
      {"sci_whole", tensor<float>({1, 1e9})},
      {"sci_nan", tensor<float>({1e-9, nan, -inf, 0})},
      {"big_whole", tensor<float>({1e8})},
      {"tiny", tensor<float>({9.9e-5})},
      {"edge", tensor<float>({1e-4})},
      {"f64", tensor<double>({1, 2.5})},
      {"bf16", tensor<BFloat16>({BFloat16(1), BFloat16(2.5)})},
      {"f16", tensor<Half>({Half(0.1f), Half(65504)})},
      {"i32", tensor<std::int32_t>({1, -22})},
      {"u8", tensor<std::uint8_t>({1, 255})},
      {"i8", tensor<std::int8_t>({-128, 7})},
      {"bool", tensor<bool>({true, false})},
      {"empty", empty({0})},
      {"empty_2d", empty({0, 3})},
      {"empty_i64", empty({0}, {.dtype = i64})},
      {"empty_f64_2d", empty({2, 0}, {.dtype = f64})},
      {"grid", counted_floats(12, {3, 4}, 1)},
      {"transposed", counted_floats(12, {3, 4}, 1).as_view({4, 3}, {1, 4}, 0)},
      {"cube", counted(24, {2, 3, 4})},
      {"four", counted_floats(16, {2, 2, 2, 2}, 0.5)},
      {"column", counted(3, {3, 1})},
      {"wrapped", arange(40)},
      {"wrapped_f32", counted_floats(30, {30}, 0.125)},
      {"wrapped_2d", arange(0, 6000, 100).as_view({2, 30}, {30, 1}, 0)},
      {"thousand", counted(1000, {10, 100})},
      {"summary", arange(1001)},
      {"summary_f32", counted_floats(2000, {2000}, 0.25)},
      {"summary_2d", counted(1200, {30, 40})},
      {"summary_tall", counted(1200, {400, 3})},
      {"summary_wide", counted(1200, {3, 400})},
      {"summary_3d", counted(2048, {8, 16, 16})},
      {"summary_hidden", tensor<float>(hidden)},
      {"summary_channels_last", arange(1536).as_view({2, 12, 8, 8}, {768, 1, 96, 12}, 0)},
  };
}

TEST(Print, AgreesWithPyTorchToTheLetter) {
  const auto want = golden_texts("print.txt");
  const auto tensors = printed_cases();
  ASSERT_EQ(want.size(), tensors.size());
  for (const auto& [name, x] : tensors) {
    ASSERT_TRUE(want.count(name)) << name;
    EXPECT_EQ(concat(x), want.at(name)) << name;
  }
}

TEST(Print, DtypeMovesToItsOwnLineWhenItDoesNotFit) {
  // 11 items of 7 columns: PyTorch breaks before a suffix that would pass column 80.
  EXPECT_EQ(concat(full({9}, 123456, {.dtype = i32})),
            "tensor([123456, 123456, 123456, 123456, 123456, 123456, 123456, 123456, 123456],\n"
            "       dtype=i32)");
}

TEST(Print, Undefined) { EXPECT_EQ(concat(Tensor()), "tensor(undefined)"); }

}  // namespace
}  // namespace rondo::test
