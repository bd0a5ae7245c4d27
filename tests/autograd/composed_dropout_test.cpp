// Dropout of whole channels, and alpha dropout: which elements they drop, and what they keep.

#include <cmath>

#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "nn/dropout.h"
#include "support/errors.h"
#include "support/support.h"

namespace rondo::test {
namespace {

/// Each channel of y, which starts as ones, is 0 or 4 / 3. Returns the share of zeros.
double dropped_channels(const Tensor& y, std::int64_t leading_dims) {
  const Tensor channels = flatten(flatten(y, leading_dims), 0, leading_dims - 1);
  EXPECT_TRUE(identical(max(channels, 1).values, min(channels, 1).values));
  const Tensor of_channel = max(channels, 1).values;
  EXPECT_TRUE(all(logical_or(of_channel == 0, of_channel == 4.0F / 3)).item<bool>());
  return mean((of_channel == 0).to(f32)).item();
}

TEST(ChannelDropout, DropsWholeChannels) {
  manual_seed(5);
  nn::Dropout1d one(0.25);
  nn::Dropout2d two(0.25);
  nn::Dropout3d three(0.25);
  EXPECT_NEAR(dropped_channels(one(ones({50, 100, 3})), 2), 0.25, 0.04);
  EXPECT_NEAR(dropped_channels(one(ones({5000, 3})), 1), 0.25, 0.04);
  EXPECT_NEAR(dropped_channels(two(ones({50, 100, 3, 2})), 2), 0.25, 0.04);
  EXPECT_NEAR(dropped_channels(two(ones({50, 100, 3})), 2), 0.25, 0.04);
  EXPECT_NEAR(dropped_channels(three(ones({50, 100, 3, 2, 1})), 2), 0.25, 0.04);
  EXPECT_NEAR(dropped_channels(three(ones({5000, 3, 2, 1})), 1), 0.25, 0.04);
  two.eval();
  EXPECT_TRUE(identical(two(ones({2, 3, 4, 5})), ones({2, 3, 4, 5})));
  EXPECT_TRUE(identical(dropout2d(ones({2, 3, 4, 5}), 1), zeros({2, 3, 4, 5})));
}

TEST(AlphaDropout, KeepsMeanAndVariance) {
  manual_seed(6);
  const Tensor x = randn({1000, 50, 4});
  nn::AlphaDropout alpha(0.3);
  nn::FeatureAlphaDropout of_features(0.3);
  for (const Tensor& y : {alpha(x), of_features(x)}) {
    EXPECT_NEAR(mean(y).item(), 0, 0.02);
    EXPECT_NEAR(var(y).item(), 1, 0.03);
  }
  // The dropped elements have one value: a (-1.7581 + 1.7581 p).
  const double a = 1 / std::sqrt((1.7580993408473766 * 1.7580993408473766 * 0.3 + 1) * 0.7);
  const Tensor y = of_features(x), dropped = min(y, 2).values == max(y, 2).values;
  EXPECT_NEAR(mean(dropped.to(f32)).item(), 0.3, 0.01);
  const Tensor values = where(dropped, min(y, 2).values, -1.7580993408473766 * a * 0.7);
  EXPECT_NEAR(min(values).item(), -1.7580993408473766 * a * 0.7, 1e-6);
  EXPECT_NEAR(max(values).item(), -1.7580993408473766 * a * 0.7, 1e-6);
  EXPECT_TRUE(identical(alpha_dropout(ones({2, 3}), 1), zeros({2, 3})));
  alpha.eval();
  EXPECT_TRUE(identical(alpha(x), x));
}

TEST(ChannelDropout, Errors) {
  EXPECT_ERROR(dropout1d(zeros({2})), ShapeError,
               "dropout1d: input [2] has neither 3 dimensions nor 2");
  EXPECT_ERROR(dropout3d(zeros({2, 2, 2})), ShapeError, "neither 5 dimensions nor 4");
  EXPECT_ERROR(dropout2d(zeros({2, 2, 2}), 1.5), Error, "the probability 1.5 is not in [0, 1]");
  EXPECT_ERROR(dropout2d(zeros({2, 2, 2}), -1, false), Error, "probability -1");
  EXPECT_ERROR(feature_alpha_dropout(zeros({2})), ShapeError, "input [2] is not (N, C, ...)");
  EXPECT_ERROR(alpha_dropout(zeros({2}, {.dtype = i64})), DTypeError, "alpha_dropout");
  EXPECT_ERROR(nn::Dropout2d(2), Error, "the probability is 2");
}

}  // namespace
}  // namespace rondo::test
