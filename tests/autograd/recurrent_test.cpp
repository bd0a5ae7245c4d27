// lstm_layer has f32 kernels on the CPU. These tests compare them with f64, which is composed of
// ops (and which the op table and nn/recurrent compare with differences and with PyTorch).

#include "autograd/ops/recurrent.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "autograd/autocast.h"
#include "autograd/engine.h"
#include "autograd/grad_mode.h"
#include "autograd/ops/reduce.h"
#include "support/errors.h"
#include "support/support.h"
#include "tensor/cpu/cpu_backend.h"
#include "tensor/creation.h"

namespace rondo::test {
namespace {

/// Outputs and gradients for inputs of_x, h0, c0, weight_hh and gradients of h and c. An undefined
/// gradient means that this output takes no part.
Tensors results(Tensors inputs, const Tensors& gradients, bool reverse) {
  for (Tensor& x : inputs) x = x.detach().requires_grad_();
  Tensors found = lstm_layer(inputs[0], inputs[1], inputs[2], inputs[3], reverse);
  Tensors outputs, given;
  for (std::size_t i = 0; i < 2; ++i) {
    if (!gradients[i].defined()) continue;
    outputs.push_back(found[i]);
    given.push_back(gradients[i]);
  }
  for (const Tensor& dx : grad(outputs, inputs, {.grad_outputs = given})) found.push_back(dx);
  return found;
}

Tensors all_as(const Tensors& tensors, DType dtype) {
  Tensors out;
  for (const Tensor& x : tensors) out.push_back(x.defined() ? as(x, dtype) : x);
  return out;
}

void expect_that_of_f64(const Tensors& inputs, const Tensors& gradients, bool reverse) {
  const Tensors got = results(inputs, gradients, reverse),
                want = results(all_as(inputs, f64), all_as(gradients, f64), reverse);
  // The gradient of the weight sums over steps and sequences, that of a state over the gates.
  const std::int64_t terms = std::max(inputs[0].size(0) * inputs[0].size(1), inputs[0].size(2));
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_TRUE(all_close(as(got[i], f64), want[i], tolerance(f32, terms)))
        << "result " << i << " of " << inputs[0].shape() << (reverse ? ", reverse" : "");
}

Tensors drawn(std::int64_t steps, std::int64_t sequences, std::int64_t width) {
  manual_seed(7);
  const double bound = 1 / std::sqrt(static_cast<double>(width));
  return {randn({steps, sequences, 4 * width}), randn({sequences, width}),
          randn({sequences, width}), rand({4 * width, width}) * (2 * bound) - bound};
}

/// Widths are shorter and longer than a vector, and not multiples of one.
TEST(LSTMLayer, AgreesWithF64) {
  for (const bool reverse : {false, true})
    for (const std::int64_t width : {1, 5, 16, 17, 40, 96})
      for (const std::int64_t sequences : {1, 3, 20})
        for (const std::int64_t steps : {1, 4}) {
          const Tensors inputs = drawn(steps, sequences, width);
          const Tensor dh = randn({steps, sequences, width}), dc = randn({sequences, width});
          expect_that_of_f64(inputs, {dh, dc}, reverse);
        }
}

TEST(LSTMLayer, GradientsOfOneOutputAndOfSlices) {
  const Tensors inputs = drawn(5, 3, 17);
  const Tensor dh = randn({5, 3, 17}), dc = randn({3, 17});
  expect_that_of_f64(inputs, {dh, {}}, false);
  expect_that_of_f64(inputs, {{}, dc}, true);
  // Inputs and gradients that are not contiguous.
  const Tensor turned = inputs[0].transpose(0, 1).contiguous().transpose(0, 1);
  const Tensor by_columns = inputs[3].t().contiguous().t();
  expect_that_of_f64({turned, inputs[1], inputs[2], by_columns},
                     {dh.transpose(0, 1).contiguous().transpose(0, 1), dc}, false);
}

/// Saturated gates and infinite sums give the limits, not NaN.
TEST(LSTMLayer, ExtremeSums) {
  for (const float size : {100.0F, 3e38F}) {
    const Tensor x = full({2, 1, 68}, size), state = full({1, 17}, 0.5), w = zeros({68, 17});
    const Tensors found = lstm_layer(x, state, state, w);
    EXPECT_TRUE(all_close(found[1], full({1, 17}, 2.5), 0));  // 0.5 + 1 + 1
    const Tensors closed = lstm_layer(-x, state, state, w);
    EXPECT_TRUE(all_close(closed[0], zeros({2, 1, 17}), 1e-30));
  }
}

TEST(LSTMLayer, WriteToAStateIsNoticed) {
  Tensors inputs = drawn(3, 2, 4);
  inputs[3].requires_grad_();
  const Tensors found = lstm_layer(inputs[0], inputs[1], inputs[2], inputs[3]);
  {
    const NoGradGuard no_grad;
    found[0].mul_(2);
  }
  EXPECT_ERROR(found[1].sum().backward(), AutogradError, "lstm_layer");
}

TEST(LSTMLayer, UnderAutocastProductsAreBf16) {
  const Tensors inputs = drawn(3, 2, 16);
  const Tensors exact = lstm_layer(inputs[0], inputs[1], inputs[2], inputs[3]);
  const Autocast scope(Device::cpu(), bf16);
  const Tensors cast = lstm_layer(inputs[0], inputs[1], inputs[2], inputs[3]);
  EXPECT_EQ(cast[1].dtype(), f32);
  EXPECT_FALSE(identical(as(cast[0], f32), exact[0]));
  EXPECT_TRUE(all_close(as(cast[0], f32), exact[0], tolerance(bf16, 3)));
}

TEST(LSTMLayer, BadInputsThrow) {
  const Tensors in = drawn(3, 2, 4);
  EXPECT_ERROR(lstm_layer(in[0], in[1], in[2], ones({15, 4})), ShapeError,
               "lstm_layer: weight_hh [15, 4] is not (4 H, H)");
  EXPECT_ERROR(lstm_layer(in[0].narrow(2, 0, 12), in[1], in[2], in[3]), ShapeError,
               "lstm_layer: of_x [3, 2, 12] is not (T, N, 16) with at least one step");
  EXPECT_ERROR(lstm_layer(in[0].narrow(0, 0, 0), in[1], in[2], in[3]), ShapeError,
               "lstm_layer: of_x [0, 2, 16]");
  EXPECT_ERROR(lstm_layer(in[0], in[1].narrow(0, 0, 1), in[2], in[3]), ShapeError,
               "lstm_layer: states [1, 4] and [2, 4], expected [2, 4]");
  EXPECT_ERROR(lstm_layer(in[0].to(i64), in[1], in[2], in[3]), DTypeError, "lstm_layer");
}

/// Calls the methods of a device that has no kernel for LSTMs.
struct WithoutLSTM final : cpu::CpuBackend {
  void expect_errors() {
    const Tensor x = ones({1, 1, 4}), one = ones({1, 1});
    EXPECT_ERROR(Backend::do_lstm(x, one, false, x, x, x), DeviceError,
                 "lstm: cpu has no kernel for f32");
    EXPECT_ERROR(Backend::do_lstm_backward(one, x, x, false, x, x, one, one), DeviceError,
                 "lstm: cpu has no kernel for f32");
  }
};
TEST(LSTMLayer, BackendsWithoutAKernelSaySo) { WithoutLSTM().expect_errors(); }

}  // namespace
}  // namespace rondo::test
