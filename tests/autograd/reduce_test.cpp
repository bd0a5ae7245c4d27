// Reductions against PyTorch, in edge cases, and their errors. Derivatives: op_table_test.cpp.

#include "autograd/ops/reduce.h"

#include <cmath>
#include <limits>

#include "autograd/engine.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "support/errors.h"
#include "support/golden_case.h"
#include "support/support.h"

namespace rondo::test {
namespace {

using X = const Tensors&;
constexpr double f64_inf = std::numeric_limits<double>::infinity();

TEST(Reduce, SumsAndMeans) {
  expect_golden(
      "sum",
      [](X x) {
        return Tensors{sum(x[0]), sum(x[0], {0, 2}), sum(x[0], {1}, true)};
      },
      24);
  expect_golden(
      "mean",
      [](X x) {
        return Tensors{mean(x[0]), mean(x[0], {0, 2}), mean(x[0], {1}, true)};
      },
      24);
}

TEST(Reduce, Variances) {
  expect_golden(
      "var",
      [](X x) {
        return Tensors{var(x[0]), var(x[0], {0, 2}), var(x[0], {1}, 0, true)};
      },
      24);
  expect_golden(
      "std",
      [](X x) {
        return Tensors{rondo::std(x[0]), rondo::std(x[0], {0, 2}), rondo::std(x[0], {1}, 0, true)};
      },
      24);
}

TEST(Reduce, ConstantRowsHaveNoSlope) {
  expect_golden(
      "std.constant", [](X x) { return rondo::std(x[0], {1}); }, 3);
  expect_golden(
      "norm.zero", [](X x) { return norm(x[0], {1}); }, 2);
}

TEST(Reduce, Products) {
  for (const char* name : {"prod", "prod.one_zero", "prod.two_zeros"}) {
    expect_golden(
        name, [](X x) { return prod(x[0]); }, 7);
  }
}

TEST(Reduce, Norms) {
  expect_golden(
      "norm",
      [](X x) {
        return Tensors{norm(x[0]), norm(x[0], {0, 2}), norm(x[0], {1}, true)};
      },
      24);
}

TEST(Reduce, LogSumExp) {
  expect_golden(
      "logsumexp",
      [](X x) {
        return Tensors{logsumexp(x[0], {1}), logsumexp(x[0], {0, 2}, true)};
      },
      8);
  expect_golden(
      "logsumexp.large", [](X x) { return logsumexp(x[0], {0}); }, 3, 1000);
  expect_golden(
      "logsumexp.infinite", [](X x) { return logsumexp(x[0], {1}); }, 2);
}

TEST(Reduce, RunningSums) {
  expect_golden(
      "cumsum",
      [](X x) {
        return Tensors{cumsum(x[0], 0), cumsum(x[0], 1), cumsum(x[0], -1)};
      },
      9);
}

TEST(Reduce, ExtremaShareTheirGradientAmongEquals) {
  expect_golden("max.ties", [](X x) { return Tensors{max(x[0]), min(x[0])}; });
}

TEST(Reduce, ExtremaAlongADimension) {
  expect_golden("max.dim", [](X x) {
    auto [high, high_at] = max(x[0], 1);
    auto [low, low_at] = min(x[0], 0, true);
    return Tensors{high, high_at, low, low_at};
  });
  expect_golden("arg", [](X x) { return Tensors{argmax(x[0], 1), argmin(x[0], 0, true)}; });
}

TEST(Reduce, SortAndTopk) {
  expect_golden("sort", [](X x) {
    auto [up, up_from] = sort(x[0], 1);
    auto [down, down_from] = sort(x[0], 0, true);
    return Tensors{up, up_from, down, down_from};
  });
  expect_golden("topk", [](X x) {
    auto [high, high_at] = topk(x[0], 2);
    auto [low, low_at] = topk(x[0], 2, 0, false);
    return Tensors{high, high_at, low, low_at};
  });
}

// Candidates are those that come before a pivot. In ascending order NaN must not count as one.
TEST(Reduce, TopkOfLinesWithManyNaNs) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (std::int64_t n : {512, 1000, 20'000}) {
    for (std::int64_t every : {2, 3, 12}) {
      std::vector<double> line(static_cast<std::size_t>(n), 1e6);
      for (std::int64_t i = 0; i < n; ++i) {
        auto& x = line[static_cast<std::size_t>(i)];
        if (i % 8 == 0)
          x = static_cast<double>(i / 8);
        else if (i % every == 1)
          x = nan;
      }
      const Tensor x = tensor<double>(line);
      for (bool largest : {false, true}) {
        const auto sorted = sort(x, 0, largest);
        for (std::int64_t k : {1, 5, 64}) {
          const auto found = topk(x, k, 0, largest);
          EXPECT_EQ(found.indices.to_vector<std::int64_t>(),
                    sorted.indices.narrow(0, 0, k).contiguous().to_vector<std::int64_t>())
              << "n = " << n << ", k = " << k << ", largest = " << largest;
        }
      }
    }
  }
}

// topk of a small k skips blocks of elements (tensor/cpu/sort.cpp). It must not miss any: if many
// are equal, if all are equal, if few are large, or if there is NaN.
TEST(Reduce, TopkOfLongLinesIsTheHeadOfTheSorted) {
  const std::int64_t n = 50'000;
  Tensor spiky = zeros({n});
  for (std::int64_t i = 1; i < n; i += 100) spiky.narrow(0, i, 1).fill_(static_cast<double>(i));
  Tensor with_nan = randn({n});
  with_nan.narrow(0, 77, 3).fill_(std::nan(""));
  const Tensor some[] = {randn({n}), floor(randn({n}) * 3.0),   zeros({n}), spiky,
                         with_nan,   randn({3, n}).select(0, 1)};
  for (const Tensor& x : some) {
    for (bool largest : {true, false}) {
      const auto [sorted, from] = sort(x, 0, largest);
      for (std::int64_t k : {1, 65, 500, 6000, 30'000}) {
        const auto [values, indices] = topk(x, k, 0, largest);
        EXPECT_TRUE(identical(indices, from.narrow(0, 0, k))) << k;
        EXPECT_TRUE(identical(values, sorted.narrow(0, 0, k)) || x.is_same(some[4])) << k;
      }
    }
  }
}

TEST(Reduce, IntegersAndBoolsSumToI64) {
  expect_golden("integers", [](X x) {
    return Tensors{sum(x[0]), sum(x[0], {0}), prod(x[0]), cumsum(x[0], 1),
                   max(x[0]), sum(x[1], {0}), all(x[1]),  any(x[1])};
  });
}

TEST(Reduce, NothingToReduce) {
  Tensor none = zeros({0, 3});
  EXPECT_TRUE(identical(sum(none, {0}), zeros({3})));
  EXPECT_TRUE(identical(prod(none), scalar(1.0)));
  EXPECT_TRUE(std::isnan(mean(none).item()));
  EXPECT_TRUE(identical(logsumexp(none, {0}), full({3}, -f64_inf)));
  EXPECT_TRUE(identical(norm(none), scalar(0.0)));
  EXPECT_TRUE(all(none).item<bool>());
  EXPECT_FALSE(any(none).item<bool>());
  EXPECT_EQ(sort(none).values.shape(), (Dims{0, 3}));
  EXPECT_EQ(topk(none, 0, 0).values.shape(), (Dims{0, 3}));
}

TEST(Reduce, ATensorWithoutDimensions) {
  Tensor x = scalar(-3.0).requires_grad_();
  EXPECT_TRUE(identical(sum(x, {0}), scalar(-3.0)));
  EXPECT_TRUE(identical(cumsum(x, -1), scalar(-3.0)));
  EXPECT_TRUE(identical(sort(x).values, scalar(-3.0)));
  ValuesAndIndices top = max(x, 0);
  EXPECT_TRUE(identical(top.values, scalar(-3.0)));
  EXPECT_TRUE(identical(top.indices, scalar(0, {.dtype = i64})));
  norm(x).backward();
  EXPECT_EQ(x.grad().item(), -1);
}

TEST(Reduce, SixteenBitsDoNotOverflowOnTheWay) {
  Tensor x = full({300}, 600, {.dtype = f16});  // the sum is 180000; the largest f16 is 65504
  EXPECT_EQ(mean(x).item(), 600);
  EXPECT_EQ(norm(x).item(), static_cast<float>(Half(600 * std::sqrt(300.f))));
  EXPECT_TRUE(std::isinf(sum(x).item()));
}

TEST(Reduce, Errors) {
  Tensor x = zeros({2, 3}), none = zeros({2, 0}), integers = zeros({2}, {.dtype = i64});
  EXPECT_ERROR(sum(x, {2}), ShapeError, "sum: dimension 2 is out of range");
  EXPECT_ERROR(sum(x, {0, -2}), ShapeError, "sum: dimension 0 appears twice in [0, -2]");
  EXPECT_ERROR(mean(integers), DTypeError, "mean: the input is i64");
  EXPECT_ERROR(var(integers), DTypeError, "var: the input is i64");
  EXPECT_ERROR(rondo::std(integers), DTypeError, "std: the input is i64");
  EXPECT_ERROR(norm(integers), DTypeError, "norm: the input is i64");
  EXPECT_ERROR(logsumexp(Tensor(), {0}), Error, "logsumexp: ");
  EXPECT_ERROR(cumsum(x, 5), ShapeError, "cumsum: dimension 5");
  EXPECT_ERROR(max(none), ShapeError, "max: the tensor [2, 0] has no elements");
  EXPECT_ERROR(min(none, 1), ShapeError, "min: dimension 1 of shape [2, 0] has no elements");
  EXPECT_ERROR(argmax(x, -3), ShapeError, "argmax: dimension -3");
  EXPECT_ERROR(sort(x, 2), ShapeError, "sort: dimension 2");
  EXPECT_ERROR(topk(x, 4), ShapeError, "topk: k = 4 is not within dimension 1 of shape [2, 3]");
}

TEST(Reduce, SixteenBitsAreComputedInF32) {
  Tensor x = converted(tensor<float>({0, 1000}), f16);
  EXPECT_EQ(rondo::std(x).dtype(), f16);
  EXPECT_EQ(rondo::std(x).item(), 707);
  EXPECT_EQ(var(converted(tensor<float>({0, 256}), f16)).item(), 32768);  // 256^2 overflows to inf
  Tensor factors = converted(tensor<float>({300, 300, 0.001f, 0.5f}), f16);
  EXPECT_NEAR(prod(factors).item(), 45, 0.05);  // 90000 as an intermediate result
  Tensor y = converted(tensor<float>({0, 1000, 400}), f16).requires_grad_();
  rondo::std(y).backward();
  Tensor expected = converted(tensor<float>({-0.4639f, 0.5298f, -0.0663f}), f16);
  EXPECT_TRUE(all_close(y.grad(), expected, tolerance(f16)));
}

TEST(Reduce, IntegersWrapAround) {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(sum(tensor<std::int64_t>({most, most})).item<std::int64_t>(), -2);
  EXPECT_EQ(prod(tensor<std::int64_t>({most, most})).item<std::int64_t>(), 1);
  EXPECT_EQ(cumsum(tensor<std::int64_t>({most, most}), 0).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{most, -2}));
}

TEST(Reduce, VectorNorms) {
  auto check = [](double ord, double value, std::vector<double> slope) {
    Tensor x = tensor<double>({3, -4, 4, 0}).requires_grad_(), y = vector_norm(x, ord);
    EXPECT_NEAR(y.item<double>(), value, 1e-12) << ord;
    y.backward();
    EXPECT_TRUE(all_close(x.grad(), tensor(slope), 5e-5)) << ord;
  };
  check(1, 11, {1, -1, 1, 0});
  check(2, std::sqrt(41.0), {0.4685, -0.6247, 0.6247, 0});
  check(3, std::cbrt(155.0), {0.3119, -0.5545, 0.5545, 0});
  check(0.5, std::pow(std::sqrt(3.0) + 4, 2), {3.3094, -2.8660, 2.8660, 0});
  check(f64_inf, 4, {0, -0.5, 0.5, 0});
  for (double ord : {1.0, 2.0, 3.0, f64_inf}) {
    Tensor x = zeros({2}).requires_grad_();
    vector_norm(x, ord).backward();
    EXPECT_TRUE(identical(x.grad(), zeros({2}))) << ord;
  }
  EXPECT_EQ(vector_norm(zeros({0}), 3).item(), 0);
  EXPECT_EQ(vector_norm(converted(tensor<float>({100, 100}), f16), 3).item(), 126);  // 1e6 is inf
  EXPECT_ERROR(vector_norm(zeros({0, 2}), f64_inf, {0}), ShapeError,
               "vector_norm: the tensor [0, 2]");
  EXPECT_ERROR(vector_norm(zeros({2}), 0), Error, "vector_norm: ord 0 is not positive");
  EXPECT_ERROR(vector_norm(zeros({2}, {.dtype = i64}), 1), DTypeError, "vector_norm: the input");
}

TEST(Reduce, IndexOfTheExtremeOfAll) {
  Tensor x = tensor<float>({1, 5, 7, 2, 7, 1}, {2, 3});
  EXPECT_EQ(argmax(x).item<int>(), 2);
  EXPECT_EQ(x.t().argmax().item<int>(), 3);  // rows of the transpose: 1 2, 5 7, 7 1
  EXPECT_EQ(argmin(x).item<int>(), 0);
  EXPECT_EQ(argmax(scalar(3)).dim(), 0);
  EXPECT_ERROR(argmax(zeros({0})), ShapeError, "argmax: dimension 0 of shape [0] has no elements");
}

// The squares of these overflow or underflow in f32; PyTorch computes them in f64.
TEST(Reduce, DeviationsOfVeryLargeAndVerySmallNumbers) {
  for (double size : {1e30, 1e-25}) {
    const Tensor x = tensor<float>({static_cast<float>(size), static_cast<float>(-size), 0});
    x.requires_grad_();
    const Tensor y = rondo::std(x);
    EXPECT_FLOAT_EQ(static_cast<float>(y.item()), static_cast<float>(size));
    y.backward();
    EXPECT_EQ(x.grad().to_vector(), (std::vector<float>{0.5, -0.5, 0}));
  }
  EXPECT_EQ(var(tensor<float>({1e30f, -1e30f, 0})).item(), f64_inf);
}

TEST(Reduce, ANaNTakesTheGradientOfAnExtremum) {
  using Values = std::vector<float>;
  for (auto f :
       {+[](const Tensor& x) { return max(x); }, +[](const Tensor& x) { return min(x); }}) {
    const Tensor x = tensor<float>({1, NAN, 3, NAN}).requires_grad_();
    f(x).backward();
    EXPECT_EQ(x.grad().to_vector(), (Values{0, 0.5, 0, 0.5}));
  }
  const Tensor x = tensor<float>({1, NAN, 3}).requires_grad_();
  vector_norm(x, f64_inf).backward();
  EXPECT_EQ(x.grad().to_vector(), (Values{0, 0, 0}));
}

// If a norm is 0, its second derivative is defined as 0 too.
TEST(Reduce, ZeroNormsHaveSecondDerivatives) {
  for (auto f :
       {+[](const Tensor& x) { return norm(x); }, +[](const Tensor& x) { return rondo::std(x); },
        +[](const Tensor& x) { return vector_norm(x, 0.5); }}) {
    const Tensor x = leaf({0, 0, 0});
    const Tensor first = grad({f(x)}, {x}, {.create_graph = true})[0];
    EXPECT_EQ(first.to_vector<double>(), (std::vector<double>{0, 0, 0}));
    EXPECT_EQ(grad({first.sum()}, {x})[0].to_vector<double>(), (std::vector<double>{0, 0, 0}));
  }
}

TEST(Reduce, TopkOfATensorWithoutDimensions) {
  const Tensor x = scalar(5).requires_grad_();
  for (std::int64_t k : {0, 1}) {  // PyTorch returns the element for k = 0 as well
    const auto [value, index] = topk(x, k);
    EXPECT_EQ(value.shape(), Dims{});
    EXPECT_EQ(value.item(), 5);
    EXPECT_EQ(index.item(), 0);
  }
  topk(x, 1).values.backward();
  EXPECT_EQ(x.grad().item(), 1);
  EXPECT_ERROR(topk(x, 2), ShapeError, "topk: k = 2 of a tensor of one element");
}

// The kernel sums four lines at a time, and the rest alone.
TEST(Reduce, CumsumOfAnyNumberOfLines) {
  for (std::int64_t lines = 1; lines <= 9; ++lines) {
    const Tensor x = randn({lines, 5}, {.dtype = f64}).requires_grad_();
    for (const Tensor& y : {cumsum(x, 1), cumsum(x.t(), 0).t()}) {
      Tensor sum = zeros({lines}, {.dtype = f64});
      for (std::int64_t i = 0; i < 5; ++i) {
        sum = sum + x.detach().select(1, i);
        EXPECT_TRUE(identical(y.detach().select(1, i), sum)) << lines;
      }
    }
    // Backward sums from the end.
    EXPECT_TRUE(identical(grad({cumsum(x, 1).sum()}, {x})[0],
                          arange(5, 0, -1, {.dtype = f64}).expand({lines, 5})));
  }
}

}  // namespace
}  // namespace rondo::test
