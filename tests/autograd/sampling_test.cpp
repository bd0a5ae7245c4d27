// Random draws: their frequencies, within bounds that a correct sampler misses once in 10^9 runs (6
// standard deviations of a count), and what must never be drawn.

#include "autograd/ops/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/search.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/subscript.h"
#include "autograd/ops/unary.h"
#include "support/errors.h"
#include "support/support.h"
#include "tensor/creation.h"

namespace rondo::test {
namespace {

void expect_count(double count, std::int64_t n, double p) {
  const double mean = static_cast<double>(n) * p;
  EXPECT_NEAR(count, mean, 6 * std::sqrt(mean * (1 - p)) + 1e-9);
}

TEST(Sampling, Bernoulli) {
  manual_seed(1);
  constexpr std::int64_t n = 100'000;
  for (const DType dtype : {f32, f64, bf16, f16})
    for (const double p : {0.0, 0.25, 0.5, 1.0}) {
      const Tensor y = bernoulli(full({n}, p, {.dtype = dtype}));
      EXPECT_EQ(y.dtype(), dtype);
      EXPECT_TRUE(all((y == 0) + (y == 1)).item<bool>());
      expect_count(sum(y.to(f64)).item(), n, p);
    }
}

TEST(Sampling, Multinomial) {
  manual_seed(2);
  constexpr std::int64_t n = 60'000;
  const Tensor weights = tensor({0.F, 1.F, 2.F, 0.F, 3.F, 0.F});
  const Tensor counts = bincount(multinomial(weights, n, true), {.minlength = 6});
  for (std::int64_t i = 0; i < 6; ++i) expect_count(counts[i].item(), n, weights[i].item() / 6);
  // Without replacement: the first of two draws has the same frequencies, and no draw is repeated.
  const Tensor draws = multinomial(expand(weights, {n, 6}), 2);
  EXPECT_EQ(draws.shape(), (Dims{n, 2}));
  const Tensor first = draws[{Slice(), 0}], second = draws[{Slice(), 1}];
  EXPECT_TRUE(all(first != second).item<bool>());
  const Tensor first_counts = bincount(first.contiguous(), {.minlength = 6});
  for (std::int64_t i = 0; i < 6; ++i)
    expect_count(first_counts[i].item(), n, weights[i].item() / 6);
  // P(second = 1) = 2/6 · 1/4 + 3/6 · 1/3.
  expect_count(sum(second == 1).item(), n, 1.0 / 12 + 1.0 / 6);
  // All of the possible ones.
  const Tensor all_three = multinomial(weights, 3).sort().values;
  EXPECT_EQ(all_three.to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 2, 4}));
}

TEST(Sampling, TheSeedRepeatsThem) {
  const Tensor weights = rand({5, 7});
  manual_seed(3);
  const Tensor a = multinomial(weights, 4), b = bernoulli(weights);
  manual_seed(3);
  EXPECT_TRUE(identical(a, multinomial(weights, 4)));
  EXPECT_TRUE(identical(b, bernoulli(weights)));
}

TEST(Sampling, GumbelSoftmax) {
  manual_seed(4);
  constexpr std::int64_t n = 60'000;
  const Tensor logits = expand(tensor({0.F, std::log(2.F), std::log(3.F)}), {n, 3});
  const Tensor soft = gumbel_softmax(logits, {.tau = 0.5});
  EXPECT_TRUE(all(abs(sum(soft, {1}) - 1) < 1e-5).item<bool>());
  const Tensor counts = bincount(argmax(soft, 1));
  for (std::int64_t i = 0; i < 3; ++i)
    expect_count(counts[i].item(), n, static_cast<double>(i + 1) / 6);
  // Hard: one-hot, with the gradient of the soft draw.
  const Tensor leaf = logits.narrow(0, 0, 4).clone().requires_grad_();
  manual_seed(5);
  const Tensor hard = gumbel_softmax(leaf, {.hard = true});
  EXPECT_TRUE(all(sum(hard > 0.5, {1}) == 1).item<bool>());
  const Tensor scores = rand({4, 3});
  sum(hard * scores).backward();
  const Tensor of_hard = leaf.grad();
  leaf.zero_grad();
  manual_seed(5);
  sum(gumbel_softmax(leaf) * scores).backward();
  EXPECT_TRUE(identical(of_hard, leaf.grad()));
}

TEST(Sampling, Errors) {
  EXPECT_ERROR(bernoulli(tensor({0.5F, 1.5F})), Error, "bernoulli: a probability is outside");
  EXPECT_ERROR(bernoulli(tensor({NAN})), Error, "outside of 0 … 1, or NaN");
  EXPECT_ERROR(bernoulli(ones({2}, {.dtype = i64})), DTypeError, "bernoulli");
  EXPECT_ERROR(multinomial(tensor({1.F, -1.F}), 1), Error, "a weight is negative");
  EXPECT_ERROR(multinomial(tensor({1.F, INFINITY}), 1), Error, "not finite");
  EXPECT_ERROR(multinomial(tensor({0.F, 0.F}), 1, true), Error, "a row has fewer");
  EXPECT_ERROR(multinomial(tensor({1.F, 0.F}), 2), Error, "2 draws without replacement need 2");
  EXPECT_ERROR(multinomial(ones({1, 2, 3}), 1), ShapeError, "expected weights (categories)");
  EXPECT_ERROR(multinomial(ones({3}), 0), Error, "0 draws");
  EXPECT_ERROR(gumbel_softmax(ones({3}), {.tau = 0}), Error, "tau is 0");
}

}  // namespace
}  // namespace rondo::test
