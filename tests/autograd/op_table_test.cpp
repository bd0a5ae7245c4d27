// Checks on each row of the op table (support/op_table.h).

#include "support/op_table.h"

#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <vector>

#include "autograd/gradcheck.h"
#include "support/errors.h"
#include "support/simulated_gpu.h"
#include "support/support.h"
#ifdef RONDO_HAS_CUDA
#include "tensor/cuda/runtime.h"
#endif

namespace rondo::test {
namespace {

double largest(const Tensor& x) {
  double result = 0;
  for (double value : x.to_vector<double>()) result = std::max(result, std::abs(value));
  return result;
}

/// Compares `actual`, of any dtype, with `expected`, within the rounding of `dtype`.
void expect_agree(const Op& op, const char* what, const Tensors& actual, const Tensors& expected,
                  DType dtype) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    double size = std::max({1.0, op.scale, largest(expected[i])});
    EXPECT_TRUE(all_close(converted(actual[i], f64), converted(expected[i], f64),
                          tolerance(dtype, op.length, size)))
        << what << " " << i;
  }
}

void expect_agree(const Op& op, const Derivatives& actual, const Derivatives& expected,
                  DType dtype) {
  expect_agree(op, "output", actual.outputs, expected.outputs, dtype);
  expect_agree(op, "first derivative", actual.first, expected.first, dtype);
  expect_agree(op, "second derivative", actual.second, expected.second, dtype);
}

class OpTable : public ::testing::TestWithParam<Op> {
 protected:
  const Op& op() const { return GetParam(); }
  Tensors checked_inputs() const {
    Tensors xs = inputs_of(op(), f64);
    for (const Tensor& x : xs) x.requires_grad_();
    return xs;
  }
  std::function<Tensors(const Tensors&)> f() const {
    return [this](const Tensors& x) { return op().f(x); };
  }
};

TEST_P(OpTable, F32AgreesWithF64) {
  Tensors xs = inputs_of(op(), f32);
  expect_agree(op(), derivatives(op(), xs, f32, Layout::contiguous, true),
               derivatives(op(), xs, f64, Layout::contiguous, true), f32);
}

TEST_P(OpTable, LayoutsDoNotMatter) {
  Tensors xs = inputs_of(op(), f32);
  for (DType dtype : {f32, f64}) {
    for (bool create_graph : {false, true}) {
      Derivatives dense = derivatives(op(), xs, dtype, Layout::contiguous, create_graph);
      for (Layout layout : all_layouts) {
        SCOPED_TRACE(concat(dtype, ", layout ", static_cast<int>(layout)));
        expect_agree(op(), derivatives(op(), xs, dtype, layout, create_graph), dense, dtype);
      }
    }
  }
}

TEST_P(OpTable, CreateGraphDoesNotChangeTheGradient) {
  Tensors xs = inputs_of(op(), f32);
  for (DType dtype : {f32, f64}) {
    expect_agree(op(), "first derivative",
                 derivatives(op(), xs, dtype, Layout::contiguous, true).first,
                 derivatives(op(), xs, dtype, Layout::contiguous, false).first, dtype);
  }
}

/// Central differences of step 1e-6 in f64 have errors of about 1e-12 f''' and 1e-10 f.
constexpr GradcheckOptions differences{.atol = 1e-7, .rtol = 1e-6};

TEST_P(OpTable, GradientAgreesWithDifferences) {
  if (op().short_floats) return;
  GradcheckResult result = gradcheck(f(), checked_inputs(), differences);
  EXPECT_TRUE(result.ok) << result.message;
}

TEST_P(OpTable, SecondDerivativeAgreesWithDifferences) {
  if (op().short_floats) return;
  GradcheckResult result = gradgradcheck(f(), checked_inputs(), differences);
  EXPECT_TRUE(result.ok) << result.message;
}

TEST_P(OpTable, SixteenBitsAgreeWithF32) {
  for (DType dtype : {bf16, f16}) {
    SCOPED_TRACE(dtype);
    Tensors xs = inputs_of(op(), dtype);
    Derivatives half = derivatives(op(), xs, dtype, Layout::contiguous, false);
    Derivatives full = derivatives(op(), xs, f32, Layout::contiguous, false);
    expect_agree(op(), "output", half.outputs, full.outputs, dtype);
    expect_agree(op(), "first derivative", half.first, full.first, dtype);
  }
}

