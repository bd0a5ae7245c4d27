// A fused activation asks the layer that stands there: a derived class or a substitute computes
// with its own forward. The numbers of Linear itself are in layers_test.cpp.

#include "nn/linear.h"

#include <gtest/gtest.h>

#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "nn/batch_norm.h"
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

TEST(FusedActivation, IsThatOfADerivedClass) {
  Doubled fc(3, 2);
  const Tensor x = randn({4, 3});
  EXPECT_EQ(fc(x, Activation::relu).to_vector<float>(), relu(fc(x)).to_vector<float>());
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
