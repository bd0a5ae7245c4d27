// Second derivatives of the composed convolutions against PyTorch
// (tests/golden/make_more_layers.py); errors. tests/nn/layers_test.cpp compares the layers with
// PyTorch.

#include "autograd/engine.h"
#include "autograd/ops/conv.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "support/errors.h"
#include "support/golden_case.h"
#include "tensor/creation.h"

namespace rondo::test {
namespace {

/// The gradients of Σ y² in a row, where y = conv(x, w).
template <class F>
std::function<Tensor(const Tensors&)> gradients_of(F conv) {
  return [conv](const Tensors& x) {
    Tensors gradients = grad({sum(square(conv(x[0], x[1])))}, {x[0], x[1]}, {.create_graph = true});
    for (Tensor& g : gradients) g = flatten(g);
    return cat(gradients);
  };
}

TEST(ComposedConv, HasPyTorchsSecondDerivatives) {
  const Golden golden("more_layers.txt");
  expect_case(
      golden, "second.conv3d", gradients_of([](const Tensor& x, const Tensor& w) {
        return conv3d(
            x, w, {},
            {.stride = {2, 1, 1}, .padding = {1, 0, 1}, .dilation = {1, 2, 1}, .groups = 2});
      }),
      24, 8);
  expect_case(golden, "second.conv_transpose1d", gradients_of([](const Tensor& x, const Tensor& w) {
                return conv_transpose1d(x, w, {}, {.stride = 2, .padding = 1, .output_padding = 1});
              }),
              24, 8);
  expect_case(golden, "second.conv_transpose3d", gradients_of([](const Tensor& x, const Tensor& w) {
                return conv_transpose3d(x, w, {}, {.stride = {2, 1, 1}, .padding = {1, 0, 0}});
              }),
              24, 8);
}

TEST(ComposedConv, Errors) {
  const Tensor x = zeros({1, 2, 3, 4, 5}), w = zeros({4, 2, 2, 2, 2});
  EXPECT_ERROR(conv3d(zeros({4, 5}), w), ShapeError,
               "conv3d: input [4, 5] and weight [4, 2, 2, 2, 2] must both have 5 dimensions");
  EXPECT_ERROR(conv3d(x, zeros({4, 3, 2, 2, 2})), ShapeError,
               "conv3d: input [1, 2, 3, 4, 5] has 2 channels, but weight [4, 3, 2, 2, 2] with 1 "
               "groups expects 3");
  EXPECT_ERROR(conv3d(x, w, zeros({3})), ShapeError, "conv3d: bias [3] for 4 output channels");
  EXPECT_ERROR(conv3d(x, w, {}, {.stride = {1, 0, 1}}), ShapeError, "stride and dilation");
  EXPECT_ERROR(conv3d(x, w, {}, {.dilation = {3, 1, 1}}), ShapeError,
               "is larger than the padded input");
  EXPECT_ERROR(conv3d(x, w.to(f64)), DTypeError, "conv3d: input of f32, weight of f64");
  EXPECT_ERROR(conv1d(zeros({2, 3, 4}), zeros({3, 2, 1}), {}, {.groups = 2}), ShapeError,
               "conv1d: 3 output channels do not divide into 2 groups");
  EXPECT_ERROR(conv_transpose3d(x, w), ShapeError,
               "conv_transpose3d: input [1, 2, 3, 4, 5] has 2 channels");
  EXPECT_ERROR(conv_transpose1d(zeros({2, 4}), zeros({2, 3, 2}), {}, {.output_padding = 1}),
               ShapeError, "conv_transpose1d: output padding [1] must be smaller");
}

}  // namespace
}  // namespace rondo::test
