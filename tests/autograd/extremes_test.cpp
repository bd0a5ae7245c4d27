// Ops at ±inf, NaN, the largest and smallest normal numbers, and integers beyond 2^53, compared
// with PyTorch: tests/golden/make_extremes.py. Each element must equal PyTorch's f32 result, or
// PyTorch's f64 result after rounding. Where the two differ, f32 has overflowed or underflowed in
// an intermediate result.

#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "autograd/engine.h"
#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/composed.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/norm.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "support/golden.h"
#include "support/support.h"
#include "support/test_device.h"

namespace rondo::test {
namespace {

using X = const Tensors&;
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr Reduction each = Reduction::none;

const Golden& goldens() {
  static const Golden golden("extremes.txt");
  return golden;
}

/// Applies f to each row of x.
Tensor of_rows(const Tensor& x, Tensor (*f)(const Tensor&)) {
  Tensors results;
  for (const Tensor& row : unbind(x, 0)) results.push_back(f(row));
  return stack(results, 0);
}

#define UNARY(name)                       \
  {                                       \
#name, [](X x) { return name(x[0]); } \
  }
#define BINARY(name)                            \
  {                                             \
#name, [](X x) { return name(x[0], x[1]); } \
  }

const std::map<std::string, std::function<Tensor(X)>>& operations() {
  static const std::map<std::string, std::function<Tensor(X)>> all = {
      UNARY(neg),
      UNARY(abs),
      UNARY(sign),
      UNARY(exp),
      UNARY(expm1),
      UNARY(log),
      UNARY(log1p),
      UNARY(exp2),
      UNARY(log2),
      UNARY(log10),
      UNARY(asinh),
      UNARY(acosh),
      UNARY(atanh),
      UNARY(erfc),
      UNARY(erfinv),
      UNARY(lgamma),
      UNARY(frac),
      UNARY(sqrt),
      UNARY(rsqrt),
      UNARY(reciprocal),
      UNARY(square),
      UNARY(sin),
      UNARY(cos),
      UNARY(tan),
      UNARY(sinh),
      UNARY(cosh),
      UNARY(asin),
      UNARY(acos),
      UNARY(atan),
      UNARY(erf),
      UNARY(floor),
      UNARY(ceil),
      UNARY(round),
      UNARY(trunc),
      UNARY(relu),
      UNARY(sigmoid),
      UNARY(tanh),
      UNARY(leaky_relu),
      UNARY(silu),
      UNARY(gelu),
      UNARY(softplus),
      {"clamp", [](X x) { return clamp(x[0], -2, 3); }},
      {"gelu.tanh", [](X x) { return gelu(x[0], GeluApproximation::tanh); }},
      {"pow.3", [](X x) { return pow(x[0], 3); }},
      {"pow.quarter", [](X x) { return pow(x[0], 0.25); }},
      BINARY(add),
      BINARY(sub),
      BINARY(mul),
      BINARY(div),
      BINARY(pow),
      BINARY(maximum),
      BINARY(minimum),
      BINARY(atan2),
      BINARY(floor_divide),
      BINARY(remainder),
      BINARY(fmod),
      BINARY(eq),
      BINARY(lt),
      {"where", [](X x) { return where(gt(x[0], 0), x[0], x[1]); }},
      {"mse_loss", [](X x) { return mse_loss(x[0], x[1], each); }},
      {"l1_loss", [](X x) { return l1_loss(x[0], x[1], each); }},
      {"smooth_l1_loss", [](X x) { return smooth_l1_loss(x[0], x[1], 2, each); }},
      {"sum", [](X x) { return sum(x[0], {1}); }},
      {"mean", [](X x) { return mean(x[0], {1}); }},
      {"var", [](X x) { return var(x[0], {1}); }},
      {"std", [](X x) { return rondo::std(x[0], {1}); }},
      {"norm", [](X x) { return norm(x[0], {1}); }},
      {"norm.1", [](X x) { return vector_norm(x[0], 1, {1}); }},
      {"norm.3", [](X x) { return vector_norm(x[0], 3, {1}); }},
      {"norm.half", [](X x) { return vector_norm(x[0], 0.5, {1}); }},
      {"norm.inf", [](X x) { return vector_norm(x[0], infinity, {1}); }},
      {"logsumexp", [](X x) { return logsumexp(x[0], {1}); }},
      {"cumsum", [](X x) { return cumsum(x[0], 1); }},
      {"max", [](X x) { return max(x[0], 1).values; }},
      {"min", [](X x) { return min(x[0], 1).values; }},
      {"sort", [](X x) { return sort(x[0], 1).values; }},
      {"topk", [](X x) { return topk(x[0], 2, 1).values; }},
      {"softmax", [](X x) { return softmax(x[0], 1); }},
      {"log_softmax", [](X x) { return log_softmax(x[0], 1); }},
      {"max.all", [](X x) { return of_rows(x[0], max); }},
      {"min.all", [](X x) { return of_rows(x[0], min); }},
      {"prod", [](X x) { return prod(x[0], {1}); }},
      {"integers.clamp",
       [](X x) { return clamp(x[0], -(std::int64_t{1} << 53) - 1, (std::int64_t{1} << 53) + 1); }},
      {"integers.sum", [](X x) { return sum(x[0], {0}); }},
      {"integers.max", [](X x) { return max(x[0]); }},
      {"integers.min", [](X x) { return min(x[0]); }},
      {"integers.sort", [](X x) { return sort(x[0]).values; }},
      {"integers.cumsum", [](X x) { return cumsum(x[0], 0); }},
      {"integers.sign", [](X x) { return sign(x[0]); }},
      {"integers.square", [](X x) { return square(x[0]); }},
      {"integers.add", [](X x) { return add(x[0], x[1]); }},
      {"integers.sub", [](X x) { return sub(x[0], x[1]); }},
      {"integers.mul", [](X x) { return mul(x[0], x[1]); }},
      {"integers.maximum", [](X x) { return maximum(x[0], x[1]); }},
      {"integers.minimum", [](X x) { return minimum(x[0], x[1]); }},
      {"integers.eq", [](X x) { return eq(x[0], x[1]); }},
      {"integers.lt", [](X x) { return lt(x[0], x[1]); }},
      {"integers.floor_divide", [](X x) { return floor_divide(x[0], x[1]); }},
      {"integers.remainder", [](X x) { return remainder(x[0], x[1]); }},
  };
  return all;
}

/// The tolerance is the rounding of the dtype plus its smallest normal number, below which it loses
/// digits. `scale` is the size of the terms, if it differs from the size of the result.
bool is_near(double a, double b, DType dtype, double scale) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  const double smallest = dtype == f16 ? 0x1p-14 : 0x1p-126;
  return std::abs(a - b) <= tolerance(dtype, 4, std::max(scale, std::abs(b))) + smallest;
}

void expect_one_of(const Golden& goldens, const std::string& name, const std::string& name64,
                   const Tensor& actual) {
  const Tensor expected = goldens[name];
  ASSERT_EQ(actual.shape(), expected.shape()) << name;
  ASSERT_EQ(actual.dtype(), expected.dtype()) << name;
  if (!is_floating(actual.dtype())) {  // integers must be exact
    EXPECT_EQ(actual.to_vector<std::int64_t>(), expected.to_vector<std::int64_t>()) << name;
    return;
  }
  const auto got = actual.to_vector<double>(), in_f32 = expected.to_vector<double>(),
             in_f64 = goldens.has(name64) ? goldens[name64].to_vector<double>() : in_f32;
  // 1 - Σ p, and differences of normalised numbers
  const auto is_of = [&](const char* part) { return name.find(part) != std::string::npos; };
  const double scale = is_of("softmax") || is_of("_norm.") || is_of("normalize") ? 1 : 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_TRUE(is_near(got[i], in_f32[i], actual.dtype(), scale) ||
                is_near(got[i], in_f64[i], actual.dtype(), scale))
        << name << " " << i << " is " << got[i] << ", in PyTorch " << in_f32[i] << ", in f64 "
        << in_f64[i];
}

/// Compares y and the gradients of its sum with the goldens of `name`.
void expect_case(const Golden& goldens, const std::string& name, const Tensor& y,
                 const Tensors& xs) {
  expect_one_of(goldens, name + ".out", name + ".out64", y.detach());
  if (!y.requires_grad()) return;
  const Tensors gradients = grad({y}, xs, {.grad_outputs = {ones_like(y)}, .allow_unused = true});
  for (std::size_t i = 0; i < xs.size(); ++i)
    expect_one_of(goldens, concat(name, ".grad", i), concat(name, ".grad64_", i),
                  gradients[i].defined() ? gradients[i] : zeros_like(xs[i]));
}

Tensor with_ones(const Tensor& x) { return stack({x, ones_like(x)}, 1); }
Tensor like(const Tensor& x, double value) { return full_like(x, value); }

/// Gradients exactly at a bound, and next to it.
const std::map<std::string, Tensor (*)(const Tensor&)>& bounded() {
  static const std::map<std::string, Tensor (*)(const Tensor&)> all = {
      {"clamp", [](const Tensor& x) { return clamp(x, -2, 3); }},
      {"clamp.crossed", [](const Tensor& x) { return clamp(x, 3, -2); }},
      {"clamp.nan", [](const Tensor& x) { return clamp(x, NAN, 3); }},
      {"clamp.zero", [](const Tensor& x) { return clamp(x, 0, 6); }},
      {"clamp_min", [](const Tensor& x) { return clamp_min(x, -2); }},
      {"clamp_max", [](const Tensor& x) { return clamp_max(x, 3); }},
      {"clamp.tensors", [](const Tensor& x) { return clamp(x, like(x, -2), like(x, 3)); }},
      {"hardtanh", [](const Tensor& x) { return hardtanh(x, -2, 3); }},
      {"relu6", [](const Tensor& x) { return relu6(x); }},
      {"hardsigmoid", [](const Tensor& x) { return hardsigmoid(x); }},
      {"threshold", [](const Tensor& x) { return threshold(x, 2, 9); }},
      {"hardshrink", [](const Tensor& x) { return hardshrink(x, 2); }},
      {"softshrink", [](const Tensor& x) { return softshrink(x, 2); }},
      {"elu", [](const Tensor& x) { return elu(x); }},
      {"logit", [](const Tensor& x) { return logit(x, 0.25); }},
      {"margin_ranking_loss",
       [](const Tensor& x) {
         return margin_ranking_loss(x, like(x, 0), like(x, 1), {.margin = 2, .reduction = each});
       }},
      {"hinge_embedding_loss",
       [](const Tensor& x) {
         return hinge_embedding_loss(x, like(x, -1), {.margin = 2, .reduction = each});
       }},
      {"multi_margin_loss",
       [](const Tensor& x) {
         const Tensor first = zeros({x.size(0)}, {.dtype = i64, .device = x.device()});
         return multi_margin_loss(with_ones(x), first, {.reduction = each});
       }},
      {"multilabel_margin_loss",
       [](const Tensor& x) {
         const Tensor first = to(tensor<std::int64_t>({0, -1}, {1, 2}), x.device());
         return multilabel_margin_loss(with_ones(x), expand(first, {x.size(0), 2}), each);
       }},
  };
  return all;
}

TEST(ExtremesAtBounds, Gradients) {
  for (const auto& [name, f] : bounded()) {
    const Tensor x = goldens()["bound." + name + ".in0"].to(test_device()).requires_grad_();
    expect_case(goldens(), "bound." + name, f(x), {x});
  }
}

class Extremes : public ::testing::TestWithParam<std::string> {};

TEST_P(Extremes, AgreeWithPyTorch) {
  const std::string& name = GetParam();
  Tensors xs;
  for (std::string i = "0"; goldens().has(name + ".in" + i); i = std::to_string(xs.size())) {
    xs.push_back(goldens()[name + ".in" + i].to(test_device()));
    if (is_floating(xs.back().dtype())) xs.back().requires_grad_();
  }
  ASSERT_FALSE(xs.empty());
  expect_case(goldens(), name, operations().at(name)(xs), xs);
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& [name, f] : operations()) all.push_back(name);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Ops, Extremes, ::testing::ValuesIn(names()), [](const auto& row) {
  std::string name = row.param;
  std::ranges::replace(name, '.', '_');
  return name;
});

