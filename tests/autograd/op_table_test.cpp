// Checks on each row of the op table (support/op_table.h).

#include "support/op_table.h"

#include <optional>
#include <set>

#include "autograd/gradcheck.h"
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

#ifdef RONDO_HAS_CUDA
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