/// Numbers that a float has at its ends, and one that is not a number.
struct ExtremeValues {
  const char* name;
  std::vector<double> values;
};
std::vector<ExtremeValues> extremes(DType dtype) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const double largest = dtype == f16 ? 65504 : 3.3e38,
               smallest = dtype == f16 ? 0x1p-14 : 0x1p-126;
  return {{"nan", {nan}},
          {"inf", {inf}},
          {"infinities", {inf, -inf, nan}},
          {"ends", {largest, -largest, smallest, -smallest, 0.0, -0.0}}};
}
/// A tenth of the inputs' elements are replaced by some of the values.
Tensors with_extremes(const Op& op, const std::vector<double>& values, std::uint64_t seed) {
  Generator generator(seed);
  Tensors xs = inputs_of(op, f16);
  for (const Tensor& x : xs) {
    const Tensor drawn = rand({std::max<std::int64_t>(x.numel(), 1), 2}, {.dtype = f64}, generator);
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      const double *at = drawn.data_ptr<double>() + 2 * i, n = static_cast<double>(values.size());
      if (at[0] < 0.1) x.data_ptr<double>()[i] = values[static_cast<std::size_t>(at[1] * n)];
    }
  }
  return xs;
}
/// With `any_order`, infinities and NaN are one kind.
void expect_same_kind(const Op& op, const char* what, const Tensors& actual,
                      const Tensors& expected, DType dtype, bool any_order = false) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const auto a = actual[i].to(f64).to_vector<double>(),
               b = expected[i].to(f64).to_vector<double>();
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t k = 0; k < a.size(); ++k) {
      const bool is_near =
          any_order && !std::isfinite(b[k]) ? !std::isfinite(a[k])
          : std::isnan(b[k])                ? std::isnan(a[k])
          : std::isinf(b[k])
              ? a[k] == b[k]
              : std::abs(a[k] - b[k]) <=
                    tolerance(dtype, op.length, std::max({1.0, op.scale, std::abs(b[k])}));
      EXPECT_TRUE(is_near) << what << " " << i << ", element " << k << ": " << a[k] << ", not "
                           << b[k];
    }
  }
}
/// Calls check(inputs, what) for extremes that the op accepts.
template <class F>
void for_each_extreme(const Op& op, DType dtype, F&& check) {
  for (const auto& [name, values] : extremes(dtype)) {
    for (std::uint64_t seed : {1, 2}) {
      SCOPED_TRACE(concat(dtype, ", ", name, ", seed ", seed));
      const Tensors xs = with_extremes(op, values, seed);
      try {
        derivatives(op, xs, f64, Layout::contiguous, false);
      } catch (const Error&) {
        continue;  // probabilities outside [0, 1]
      }
      check(xs, std::string(name) == "ends");
    }
  }
}

/// Products with the zeros of padding, which some convolutions compute and others leave out, are
/// NaN.
bool is_convolution(const Op& op) { return op.name.starts_with("conv"); }

/// NaN and infinities pass through the kernels of f32 and 16 bits as through the f64 loops.
TEST_P(OpTable, ExtremesAgreeWithF64) {
  if (is_convolution(op())) return;
  for (DType dtype : {f32, f16}) {
    for_each_extreme(op(), dtype, [&](const Tensors& xs, bool overflows) {
      if (overflows) return;  // f64 goes on where f32 ends
      const Derivatives narrow = derivatives(op(), xs, dtype, Layout::contiguous, false),
                        wide = derivatives(op(), xs, f64, Layout::contiguous, false);
      expect_same_kind(op(), "output", narrow.outputs, wide.outputs, dtype);
      expect_same_kind(op(), "gradient", narrow.first, wide.first, dtype);
    });
  }
}

/// Whatever is wrong with an operand, the message begins with the op that was called.
TEST_P(OpTable, ErrorsNameTheOp) {
  const std::string name = op().name.substr(0, op().name.find('.'));
  // Parts of other ops, and rows that call something else first.
  const std::set<std::string> others = {"sum_to",
                                        "behind_relu",
                                        "clamp_with_bounds",
                                        "index.tensors",
                                        "index.mask",
                                        "where.number",
                                        "meshgrid",
                                        "contiguous",
                                        "to",
                                        "fake_quantize_per_channel_symmetric"};
  // Rows that look at an operand's dtype.
  const std::set<std::string> looks_first = {"quantile",
                                             "batch_norm.running",
                                             "cosine_embedding_loss",
                                             "bce_with_logits.pos_weight",
                                             "hinge_embedding_loss",
                                             "margin_ranking_loss",
                                             "multi_margin_loss",
                                             "soft_margin_loss",
                                             "multilabel_soft_margin_loss",
                                             "cross_entropy.probabilities"};
  if (others.contains(op().name)) return;
  Tensors good = inputs_of(op(), f32);
  for (Tensor& x : good) x = x.to(f32);
  const auto expect_named = [&](const Tensors& xs, const std::string& what) {
    const std::string said = message_of([&] { op().f(xs); });
    EXPECT_TRUE(said.empty() || said.starts_with(name + ":")) << what << ": " << said;
  };
  for (std::size_t i = 0; i < good.size(); ++i) {
    SCOPED_TRACE(concat("operand ", i));
    const auto with = [&](const Tensor& x) {
      Tensors xs = good;
      xs[i] = x;
      return xs;
    };
    if (!looks_first.contains(op().name)) expect_named(with({}), "undefined");
    for (DType dtype : {i64, u8, boolean}) expect_named(with(good[i].to(dtype)), concat(dtype));
    for (const Dims& shape : {Dims{2, 3, 5, 7, 11}, Dims{}, Dims{0}, Dims{13}})
      expect_named(with(full(shape, 0.5)), concat(shape));
  }
  for (DType dtype : {i64, u8, boolean}) {
    Tensors xs = good;
    for (Tensor& x : xs) x = x.to(dtype);
    expect_named(xs, concat("all ", dtype));
  }
}