/// Normalisations of rows of three, weighted as in make_extremes.py.
const std::map<std::string, Tensor (*)(const Tensor&)>& layers() {
  static const std::map<std::string, Tensor (*)(const Tensor&)> all = {
      {"layer_norm", [](const Tensor& x) { return layer_norm(x, {3}); }},
      {"group_norm", [](const Tensor& x) { return squeeze(group_norm(unsqueeze(x, 2), 1), 2); }},
      {"instance_norm",
       [](const Tensor& x) { return squeeze(instance_norm(unsqueeze(x, 1), {}, {}, {}, {}), 1); }},
      {"batch_norm",
       [](const Tensor& x) {
         return transpose(batch_norm(transpose(x, 0, 1), {}, {}, {}, {}), 0, 1);
       }},
      {"rms_norm", [](const Tensor& x) { return rms_norm(x, {3}); }},
      {"local_response_norm",
       [](const Tensor& x) { return squeeze(local_response_norm(unsqueeze(x, 2), 3), 2); }},
      {"normalize", [](const Tensor& x) { return normalize(x); }},
      {"softmax", [](const Tensor& x) { return softmax(x, 1); }},
      {"log_softmax", [](const Tensor& x) { return log_softmax(x, 1); }},
  };
  return all;
}

const std::map<std::string, Tensor (*)(const Tensor&, const Tensor&)>& losses() {
  static const std::map<std::string, Tensor (*)(const Tensor&, const Tensor&)> all = {
      {"mse_loss", [](const Tensor& x, const Tensor& y) { return mse_loss(x, y, each); }},
      {"l1_loss", [](const Tensor& x, const Tensor& y) { return l1_loss(x, y, each); }},
      {"smooth_l1_loss",
       [](const Tensor& x, const Tensor& y) { return smooth_l1_loss(x, y, 1, each); }},
      {"huber_loss",
       [](const Tensor& x, const Tensor& y) {
         return huber_loss(x, y, {.reduction = each, .delta = 2});
       }},
      {"bce_with_logits",
       [](const Tensor& x, const Tensor& y) {
         return bce_with_logits(x, to(y.detach() > 0, x.dtype()), each);
       }},
      {"kl_div", [](const Tensor& x,
                    const Tensor& y) { return kl_div(x, clamp(abs(y.detach()), 0, 1), each); }},
      {"kl_div.log",
       [](const Tensor& x, const Tensor& y) {
         return kl_div(x, y, each, TargetScale::log_probabilities);
       }},
      {"poisson_nll_loss",
       [](const Tensor& x, const Tensor& y) {
         return poisson_nll_loss(x, y, {.reduction = each});
       }},
      {"soft_margin_loss",
       [](const Tensor& x, const Tensor& y) { return soft_margin_loss(x, y.detach(), each); }},
      {"hinge_embedding_loss",
       [](const Tensor& x, const Tensor& y) {
         return hinge_embedding_loss(x, sign(y.detach()), {.reduction = each});
       }},
      {"margin_ranking_loss",
       [](const Tensor& x, const Tensor& y) {
         return margin_ranking_loss(x, y, ones_like(x), {.margin = 1, .reduction = each});
       }},
      {"gaussian_nll_loss",
       [](const Tensor& x, const Tensor& y) {
         return gaussian_nll_loss(x, y, ones_like(x), {.reduction = each});
       }},
      {"cross_entropy",
       [](const Tensor& x, const Tensor& y) {
         return cross_entropy(stack({x, y}, 1), zeros({x.size(0)}, {.dtype = i64}).to(x.device()),
                              {.reduction = each});
       }},
  };
  return all;
}

