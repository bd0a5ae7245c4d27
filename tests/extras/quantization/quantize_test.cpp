#include "extras/quantization/quantize.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/errors.h"
#include "support/fill.h"
#include "support/golden.h"
#include "support/support.h"

namespace rondo::test {
namespace {

Tensor fill32(const Dims& shape, std::uint32_t key, double scale = 1) {
  return fill(shape, key, scale).to(f32);
}

TEST(FakeQuantize, ValuesAndGradientsArePyTorchs) {
  const Golden golden("quantize.txt");
  struct Case {
    std::string name;
    double scale;
    std::int64_t zero_point, low, high;
  };
  for (const Case& c : {Case{"u8", 0.01, 100, 0, 255}, Case{"s8", 0.0078125, 0, -128, 127},
                        Case{"four_bits", 0.25, 3, 0, 15}}) {
    SCOPED_TRACE(c.name);
    Tensor x = fill32({4, 33}, 1, 2);
    x.requires_grad_();
    const Tensor y = fake_quantize_per_tensor_affine(x, c.scale, c.zero_point, c.low, c.high);
    y.backward(fill32({4, 33}, 2));
    // A quantisation step is a hundred thousand times larger than the rounding, so no number is
    // rounded to another int8 value.
    EXPECT_TRUE(all_close(y, golden["fake." + c.name + ".y"], tolerance(f32, 1, 2)));
    EXPECT_TRUE(all_close(x.grad(), golden["fake." + c.name + ".dx"], 0));
  }
}

TEST(FakeQuantize, EachChannelHasItsScale) {
  const Golden golden("quantize.txt");
  Tensor w = fill32({5, 3, 2}, 3, 2);
  w.requires_grad_();
  const Tensor scale = tensor<double>({0.01, 0.02, 0.004, 0.1, 0.015625}).to(f32);
  const Tensor y = fake_quantize_per_channel_symmetric(w, scale, -128, 127);
  y.backward(fill32({5, 3, 2}, 4));
  EXPECT_TRUE(all_close(y, golden["fake.channels.y"], tolerance(f32, 1, 2)));
  EXPECT_TRUE(all_close(w.grad(), golden["fake.channels.dw"], tolerance(f32)));
}

TEST(FakeQuantize, HalvesGoToEvenAndNaNStays) {
  const Tensor x = tensor<double>({-1.5, -0.5, 0.5, 1.5, 2.5, 1e30, -INFINITY, NAN}).to(f32);
  const Tensor y = fake_quantize_per_tensor_affine(x, 1, 0, -8, 7);
  EXPECT_TRUE(all_close(y, tensor<double>({-2.0, 0.0, 0.0, 2.0, 2.0, 7.0, -8.0, NAN}).to(f32), 0));
}

TEST(FakeQuantize, RefusesWhatIsNoRange) {
  const Tensor x = ones({2});
  EXPECT_ERROR(fake_quantize_per_tensor_affine(x, 0, 0, 0, 255), Error, "scale 0");
  EXPECT_ERROR(fake_quantize_per_tensor_affine(x, NAN, 0, 0, 255), Error, "scale nan");
  EXPECT_ERROR(fake_quantize_per_tensor_affine(x, 1, 256, 0, 255), Error,
               "zero point 256 is not within 0 to 255");
  EXPECT_ERROR(fake_quantize_per_tensor_affine(ones({2}, {.dtype = i32}), 1, 0, 0, 255), DTypeError,
               "i32");
  EXPECT_ERROR(fake_quantize_per_channel_symmetric(x, ones({3}), -8, 7), ShapeError,
               "scales [3] for an input [2]");
}

}  // namespace
}  // namespace rondo::test
