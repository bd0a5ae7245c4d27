// clone: which modules and tensors a copy and a deep copy share, and what cannot be copied.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "autograd/ops/arithmetic.h"
#include "nn/batch_norm.h"
#include "nn/containers.h"
#include "nn/conv2d.h"
#include "nn/dropout.h"
#include "nn/flatten.h"
#include "nn/linear.h"
#include "nn/module.h"
#include "support/errors.h"
#include "support/support.h"

namespace rondo::test {
namespace {

struct Scale : nn::Module {
  nn::Sequential body{nn::Conv2d(3, 4, 3, {.bias = false}), nn::BatchNorm2d(4), nn::Dropout(0.5),
                      nn::Flatten()};
  nn::AnyModule fc = nn::Linear(4 * 4, 5);
  Tensor scale = ones({5}).requires_grad_();

  Tensor forward(const Tensor& x) override { return fc(body(x)) * scale; }
  void visit(nn::Visitor& v) override {
    v.child("body", body);
    v.child("fc", fc);
    v.parameter("scale", scale);
  }
};

TEST(Clone, HasItsOwnParametersAndACopyDoesNot) {
  Scale net;
  Scale copy = net, deep = nn::clone(net);
  net.eval();
  Tensor x = randn({2, 3, 4, 4});
  Tensor before = [&] {
    deep.eval();
    return deep(x);
  }();
  EXPECT_TRUE(identical(before, net(x)));
  {
    NoGradGuard no_grad;
    net.scale.fill_(3);
    net.fc.as<nn::Linear>().weight.zero_();
  }
  EXPECT_TRUE(identical(copy.scale, net.scale));
  EXPECT_TRUE(identical(copy.fc.as<nn::Linear>().weight, net.fc.as<nn::Linear>().weight));
  EXPECT_TRUE(identical(deep(x), before));
  for (auto& p : deep.parameters()) EXPECT_TRUE(p.requires_grad() && p.is_leaf());
  nn::AnyModule any = net;
  nn::AnyModule any_deep = nn::clone(any);
  EXPECT_FALSE(any_deep.parameters()[0].is_same(any.parameters()[0]));
  EXPECT_TRUE(any.parameters()[0].is_same(net.parameters()[0]));
}

TEST(Clone, KeepsFrozenParametersFrozen) {
  nn::Linear fc(3, 2);
  fc.bias.requires_grad_(false);
  nn::Linear copy = nn::clone(fc);
  EXPECT_FALSE(copy.bias.requires_grad());
  EXPECT_TRUE(copy.weight.requires_grad());
}

/// A layer behind a pointer with two names, layers in a vector, and a null pointer.
struct Held : nn::Module {
  std::shared_ptr<nn::Linear> fc = std::make_shared<nn::Linear>(4, 4), again = fc, none;
  std::vector<nn::Linear> layers{nn::Linear(4, 4), nn::Linear(4, 4)};
  std::vector<std::shared_ptr<nn::Sequential>> blocks{
      std::make_shared<nn::Sequential>(nn::Linear(4, 4))};
  Tensor forward(const Tensor& x) override {
    Tensor y = (*again)((*fc)(x));
    for (nn::Linear& layer : layers) y = layer(y);
    return (*blocks[0])(y);
  }
  void visit(nn::Visitor& v) override {
    v.child("fc", fc);
    v.child("again", again);
    v.child("none", none);
    for (std::size_t i = 0; i < layers.size(); ++i) v.child("layer" + std::to_string(i), layers[i]);
    for (std::size_t i = 0; i < blocks.size(); ++i) v.child("block" + std::to_string(i), blocks[i]);
  }
};

TEST(Clone, HasItsOwnOfWhatASharedPtrHolds) {
  Held net;
  const std::vector<Tensor> before = net.parameters();
  EXPECT_EQ(before.size(), 8u);
  Held copy = nn::clone(net);
  EXPECT_NE(copy.fc, net.fc);
  EXPECT_EQ(copy.fc, copy.again);
  EXPECT_NE(copy.blocks[0], net.blocks[0]);
  const std::vector<Tensor> after = net.parameters(), own = copy.parameters();
  ASSERT_EQ(own.size(), before.size());
  for (std::size_t i = 0; i < own.size(); ++i) {
    EXPECT_TRUE(
        after[i].is_same(before[i]));  // an optimizer that holds them still trains the model
    EXPECT_FALSE(own[i].is_same(before[i]));
    EXPECT_TRUE(identical(own[i], before[i]));
  }
  nn::AnyModule any = net, any_copy = nn::clone(any);
  EXPECT_FALSE(any_copy.parameters()[0].is_same(before[0]));
  EXPECT_TRUE(net.parameters()[0].is_same(before[0]));
}

TEST(Clone, RefusesWhatItCannotCopy) {
  struct Dereferenced : nn::Module {
    std::shared_ptr<nn::Linear> fc = std::make_shared<nn::Linear>(4, 4);
    Tensor forward(const Tensor& x) override { return (*fc)(x); }
    void visit(nn::Visitor& v) override { v.child("fc", *fc); }
  } dereferenced;
  EXPECT_ERROR(
      nn::clone(dereferenced), Error,
      "copy of a model: the module \"fc\" is behind a pointer or a reference, which a copy shares "
      "with the original; hold it by value, or");
  struct Referring : nn::Module {
    Tensor& weight;
    explicit Referring(Tensor& weight) : weight(weight) {}
    Tensor forward(const Tensor& x) override { return x * weight; }
    void visit(nn::Visitor& v) override { v.parameter("weight", weight); }
  };
  Tensor weight = ones({4});
  EXPECT_ERROR(nn::clone(Referring(weight)), Error,
               "copy of a model: the tensor \"weight\" is behind");
  struct Ring : nn::Module {
    nn::Module* inner = this;
    Tensor forward(const Tensor& x) override { return x; }
    void visit(nn::Visitor& v) override { v.child("inner", *inner); }
  };
  EXPECT_ERROR(nn::clone(Ring()), Error, "the module \"inner\" is behind a pointer");
  struct ByBase : nn::Module {
    std::shared_ptr<nn::Module> fc = std::make_shared<nn::Linear>(4, 4);
    Tensor forward(const Tensor& x) override { return (*fc)(x); }
    void visit(nn::Visitor& v) override { v.child("fc", fc); }
  } by_base;
  EXPECT_ERROR(
      nn::clone(by_base), Error,
      "copy of a model: \"fc\" is a Linear, which a shared_ptr to another type holds, so it "
      "cannot be copied; hold it as nn::AnyModule or by a shared_ptr to its own type");
}

TEST(Clone, DoesNotCutOffADerivedClass) {
  struct Scaled : nn::Linear {
    using nn::Linear::Linear;
    double factor = 2;
  } scaled(2, 2);
  const nn::Linear& as_base = scaled;
  EXPECT_ERROR(nn::clone(as_base), Error, "copy of a Scaled as a Linear: the copy would lose what");
  EXPECT_EQ(nn::clone(scaled).factor, 2);
}

}  // namespace
}  // namespace rondo::test