class ExtremesInDType : public ::testing::TestWithParam<DType> {
 protected:
  static const Golden& golden() {
    static const Golden file("extreme_layers.txt");
    return file;
  }
  static std::string prefix() { return concat(GetParam(), "."); }
  static Tensor leaf(const std::string& name) {
    return golden()[prefix() + name].to(test_device()).requires_grad_();
  }
};

TEST_P(ExtremesInDType, Normalisations) {
  for (const auto& [name, f] : layers()) {
    const Tensor x = leaf("rows.in0"), weights = tensor<double>({1, -2, 0.5});
    const Tensor y = f(x) * weights.to(x.dtype()).to(test_device());
    expect_case(golden(), prefix() + name, y, {x});
  }
}

TEST_P(ExtremesInDType, Losses) {
  for (const auto& [name, f] : losses()) {
    const Tensor x = leaf("pairs.in0"), y = leaf("pairs.in1");
    expect_case(golden(), prefix() + name, f(x, y), {x, y});
  }
}

/// Each row of `actual` is near that row of `expected`, relative to the row's largest number.
void expect_rows_near(const std::string& name, const Tensor& actual, const Tensor& expected) {
  ASSERT_EQ(actual.dtype(), expected.dtype()) << name;
  for (std::int64_t r = 0; r < expected.size(0); ++r) {
    const auto got = actual[r].to_vector<double>(), right = expected[r].to_vector<double>();
    double largest = 0;
    for (const double v : right) largest = std::max(largest, std::abs(v));
    for (std::size_t i = 0; i < right.size(); ++i)
      EXPECT_NEAR(got[i], right[i], tolerance(expected.dtype(), 4, largest))
          << name << " " << r << " " << i;
  }
}

