// A fused activation asks the layer that stands there: a derived class or a substitute computes
// with its own forward. The numbers of Linear itself are in layers_test.cpp.

#include "nn/linear.h"

#include <gtest/gtest.h>

#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "nn/batch_norm.h"
#include "nn/conv2d.h"
#include "support/errors.h"
#include "support/support.h"
#include "tensor/creation.h"

namespace rondo::test {
namespace {

struct Doubled : nn::Linear {
  using nn::Linear::Linear;
  Tensor forward(const Tensor& x) override { return nn::Linear::forward(x) * 2; }
};

TEST(FusedActivation, IsThatOfASubstitute) {
  struct Owner : nn::Module {
    nn::Linear fc{3, 2};
    Tensor forward(const Tensor& x) override { return fc(x, Activation::relu); }
    void visit(nn::Visitor& v) override { v.child("fc", fc); }
  };
  Owner owner;
  Doubled doubled(3, 2);
  doubled.weight.detach().copy_(owner.fc.weight.detach());
  doubled.bias.detach().copy_(owner.fc.bias.detach());
  const Tensor x = randn({4, 3}), once = owner(x);
  owner.set_submodule("fc", doubled);
  EXPECT_EQ(owner(x).to_vector<float>(), (once * 2).to_vector<float>());
  EXPECT_FALSE(owner.fc.weight.defined());
  EXPECT_ERROR(owner.fc.weight.sum(), Error,
               "sum: use of an undefined tensor: it was \"weight\" of the Linear at \"fc\", which "
               "set_submodule has replaced; use the module that was put there");
}

TEST(FusedActivation, OfAConvolutionIsThatOfItsResult) {
  nn::Conv2d conv(3, 4, 3, {.padding = 1, .padding_mode = PadMode::reflect});
  for (const Tensor& x :
       {randn({2, 3, 5, 5}), zeros({2, 3, 5, 5}), randn({3, 5, 5}), randn({0, 3, 5, 5})}) {
    const Tensor y = conv(x);
    EXPECT_EQ(conv(x, Activation::none).to_vector<float>(), y.to_vector<float>());
    EXPECT_EQ(conv(x, Activation::relu).to_vector<float>(), relu(y).to_vector<float>());
    const NoGradGuard no_grad;
    EXPECT_EQ(conv(x, Activation::gelu_tanh).to_vector<float>(),
              gelu(y, GeluApproximation::tanh).to_vector<float>());
  }
  const Tensor nothing =
      conv2d(randn({1, 0, 2, 2}), randn({2, 0, 1, 1}), tensor({-1.F, 2.F}), {}, Activation::relu);
  EXPECT_EQ(nothing.to_vector<float>(), (std::vector<float>{0, 0, 0, 0, 2, 2, 2, 2}));
}

TEST(FusedActivation, IsThatOfADerivedClass) {
  Doubled fc(3, 2);
  const Tensor x = randn({4, 3});
  EXPECT_EQ(fc(x, Activation::relu).to_vector<float>(), relu(fc(x)).to_vector<float>());
  struct Halved : nn::Conv2d {
    using nn::Conv2d::Conv2d;
    Tensor forward(const Tensor& x) override { return nn::Conv2d::forward(x) / 2; }
  };
  Halved conv(3, 2, 3);
  const Tensor picture = randn({2, 3, 5, 5});
  EXPECT_EQ(conv(picture, Activation::relu).to_vector<float>(),
            relu(conv(picture)).to_vector<float>());
  struct Shifted : nn::BatchNorm2d {
    using nn::BatchNorm2d::BatchNorm2d;
    Tensor forward(const Tensor& x) override { return nn::BatchNorm2d::forward(x) + 1; }
  };
  Shifted bn(3);
  bn.eval();
  const Tensor image = randn({2, 3, 4, 4});
  EXPECT_EQ(bn(image, nn::Fusion{.relu = true}).to_vector<float>(),
            relu(bn(image)).to_vector<float>());
}

}  // namespace
}  // namespace rondo::test