#ifdef RONDO_HAS_CUDA
/// The same on a GPU. Sums of the largest numbers depend on their order, and normalisations on a
/// GPU square in f32.
TEST_P(OpTable, ExtremesAgreeOnCuda) {
  if (is_convolution(op())) return;
  std::optional<SimulatedGpus> simulated;
  if (cuda::device_count() == 0) simulated.emplace();
  const bool is_norm = op().name.find("norm") != std::string::npos,
             sums = op().length > 1 || is_norm;
  for (DType dtype : {f32, f16, bf16}) {
    for_each_extreme(op(), dtype, [&](const Tensors& xs, bool overflows) {
      if (overflows && sums) return;
      const Derivatives there =
                            derivatives(op(), xs, dtype, Layout::contiguous, false, Device::cuda()),
                        here = derivatives(op(), xs, dtype, Layout::contiguous, false);
      expect_same_kind(op(), "output", there.outputs, here.outputs, dtype);
      // With an infinite gamma a gradient is a difference of infinities. The CPU composes it of ops
      // if x is not finite either, a GPU does not. And a GPU joins cumprod's terms as a tree, in
      // which infinities may meet that cancel.
      const bool any_order = is_norm || op().name == "cumprod";
      expect_same_kind(op(), "gradient", there.first, here.first, dtype, any_order);
    });
  }
}

/// rondo's own CUDA kernels, on a GPU if there is one, else on the host.
TEST_P(OpTable, CudaAgreesWithTheCpu) {
  std::optional<SimulatedGpus> simulated;
  if (cuda::device_count() == 0) simulated.emplace();
  for (DType dtype : {f32, f64, bf16, f16}) {
    Tensors xs = inputs_of(op(), dtype);
    const bool second = dtype == f32 || dtype == f64;
    for (Layout layout : all_layouts) {
      SCOPED_TRACE(concat(dtype, ", layout ", static_cast<int>(layout)));
      Derivatives there = derivatives(op(), xs, dtype, layout, second, Device::cuda());
      Derivatives here = derivatives(op(), xs, dtype, layout, second);
      expect_agree(op(), there, here, dtype);
    }
  }
}

/// The first input is on the GPU and the others on the CPU, then the reverse.
TEST_P(OpTable, MixedDevicesAreRefused) {
  std::optional<SimulatedGpus> simulated;
  if (cuda::device_count() == 0) simulated.emplace();
  for (Device first : {Device::cpu(), Device::cuda()}) {
    Tensors xs = inputs_of(op(), f32);
    if (xs.size() < 2) return;
    for (Tensor& x : xs) x = x.to(f32).to(first.is_cpu() ? Device::cuda() : Device::cpu());
    xs[0] = xs[0].to(first);
    EXPECT_THROW(op().f(xs), DeviceError);
  }
}
#endif

std::string test_name(const ::testing::TestParamInfo<Op>& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Ops, OpTable, ::testing::ValuesIn(op_table()), test_name);

TEST(OpTableItself, HasARowForEachDifferentiableOp) {
  const std::set<std::string> without_gradient = {"eq",
                                                  "ne",
                                                  "lt",
                                                  "le",
                                                  "gt",
                                                  "ge",
                                                  "argmax",
                                                  "argmin",
                                                  "all",
                                                  "any",
                                                  "isnan",
                                                  "isinf",
                                                  "isfinite",
                                                  "one_hot",
                                                  "floor_divide",
                                                  "logical_and",
                                                  "logical_or",
                                                  "logical_xor",
                                                  "logical_not",
                                                  "isclose",
                                                  "argsort",
                                                  "bernoulli",
                                                  "bincount",
                                                  "bucketize",
                                                  "isin",
                                                  "flex_attention",  // has no f64 for differences
                                                  "multinomial",
                                                  "nonzero",
                                                  "searchsorted",
                                                  "isposinf",
                                                  "isneginf",
                                                  "signbit",
                                                  "bitwise_not",
                                                  "bitwise_and",
                                                  "bitwise_or",
                                                  "bitwise_xor",
                                                  "bitwise_left_shift",
                                                  "bitwise_right_shift",
                                                  "count_nonzero",
                                                  "tril_indices",
                                                  "triu_indices",
                                                  "histc"};
  std::set<std::string> rows;
  for (const Op& op : op_table()) rows.insert(op.name.substr(0, op.name.find('.')));
  std::vector<std::string> declared = declared_ops();
  if (declared.empty()) GTEST_SKIP() << "the headers of autograd/ops are not here";
  ASSERT_GT(declared.size(), 100u);
  for (const std::string& name : declared) {
    EXPECT_TRUE(rows.contains(name) != without_gradient.contains(name)) << name;
  }
}

}  // namespace
}  // namespace rondo::test