TEST_P(ExtremesInDType, SquaresBeyondF32) {
  if (GetParam() == f16 || !test_device().is_cpu()) GTEST_SKIP();  // a GPU computes in f32
  const std::string huge = prefix() + "huge.";
  const Tensor x = leaf("huge.in0"), weights = tensor<double>({1, -2, 0.5}).to(x.dtype());
  for (const auto& name : {"layer_norm", "group_norm", "instance_norm", "batch_norm", "rms_norm"}) {
    Tensor y = layers().at(name)(x);
    if (name == std::string("rms_norm")) {  // PyTorch's default eps of bf16 is another
      y = rms_norm(x, {3}, {}, std::numeric_limits<float>::epsilon());
    }
    y = y * weights;
    expect_rows_near(huge + name, y.detach(), golden()[huge + name + ".out"]);
    expect_rows_near(huge + name, grad({y}, {x}, {.grad_outputs = {ones_like(y)}})[0],
                     golden()[huge + name + ".grad0"]);
  }
  const Tensor mean = zeros({x.size(0)}), var = ones({x.size(0)});
  batch_norm(transpose(x, 0, 1), {}, {}, mean, var);
  expect_rows_near("running_mean", unsqueeze(mean, 0),
                   unsqueeze(golden()[huge + "running_mean"], 0));
  expect_one_of(golden(), huge + "running_var", "", var);
}

INSTANTIATE_TEST_SUITE_P(Ops, ExtremesInDType, ::testing::Values(f32, f16, bf16),
                         [](const auto& row) { return concat(row.param); });

}  // namespace
}  // namespace rondo::test
