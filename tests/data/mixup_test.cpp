// mixup and cutmix against their formulas; their draws against the moments of Beta.

#include "data/mixup.h"

#include <cmath>

#include "data/transforms.h"
#include "support/errors.h"
#include "support/support.h"
#include "tensor/creation.h"

namespace rondo::data {
namespace {

constexpr std::int64_t mixed_rows = 6, mixed_classes = 6;

/// Images whose elements are all different, and sample i of class i.
Batch images_to_mix(std::int64_t rows = mixed_rows) {
  Tensor target = Tensor::empty({rows}, {.dtype = i64});
  for (std::int64_t i = 0; i < rows; ++i) target.data_ptr<std::int64_t>()[i] = i;
  return {arange(static_cast<double>(rows * 2 * 8 * 8)).to(f64).reshape({rows, 2, 8, 8}), target};
}

BatchContext at(std::uint64_t epoch, std::int64_t batch) {
  return {.indices = {}, .draw = {.epoch = epoch}, .batch = batch};
}

/// The share that row i of a result keeps of its own sample.
double kept(const Batch& mixed, std::int64_t i = 1) {
  return mixed.target.data_ptr<double>()[i * mixed_classes + i];
}

TEST(Mixup, IsTheFormula) {
  const Batch batch = images_to_mix();
  for (const std::int64_t group : {0, 3}) {
    const Batch mixed = mixup({.num_classes = mixed_classes, .group = group})(batch, at(0, 0));
    const double lambda = kept(mixed);
    EXPECT_GT(lambda, 0);
    EXPECT_LT(lambda, 1);
    const auto x = batch.input.to_vector<double>(), y = mixed.input.to_vector<double>(),
               target = mixed.target.to_vector<double>();
    const std::int64_t row = batch.input.numel() / mixed_rows;
    for (std::int64_t i = 0; i < mixed_rows; ++i) {
      const std::int64_t size = group == 0 ? mixed_rows : group, first = i / size * size;
      const std::int64_t partner = first + (i - first + size - 1) % size;
      for (std::int64_t e = 0; e < row; ++e) {
        ASSERT_NEAR(y[static_cast<std::size_t>(i * row + e)],
                    lambda * x[static_cast<std::size_t>(i * row + e)] +
                        (1 - lambda) * x[static_cast<std::size_t>(partner * row + e)],
                    1e-10);
      }
      for (std::int64_t c = 0; c < mixed_classes; ++c) {
        ASSERT_NEAR(target[static_cast<std::size_t>(i * mixed_classes + c)],
                    (c == i ? lambda : 0) + (c == partner ? 1 - lambda : 0), 1e-15);
      }
    }
  }
}

TEST(Mixup, CutmixReplacesARectangle) {
  const Batch batch = images_to_mix();
  const auto x = batch.input.to_vector<double>();
  const std::size_t row = x.size() / mixed_rows;
  double least = 1, most = 0;
  for (std::int64_t k = 0; k < 200; ++k) {
    const Batch mixed = cutmix({.num_classes = mixed_classes})(batch, at(0, k));
    const auto y = mixed.input.to_vector<double>();
    std::int64_t top = 8, left = 8, bottom = 0, right = 0, replaced = 0;
    for (std::size_t e = 0; e < row; ++e) {
      const std::size_t own = row + e;
      if (y[own] == x[own]) continue;
      ASSERT_EQ(y[own], x[e]);  // row 1 has the rectangle of row 0
      const auto h = static_cast<std::int64_t>(e % 64 / 8), w = static_cast<std::int64_t>(e % 8);
      top = std::min(top, h), bottom = std::max(bottom, h + 1);
      left = std::min(left, w), right = std::max(right, w + 1);
      ++replaced;
    }
    const std::int64_t area = replaced == 0 ? 0 : (bottom - top) * (right - left);
    EXPECT_EQ(replaced, 2 * area);  // both channels
    EXPECT_NEAR(kept(mixed), 1 - static_cast<double>(area) / 64, 1e-15);
    least = std::min(least, kept(mixed)), most = std::max(most, kept(mixed));
  }
  EXPECT_LT(least, 0.5);  // 6 x 6 of 8 x 8
  EXPECT_GT(most, 0.9);
}

// λ depends on seed, epoch and batch only.
TEST(Mixup, DrawsAreFunctionsOfTheBatch) {
  const auto lambda = [](std::uint64_t seed, std::uint64_t epoch, std::int64_t batch) {
    return kept(
        mixup({.num_classes = mixed_classes, .seed = seed})(images_to_mix(), at(epoch, batch)));
  };
  EXPECT_EQ(lambda(1, 2, 3), lambda(1, 2, 3));
  EXPECT_NE(lambda(1, 2, 3), lambda(2, 2, 3));
  EXPECT_NE(lambda(1, 2, 3), lambda(1, 3, 3));
  EXPECT_NE(lambda(1, 2, 3), lambda(1, 2, 4));
}

TEST(Mixup, LambdaHasTheMomentsOfBeta) {
  const Batch batch{zeros({2, 1}, {.dtype = f64}), images_to_mix(2).target};
  for (const double alpha : {0.2, 1.0, 4.0}) {
    const Transform mix = mixup({.alpha = alpha, .num_classes = mixed_classes});
    double sum = 0, squares = 0;
    constexpr int draws = 4000;
    for (int k = 0; k < draws; ++k) {
      const double lambda = kept(mix(batch, at(0, k)));
      sum += lambda, squares += (lambda - 0.5) * (lambda - 0.5);
    }
    const double variance = 1 / (4 * (2 * alpha + 1));
    EXPECT_NEAR(sum / draws, 0.5, 5 * std::sqrt(variance / draws)) << alpha;
    EXPECT_NEAR(squares / draws, variance, 0.1 * variance) << alpha;
  }
}

// Targets that are probabilities already are mixed again; bytes become floats first.
TEST(Mixup, ComesAfterOtherTransforms) {
  const Transform both =
      compose({ImageTransform(), mixup({.num_classes = mixed_classes}), cutmix({})});
  Batch batch = images_to_mix();
  batch.input = batch.input.to(u8);
  BatchContext context = at(0, 0);
  const Indices indices = {0, 1, 2, 3, 4, 5};
  context.indices = indices;
  const Batch mixed = both(batch, context);
  EXPECT_EQ(mixed.input.dtype(), f32);
  EXPECT_EQ(mixed.target.dtype(), f32);
  const auto target = mixed.target.to_vector<float>();
  for (std::int64_t i = 0; i < mixed_rows; ++i) {
    float sum = 0;
    for (std::int64_t c = 0; c < mixed_classes; ++c)
      sum += target[static_cast<std::size_t>(i * mixed_classes + c)];
    EXPECT_NEAR(sum, 1, 1e-6);
  }
}

TEST(Mixup, BadInput) {
  const Batch batch = images_to_mix();
  EXPECT_ERROR(mixup({.alpha = 0}), Error, "mixup: alpha is 0");
  EXPECT_ERROR(cutmix({.group = -1}), Error, "cutmix: group is -1");
  EXPECT_ERROR(compose({Transform()}), Error, "one of the transforms is empty");
  EXPECT_ERROR(mixup({})(batch, at(0, 0)), Error, "mixup: num_classes is 0");
  EXPECT_ERROR(mixup({.num_classes = 3})(batch, at(0, 0)), Error,
               "mixup: row 3 has class 3, but there are 3 classes");
  EXPECT_ERROR(mixup({.num_classes = 6})({batch.input.to(u8), batch.target}, at(0, 0)), DTypeError,
               "mixup: the inputs are u8");
  EXPECT_ERROR(
      cutmix({.num_classes = 6})({batch.input.reshape({6, 2, 64}), batch.target}, at(0, 0)),
      ShapeError, "are not images (N, C, H, W)");
  EXPECT_ERROR(mixup({})({batch.input, batch.input}, at(0, 0)), ShapeError,
               "are not probabilities of classes");
}

}  // namespace
}  // namespace rondo::data
