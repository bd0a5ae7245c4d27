// The activations that are modules: each calls its function with its options.

#include "nn/activation.h"

#include <gtest/gtest.h>

#include "support/errors.h"
#include "support/fill.h"
#include "support/support.h"

namespace rondo::test {
namespace {

TEST(ActivationModules, CallTheirFunctions) {
  const Tensor x = fill({2, 4, 3}, 0, 4);
  const auto same = [&](nn::AnyModule module, const Tensor& y) {
    EXPECT_TRUE(identical(module(x), y)) << nn::detail::type_name(module.self());
    EXPECT_TRUE(module.state_dict().empty());
  };
  same(nn::ELU(2), elu(x, 2));
  same(nn::SELU(), selu(x));
  same(nn::CELU(2), celu(x, 2));
  same(nn::GLU(1), glu(x, 1));
  same(nn::Mish(), mish(x));
  same(nn::ReLU6(), relu6(x));
  same(nn::Hardtanh(-0.5, 2), hardtanh(x, -0.5, 2));
  same(nn::Hardsigmoid(), hardsigmoid(x));
  same(nn::Hardswish(), hardswish(x));
  same(nn::Hardshrink(2), hardshrink(x, 2));
  same(nn::Softshrink(2), softshrink(x, 2));
  same(nn::Tanhshrink(), tanhshrink(x));
  same(nn::Threshold(0.1, -2), threshold(x, 0.1, -2));
  same(nn::Softplus(2, 3), softplus(x, 2, 3));
  same(nn::Softsign(), softsign(x));
  same(nn::LogSigmoid(), logsigmoid(x));
  same(nn::Softmin(1), softmin(x, 1));
  same(nn::Softmax2d(), softmax(x, 0));
}

TEST(ActivationModules, PreluTrainsItsSlopes) {
  nn::PReLU prelu(3, 0.5);
  ASSERT_EQ(prelu.state_dict().size(), 1U);
  EXPECT_EQ(prelu.state_dict()[0].name, "weight");
  EXPECT_TRUE(prelu.weight.requires_grad());
  EXPECT_TRUE(identical(prelu(full({1, 3}, -2.0)).detach(), full({1, 3}, -1.0)));
  EXPECT_ERROR(nn::PReLU(0), ShapeError, "PReLU: 0 parameters");
}

TEST(ActivationModules, RreluIsRandomInTrainingOnly) {
  nn::RReLU rrelu(0.25, 0.75);
  const Tensor x = full({100}, -2.0);
  EXPECT_FALSE(identical(rrelu(x), rrelu(x)));
  rrelu.eval();
  EXPECT_TRUE(identical(rrelu(x), full({100}, -1.0)));
}

TEST(ActivationModules, Softmax2dNeedsPlanes) {
  EXPECT_ERROR(nn::Softmax2d()(zeros({2, 3})), ShapeError,
               "Softmax2d: input [2, 3] is not (N, C, H, W) or (C, H, W)");
}

}  // namespace
}  // namespace rondo::test
