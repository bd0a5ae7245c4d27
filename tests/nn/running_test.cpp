// Running: the names of running modules in scopes and errors, and parameters that were replaced.

#include "nn/running.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/unary.h"
#include "autograd/record.h"
#include "nn/activation.h"
#include "nn/attention.h"
#include "nn/batch_norm.h"
#include "nn/containers.h"
#include "nn/conv2d.h"
#include "nn/instance_norm.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/recurrent.h"
#include "support/errors.h"
#include "support/support.h"

namespace rondo::test {
namespace {

using ::testing::EndsWith;
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

TEST(Places, AnErrorEndsWithTheModulesPathAndType) {
  const Tensor x = ones({1, 3});
  nn::Sequential net(nn::Linear(3, 8), nn::Sequential(nn::ReLU(), nn::Linear(4, 2)));
  EXPECT_EQ(message_of([&] { net(x); }), message_of([&] {
                                           linear(ones({1, 8}), ones({2, 4}));
                                         }) + " (in 1.1: Linear)");
  EXPECT_EQ(message_of([&] {
              net[1].as<nn::Sequential>()(ones({1, 8}));
            }),
            message_of([&] {
              linear(ones({1, 8}), ones({2, 4}));
            }) + " (in 1: Linear)");
  EXPECT_THAT(message_of([&] { nn::Linear(4, 2)(x); }), EndsWith(" (in Linear)"));
  struct Net : nn::Module {
    nn::Linear fc{3, 2};
    nn::Linear hidden{3, 2};
    Tensor forward(const Tensor& x) override {
      try {
        hidden(ones({1, 5}));
        ADD_FAILURE() << "no error";
      } catch (const ShapeError& error) {
        EXPECT_THAT(error.what(), EndsWith(" (in Linear)"));  // visit does not show it
      }
      return relu(fc(x)) + x;
    }
    void visit(nn::Visitor& v) override { v.child("fc", fc); }
  } user;
  EXPECT_THAT(message_of([&] { user(ones({1, 4})); }), EndsWith(" (in fc: Linear)"));
  EXPECT_THAT(message_of([&] { user(x); }), EndsWith(" (in Net)"));
  user.set_submodule("fc", nn::Sequential(nn::Linear(3, 1), nn::Linear(2, 2)));
  EXPECT_THAT(message_of([&] { user(x); }), EndsWith(" (in fc.1: Linear)"));
  struct Two : nn::ModuleOf<Tensor(Tensor, Tensor)> {
    nn::Linear fc{3, 2};
    Tensor forward(Tensor x, Tensor y) override { return fc(x) + fc(y); }
    void visit(nn::Visitor& v) override { v.child("fc", fc); }
  } two;
  EXPECT_THAT(message_of([&] { two(x, ones({1, 4})); }), EndsWith(" (in fc: Linear)"));
}

TEST(Places, AnUndefinedInputNamesTheModule) {
  const Tensor none;
  const auto said = [](const auto& f) { return message_of(f); };
  for (const auto& [begin, message] : std::vector<std::pair<std::string, std::string>>{
           {"Conv2d: the input is undefined; assign a tensor to it first",
            said([&] { nn::Conv2d(3, 8, 3)(none); })},
           {"LSTM: the input is undefined", said([&] { nn::LSTM(3, 4)(none); })},
           {"GRUCell: the input is undefined", said([&] { nn::GRUCell(3, 4)(none); })},
           {"BatchNorm2d: the input is undefined", said([&] { nn::BatchNorm2d(3)(none); })},
           {"GroupNorm: the input is undefined", said([&] { nn::GroupNorm(1, 3)(none); })},
           {"InstanceNorm: the input is undefined", said([&] { nn::InstanceNorm2d(3)(none); })},
           {"MultiheadAttention: the key is undefined", said([&] {
              nn::MultiheadAttention(4, 2)(ones({2, 3, 4}), none, none);
            })},
           {"linear: use of an undefined tensor", said([&] { nn::Linear(3, 4)(none); })},
           {"layer_norm: the input is undefined", said([&] { nn::LayerNorm(3)(none); })}})
    EXPECT_TRUE(message.starts_with(begin)) << message;
  EXPECT_THAT(message_of([&] { nn::Sequential{nn::Linear(3, 4)}(none); }),
              EndsWith("(in 0: Linear)"));
}

TEST(Places, AMessageThatNamesTheModuleOrThatRanksCompareStays) {
  struct Thrower : nn::Module {
    Tensor forward(const Tensor&) override { throw CommError("rank 1 has ended"); }
  };
  EXPECT_EQ(message_of([&] { Thrower()(ones({1})); }), "rank 1 has ended");
  struct Named : nn::Module {
    Tensor forward(const Tensor&) override { throw Error("Named: no"); }
  };
  EXPECT_EQ(message_of([&] { Named()(ones({1})); }), "Named: no");
  EXPECT_EQ(message_of([&] { nn::Sequential{Named()}(ones({1})); }), "Named: no (in 0: Named)");
}

}  // namespace
}  // namespace rondo::test
