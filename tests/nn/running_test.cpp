// Running: the names of running modules in scopes and errors, and parameters that were replaced.

#include "nn/running.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/unary.h"
#include "autograd/record.h"
#include "nn/activation.h"
#include "nn/containers.h"
#include "nn/linear.h"
#include "support/errors.h"
#include "support/support.h"

namespace rondo::test {
namespace {

using ::testing::HasSubstr;

TEST(Scopes, NameTheModuleFromTheOneThatCalledIt) {
  struct Teller : nn::Module {
    std::string* heard;
    explicit Teller(std::string* heard) : heard(heard) {}
    Tensor forward(const Tensor& x) override {
      *heard = ScopeName::path();
      return x;
    }
  };
  struct Outer : nn::Module {
    nn::ModuleList blocks;
    Tensor forward(const Tensor& x) override { return blocks[1](x); }
    void visit(nn::Visitor& v) override { v.child("blocks", blocks); }
  } outer;
  std::string heard = "nothing";
  outer.blocks.push_back(nn::ReLU());
  outer.blocks.push_back(nn::Sequential(nn::ReLU(), Teller(&heard)));
  outer(ones({1}));
  EXPECT_EQ(heard, "");
  AnomalyMode anomaly;
  outer(ones({1}));
  EXPECT_EQ(heard, "blocks.1.1");
}

TEST(Scopes, AnAnomalyNamesTheLayer) {
  nn::Sequential net(nn::Linear(2, 2), nn::Sequential(nn::Linear(2, 2)));
  {
    NoGradGuard no_grad;
    net[1].as<nn::Sequential>()[0].as<nn::Linear>().weight.fill_(std::nan(""));
  }
  AnomalyMode anomaly;
  try {
    net(ones({1, 2})).sum().backward();
    FAIL() << "no anomaly";
  } catch (const AutogradError& error) {
    EXPECT_THAT(error.what(), HasSubstr("1.0"));
  }
}

TEST(Running, AParameterReplacedByARecordedOpIsNamed) {
  nn::Sequential net(nn::Linear(2, 2), nn::Sequential(nn::Linear(2, 2)));
  nn::Linear& layer = net[1].as<nn::Sequential>()[0].as<nn::Linear>();
  const Tensor weight = layer.weight, x = ones({1, 2});
  net(x);
  layer.weight = clamp(weight, -1.0, 1.0);
  EXPECT_ERROR(
      net(x), AutogradError,
      "Sequential: its parameter \"1.0.weight\" was replaced by the result of clamp, so no "
      "optimizer trains it; write its elements under NoGradGuard instead "
      "(weight.copy_(clamp(…)))");
  EXPECT_ERROR(layer(x), AutogradError, "Linear: its parameter \"weight\" was replaced");
  EXPECT_EQ(no_grad([&] { return net(x); }).shape(), (Dims{1, 2}));  // nothing is trained
  layer.weight = weight;
  net(x);
}

TEST(Running, AForwardMayComputeAParameter) {
  struct Normalized : nn::Module {
    nn::Linear fc{2, 2};
    Tensor v = ones({2, 2});
    Tensor forward(const Tensor& x) override {
      fc.weight = v / v.norm();
      return fc(x);
    }
    void visit(nn::Visitor& v) override { v.parameter("v", this->v); }
  } net;
  net.fc.bias = {};
  net.parameters();
  for (int step = 0; step < 2; ++step) net(ones({1, 2})).sum().backward();
  EXPECT_TRUE(net.v.grad().defined());
}

}  // namespace
}  // namespace rondo::test
