// Sums without NaN, covariances, differences and integrals, against PyTorch
// (tests/golden/make_more_ops.py).

#include "autograd/ops/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "autograd/ops/search.h"
#include "support/errors.h"
#include "support/golden.h"
#include "support/golden_case.h"
#include "support/support.h"
#include "tensor/creation.h"

namespace rondo::test {
namespace {

using X = const Tensors&;

TEST(Statistics, ResultsAndGradientsAreThoseOfPyTorch) {
  GoldenCases cases = {
      {"cov", [](X x) { return cov(x[0]); }},
      {"cov.0", [](X x) { return cov(x[0], {.correction = 0}); }},
      {"corrcoef", [](X x) { return corrcoef(x[0]); }},
      {"diff", [](X x) { return diff(x[0]); }},
      {"diff.2", [](X x) { return diff(x[0], {.n = 2, .dim = 0}); }},
      {"diff.joined", [](X x) { return diff(x[0], {.prepend = x[1], .append = x[2]}); }},
      {"trapezoid", [](X x) { return trapezoid(x[0]); }},
      {"trapezoid.dx", [](X x) { return trapezoid(x[0], {.dx = 0.5, .dim = 0}); }},
      {"trapezoid.x", [](X x) { return trapezoid(x[0], {.x = x[1]}); }},
      {"trapezoid.x.dim", [](X x) { return trapezoid(x[0], {.x = x[1], .dim = 0}); }},
      {"trapezoid.xs", [](X x) { return trapezoid(x[0], {.x = x[1]}); }},
      {"cumulative_trapezoid", [](X x) { return cumulative_trapezoid(x[0]); }},
      {"cumulative_trapezoid.x", [](X x) { return cumulative_trapezoid(x[0], {.x = x[1]}); }},
      {"quantile.several",
       [](X x) {
         const Tensor q = tensor<double>({0.1, 0.5, 0.9});
         return quantile(x[0], q.to(x[0].dtype()), {.dim = 0, .keepdim = true});
       }},
      {"quantile.all",
       [](X x) {
         return quantile(x[0], tensor<double>({0.1, 0.5, 0.9}));
       }},
  };
  for (const Dims& dims : {Dims{}, Dims{1}, Dims{0, 2}}) {
    cases[concat("nansum.", dims.size())] = [dims](X x) { return nansum(x[0], dims); };
    cases[concat("nanmean.", dims.size())] = [dims](X x) { return x[0].nanmean(dims); };
  }
  expect_cases("more_ops.txt", cases);
}

TEST(Statistics, Counts) {
  const Golden golden("more_ops.txt");
  EXPECT_TRUE(identical(count_nonzero(golden["count_nonzero.0"], {1}), golden["count_nonzero.y"]));
  const auto same = [&](const std::string& name, const HistcOptions& options) {
    EXPECT_TRUE(identical(histc(golden[name + ".0"], options), golden[name + ".y"])) << name;
  };
  same("histc", {.bins = 4, .min = 0, .max = 4});
  same("histc.range", {.bins = 3});
  same("histc.one", {.bins = 3});
  EXPECT_EQ(histc(zeros({0}), {.bins = 2}).to_vector(), (std::vector<float>{0, 0}));
}

TEST(Statistics, OtherDtypes) {
  EXPECT_EQ(nansum(tensor<std::int32_t>({1, 2})).dtype(), i64);
  const Tensor flags = tensor<bool>({true, true, false});
  EXPECT_EQ(diff(flags).to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(diff(ones({1})).numel(), 0);
  EXPECT_EQ(trapezoid(ones({1})).item(), 0);
  // x lacks the first dimension of y.
  EXPECT_EQ(
      trapezoid(ones({2, 3, 4}), {.x = arange(3).to(f32).unsqueeze(1).expand({3, 4}), .dim = 1})
          .to_vector(),
      std::vector<float>(8, 2));
  EXPECT_TRUE(std::isnan(nanmean(full({2}, NAN)).item()));
  EXPECT_EQ(cov(tensor({1.F, 3.F})).item(), 2);
  EXPECT_EQ(corrcoef(tensor({1.F, 3.F})).item(), 1);
  const auto [deviation, average] = std_mean(tensor({1.F, 3.F}));
  EXPECT_FLOAT_EQ(deviation.item<float>(), std::sqrt(2.F));
  EXPECT_EQ(average.item(), 2);
}

TEST(Statistics, Errors) {
  const Tensor x = ones({2, 3});
  EXPECT_ERROR(cov(ones({1, 2, 3})), ShapeError, "cov: expected (variables, n) or (n)");
  EXPECT_ERROR(nanmean(x.to(i64)), DTypeError, "nanmean: the input is i64");
  EXPECT_ERROR(diff(ones({})), ShapeError, "diff: a tensor without dimensions");
  EXPECT_ERROR(diff(x, {.n = -1}), Error, "diff: n is -1; expected 0 or more");
  EXPECT_ERROR(trapezoid(ones({})), ShapeError, "trapezoid: a tensor without dimensions");
  EXPECT_ERROR(trapezoid(x, {.x = ones({2})}), ShapeError,
               "trapezoid: x of shape [2] does not fit dimension 1 of [2, 3]");
  EXPECT_ERROR(histc(x, {.bins = 0}), Error, "histc: 0 bins is not a positive number");
  EXPECT_ERROR(histc(x, {.min = 1, .max = 0}), Error, "histc: min 1 exceeds max 0");
  EXPECT_ERROR(histc(full({1}, INFINITY)), Error, "is not finite");
  EXPECT_ERROR(histc(x.to(i64)), DTypeError, "histc: the input is i64");
  EXPECT_ERROR(quantile(x, ones({1, 1})), ShapeError, "quantile: q has shape [1, 1]");
  EXPECT_ERROR(quantile(x, tensor<double>({0.5})), DTypeError, "quantile: q is f64");
  EXPECT_ERROR(quantile(x, zeros({0})), ShapeError, "quantile: q has no elements");
}

}  // namespace
}  // namespace rondo::test
