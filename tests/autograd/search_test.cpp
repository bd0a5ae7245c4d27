// Running products and extremes, order statistics, and places in sorted data, against PyTorch
// (tests/golden/make_search.py).

#include "autograd/ops/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "autograd/autograd_meta.h"
#include "autograd/engine.h"
#include "autograd/gradcheck.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/scan.h"
#include "autograd/ops/shape.h"
#include "support/errors.h"
#include "support/golden.h"
#include "support/golden_case.h"
#include "support/support.h"
#include "tensor/creation.h"

namespace rondo::test {
namespace {

using X = const Tensors&;
using Integers = std::vector<std::int64_t>;

TEST(Search, ResultsAndGradientsAreThoseOfPyTorch) {
  GoldenCases cases = {
      {"cumprod.zeros", [](X x) { return cumprod(x[0], 0); }},
      {"cummax", [](X x) { return cummax(x[0], 1).values; }},
      {"cummin", [](X x) { return cummin(x[0], 1).values; }},
      {"cummax.ties", [](X x) { return cummax(x[0], 0).values; }},
      {"cummin.ties", [](X x) { return cummin(x[0], 0).values; }},
      {"kthvalue", [](X x) { return kthvalue(x[0], 2).values; }},
      {"kthvalue.kept", [](X x) { return kthvalue(x[0], 3, 0, true).values; }},
      {"median", [](X x) { return median(x[0]); }},
      {"median.1", [](X x) { return median(x[0], 1).values; }},
      {"quantile.all", [](X x) { return quantile(x[0], 0.25); }},
  };
  for (const int d : {0, 1, -1}) {
    cases[concat("cumprod.", d)] = [d](X x) { return cumprod(x[0], d); };
    cases[concat("logcumsumexp.", d)] = [d](X x) { return logcumsumexp(x[0], d); };
  }
  for (const char* kind : {"linear", "lower", "higher", "nearest", "midpoint"})
    for (const auto& [text, q] : {std::pair{"0.0", 0.0}, {"0.3", 0.3}, {"0.5", 0.5}, {"1.0", 1.0}})
      cases[concat("quantile.", kind, '.', text)] = [=, q = q](X x) {
        return quantile(x[0], q, {.dim = 0, .interpolation = kind});
      };
  expect_cases("search.txt", cases);
}

TEST(Search, NaNIsTheLargestAndTheSmallest) {
  const Golden golden("search.txt");
  const Tensor x = golden["nan.x"];
  for (const auto& [name, found] :
       {std::pair{"nan.cummax", cummax(x, 0)}, {"nan.cummin", cummin(x, 0)}}) {
    EXPECT_TRUE(all_close(found.values, golden[name], 0)) << name;
    EXPECT_EQ(found.indices.to_vector<std::int64_t>(),
              golden[concat(name, ".at")].to_vector<std::int64_t>());
  }
  EXPECT_TRUE(std::isnan(median(x, 0).values.item()));
  EXPECT_TRUE(std::isnan(quantile(x, 0.5).item()));
  EXPECT_EQ(median(x.to(f32).narrow(0, 2, 3)).item(), 1);
}

TEST(Search, DistinctValuesPlacesAndCounts) {
  const Golden golden("search.txt");
  const auto same = [&](const Tensor& found, const std::string& name) {
    EXPECT_EQ(found.shape(), golden[name].shape()) << name;
    EXPECT_EQ(found.to(f64).to_vector<double>(), golden[name].to(f64).to_vector<double>()) << name;
  };
  const auto [values, inverse, counts] = unique(golden["unique.x"]);
  same(values, "unique.values");
  same(inverse, "unique.inverse");
  same(counts, "unique.counts");
  for (const bool right : {false, true}) {
    const SearchOptions options{.right = right};
    const std::string suffix = concat('.', right ? 1 : 0);
    same(searchsorted(golden["line"], golden["places"], options), "searchsorted" + suffix);
    same(searchsorted(golden["rows"], golden["places"], options), "rows" + suffix);
    same(bucketize(golden["places"], golden["line"], options), "bucketize" + suffix);
  }
  const Tensor counted = tensor<std::int64_t>({0, 3, 1, 3, 3});
  same(bincount(counted, {.minlength = 6}), "bincount");
  same(bincount(counted, {.weights = tensor<double>({0.5, 1, 2, 0.25, 4})}), "bincount.weights");
  same(isin(golden["unique.x"], tensor<std::int64_t>({3, 0, 99})), "isin");
  // Nothing in, nothing out.
  const Tensor none = zeros({0}, {.dtype = i64});
  EXPECT_EQ(unique(none).values.numel() + unique(none).counts.numel(), 0);
  EXPECT_EQ(bincount(none).numel(), 0);
  EXPECT_EQ(searchsorted(tensor({1.F}), zeros({0})).shape(), (Dims{0}));
  EXPECT_EQ(searchsorted(zeros({0}), tensor({1.F, 2.F})).to_vector<std::int64_t>(),
            (Integers{0, 0}));
  EXPECT_EQ(isin(tensor({1.F}), zeros({0})).to_vector<std::int64_t>(), (Integers{0}));
  EXPECT_EQ(unique(tensor({2.F, NAN, 2.F, NAN})).values.numel(), 3);
}

TEST(Search, OtherDtypes) {
  const Tensor places = searchsorted(tensor<std::int64_t>({1, 2, 3}), tensor({1.5F, 3.F}));
  EXPECT_EQ(places.to_vector<std::int64_t>(), (Integers{1, 2})) << "1.5 is not rounded";
  EXPECT_EQ(cumprod(tensor<std::int32_t>({2, 3, 4}), 0).dtype(), i64);
  EXPECT_EQ(cumprod(tensor<std::int32_t>({2, 3, 4}), 0).to_vector<std::int64_t>(),
            (Integers{2, 6, 24}));
  // Computed in f32, and rounded once.
  EXPECT_EQ(cumprod(full({3}, 1.0078125, {.dtype = bf16}), 0).to(f32)[2].item(), 1.0234375);
  // Parts of the product that f32 cannot hold.
  EXPECT_EQ(cumprod(tensor({0.F, 1e30F, 1e30F}), 0)[2].item(), 0);
  EXPECT_FLOAT_EQ(cumprod(tensor({1e-30F, 1e30F, 1e30F}), 0)[2].item<float>(), 1e30F);
  EXPECT_EQ(median(tensor<std::int64_t>({5, 1, 4, 2})).item<std::int64_t>(), 2);
  EXPECT_EQ(cummax(tensor<std::uint8_t>({1, 3, 2}), 0).values.to_vector<std::int64_t>(),
            (Integers{1, 3, 3}));
  EXPECT_EQ(logcumsumexp(full({2}, -INFINITY), 0)[1].item(), -INFINITY);
}

// The gradient of a product divides by nothing, so it is finite for elements that no factor without
// a number touches, and keeps what f32 can hold where a product underflows.
TEST(Search, GradientsOfProductsAtExtremes) {
  const auto gradient = [](const std::vector<float>& numbers, const std::vector<float>& dy) {
    const Tensor x = tensor(numbers).requires_grad_();
    cumprod(x, 0).backward(tensor(dy));
    return x.grad().to_vector<float>();
  };
  using Floats = std::vector<float>;
  EXPECT_EQ(gradient({1e20F, 1e20F, 1e-10F}, {1, 0, 0}), (Floats{1, 0, 0}));
  EXPECT_EQ(gradient({2, INFINITY}, {1, 1}), (Floats{INFINITY, 2}));
  EXPECT_EQ(gradient({1e-23F, 1e-23F}, {1, 1}), (Floats{1, 1e-23F}));
  EXPECT_EQ(gradient({0, 0, 5}, {1, 1, 1}), (Floats{1, 0, 0}));
  EXPECT_EQ(gradient({1, 2, INFINITY}, {1, 0, 0}), (Floats{1, 0, 0}));
  // A hook of x runs once, whatever the backward itself records.
  for (const bool create_graph : {false, true}) {
    const Tensor x = tensor<double>({2, 0, 3}).requires_grad_();
    x.register_hook([](const Tensor& g) { return g * 10; });
    const Tensor dx = grad({cumprod(x, 0).sum()}, {x}, {.create_graph = create_graph})[0];
    EXPECT_EQ(dx.detach().to_vector<double>(), (std::vector<double>{10, 80, 0}));
  }
}

TEST(Search, SecondDerivatives) {
  const Tensor x = tensor<double>({2, 0, 3, 0.5}).requires_grad_();
  const auto checked = [&](const std::function<Tensor(const Tensor&)>& f) {
    const GradcheckResult result =
        gradgradcheck([&](X inputs) { return Tensors{f(inputs[0]) * f(inputs[0])}; }, {x});
    EXPECT_TRUE(result.ok) << result.message;
  };
  checked([](const Tensor& y) { return cumprod(y, 0); });
  checked([](const Tensor& y) { return logcumsumexp(y, 0); });
}

TEST(Search, Errors) {
  const Tensor x = ones({2, 3});
  EXPECT_ERROR(kthvalue(x, 4), ShapeError, "kthvalue: k = 4 is not one of 1 … 3");
  EXPECT_ERROR(kthvalue(x, 0), ShapeError, "k = 0");
  EXPECT_ERROR(median(ones({0})), ShapeError, "median: the tensor [0] has no elements");
  EXPECT_ERROR(quantile(x, 1.5), Error, "quantile: q = 1.5 is not in 0 … 1");
  EXPECT_ERROR(quantile(x, NAN), Error, "quantile: q = nan");
  EXPECT_ERROR(quantile(x, 0.5, {.interpolation = "cubic"}), Error, "there are linear, lower");
  EXPECT_ERROR(quantile(x.to(i64), 0.5), DTypeError, "expected f32 or f64");
  EXPECT_ERROR(searchsorted(x, ones({3, 1})), ShapeError, "all sizes except the last");
  EXPECT_ERROR(bincount(tensor<std::int64_t>({1, -2})), Error, "bincount: -2 is negative");
  EXPECT_ERROR(bincount(tensor<std::int64_t>({INT64_MAX})), Error, "is too large for a table");
  EXPECT_EQ(
      bincount(tensor<std::int64_t>({0, 1}), {.weights = tensor<std::int64_t>({1, 2})}).dtype(),
      f64);
  EXPECT_ERROR(bincount(ones({3})), DTypeError, "expected integers");
  EXPECT_ERROR(bincount(tensor<std::int64_t>({1}), {.weights = ones({2})}), ShapeError, "[2]");
  EXPECT_ERROR(cumprod(x, 2), ShapeError, "cumprod");
  EXPECT_ERROR(logcumsumexp(x.to(i64), 0), DTypeError, "logcumsumexp");
}

}  // namespace
}  // namespace rondo::test
