// Module: names, sharing, modes, conversion, state dicts and their errors, replacement.

#include "nn/module.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <type_traits>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/unary.h"
#include "autograd/record.h"
#include "nn/activation.h"
#include "nn/batch_norm.h"
#include "nn/containers.h"
#include "nn/conv2d.h"
#include "nn/dropout.h"
#include "nn/flatten.h"
#include "nn/linear.h"
#include "nn/pooling.h"
#include "support/errors.h"
#include "support/support.h"

namespace rondo::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Shows its child before its own parameter, and shows an undefined parameter.
struct Net : nn::Module {
  nn::Sequential body{nn::Conv2d(3, 4, 3, {.bias = false}), nn::BatchNorm2d(4), nn::Dropout(0.5),
                      nn::Flatten()};
  nn::AnyModule fc = nn::Linear(4 * 4, 5);
  Tensor scale = ones({5}).requires_grad_();
  Tensor unused;

  Tensor forward(const Tensor& x) override { return fc(body(x)) * scale; }
  void visit(nn::Visitor& v) override {
    v.child("body", body);
    v.child("fc", fc);
    v.parameter("scale", scale);
    v.parameter("unused", unused);
  }
};

/// One weight with two names, as in language models that tie embedding and output.
struct Tied : nn::Module {
  nn::Linear in{3, 3, {.bias = false}}, out{3, 3, {.bias = false}};
  Tied() { out.weight = in.weight; }
  Tensor forward(const Tensor& x) override { return out(in(x)); }
  void visit(nn::Visitor& v) override {
    v.child("in", in);
    v.child("out", out);
  }
};

std::vector<std::string> names_of(const std::vector<nn::NamedTensor>& tensors) {
  std::vector<std::string> names;
  for (auto& t : tensors) names.push_back(t.name);
  return names;
}

std::string error_of(nn::Module& module, const nn::StateDict& state, bool strict = true) {
  try {
    module.load_state_dict(state, {.strict = strict});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

nn::StateDict copied(nn::Module& module) {
  nn::StateDict state = module.state_dict();
  for (auto& t : state) t.tensor = t.tensor.detach().clone();
  return state;
}

TEST(Module, NamesFollowPyTorchsOrder) {
  Net net;
  EXPECT_THAT(names_of(net.named_parameters()),
              ElementsAre("scale", "body.0.weight", "body.1.weight", "body.1.bias", "fc.weight",
                          "fc.bias"));
  EXPECT_THAT(
      names_of(net.named_buffers()),
      ElementsAre("body.1.running_mean", "body.1.running_var", "body.1.num_batches_tracked"));
  EXPECT_THAT(
      names_of(net.state_dict()),
      ElementsAre("scale", "body.0.weight", "body.1.weight", "body.1.bias", "body.1.running_mean",
                  "body.1.running_var", "body.1.num_batches_tracked", "fc.weight", "fc.bias"));
  std::vector<std::string> modules;
  for (auto& [name, module] : net.named_modules()) modules.push_back(name);
  EXPECT_THAT(modules, ElementsAre("", "body", "body.0", "body.1", "body.2", "body.3", "fc"));
  EXPECT_EQ(net.num_parameters(), 5 + 4 * 3 * 9 + 4 + 4 + 16 * 5 + 5);
}

TEST(Module, TraversalsReachWhatAnAnyModuleHolds) {
  Net net;
  bool found = false;
  for (auto& [name, module] : net.named_modules()) {
    if (name == "body.2") found = dynamic_cast<nn::Dropout*>(module) != nullptr;
  }
  EXPECT_TRUE(found);
  int convolutions = 0;
  net.apply([&](nn::Module& m) { convolutions += dynamic_cast<nn::Conv2d*>(&m) != nullptr; });
  EXPECT_EQ(convolutions, 1);
}

TEST(Module, ApplyVisitsChildrenFirst) {
  Net net;
  std::vector<nn::Module*> order;
  net.apply([&](nn::Module& m) { order.push_back(&m); });
  ASSERT_EQ(order.size(), 7u);
  EXPECT_EQ(order.back(), &net);
  EXPECT_EQ(order[4], &net.body);
}

TEST(Module, EvalReachesADropoutInsideASequential) {
  nn::Sequential net(nn::Sequential(nn::Dropout(0.5), nn::ReLU()), nn::Dropout(0.5));
  Tensor x = ones({64});
  EXPECT_TRUE(net.is_training() && net[0].is_training());
  net.eval();
  EXPECT_FALSE(net.is_training() || net[1].is_training());
  EXPECT_FALSE(net[0].as<nn::Sequential>()[0].is_training());
  EXPECT_TRUE(identical(net(x), x));
  net.train();
  EXPECT_TRUE(net[1].as<nn::Dropout>().is_training());
  EXPECT_FALSE(identical(net(x), x));
}

TEST(Module, ASharedParameterIsListedOnceAndSavedTwice) {
  Tied tied;
  EXPECT_THAT(names_of(tied.named_parameters()), ElementsAre("in.weight"));
  EXPECT_EQ(tied.num_parameters(), 9);
  EXPECT_THAT(names_of(tied.state_dict()), ElementsAre("in.weight", "out.weight"));
  Tied copy = nn::clone(tied);
  EXPECT_TRUE(copy.in.weight.is_same(copy.out.weight));
  EXPECT_FALSE(copy.in.weight.is_same(tied.in.weight));
  tied.to(f64);
  EXPECT_TRUE(tied.in.weight.is_same(tied.out.weight));
  EXPECT_EQ(tied.out.weight.dtype(), f64);
}

TEST(Module, AUniquePtrIsTrained) {
  struct Unique : nn::Module {  // not copyable: clone and AnyModule do not compile with it
    std::unique_ptr<nn::Linear> fc = std::make_unique<nn::Linear>(4, 4);
    std::unique_ptr<nn::Module> none;
    Tensor forward(const Tensor& x) override { return (*fc)(x); }
    void visit(nn::Visitor& v) override {
      v.child("fc", fc);
      v.child("none", none);
    }
  } net;
  EXPECT_THAT(names_of(net.named_parameters()), ElementsAre("fc.weight", "fc.bias"));
  EXPECT_FALSE(std::is_copy_constructible_v<Unique>);
}

TEST(Module, ReplacingALayerIsAnAssignment) {
  Net net;
  net.fc = nn::Linear(16, 7);
  net.scale = ones({7});
  EXPECT_EQ(net(randn({2, 3, 4, 4})).shape(), (Dims{2, 7}));
  net.body[2] = nn::Identity();
  EXPECT_EQ(net.named_modules().size(), 7u);
  EXPECT_THROW(net.fc.as<nn::Conv2d>(), Error);
}

TEST(Module, ZeroGradAndRequiresGrad) {
  Net net;
  net(randn({2, 3, 4, 4})).sum().backward();
  for (auto& p : net.parameters()) EXPECT_TRUE(p.grad().defined());
  net.zero_grad();
  for (auto& p : net.parameters()) EXPECT_FALSE(p.grad().defined());
  net.requires_grad_(false);
  EXPECT_FALSE(net(randn({2, 3, 4, 4})).requires_grad());
}

TEST(Module, ToConvertsInPlaceForEveryHandle) {
  Net net;
  std::vector<Tensor> held = net.parameters();
  net.to(f64);
  for (auto& p : held) EXPECT_EQ(p.dtype(), f64);
  EXPECT_TRUE(held[0].requires_grad());
  EXPECT_EQ(net(randn({2, 3, 4, 4}, {.dtype = f64})).dtype(), f64);
  EXPECT_EQ(net.named_buffers()[2].tensor.dtype(), i64);
  net.to(bf16);
  EXPECT_EQ(held[1].dtype(), bf16);
  EXPECT_EQ(net.fc.as<nn::Linear>().weight.dtype(), bf16);
  EXPECT_THROW(net.to(i32), DTypeError);
  net.to(Device::cpu());
}

TEST(StateDict, RoundTrip) {
  Net a, b;
  a(randn({4, 3, 4, 4}));  // changes the running statistics
  b.load_state_dict(copied(a));
  a.eval();
  b.eval();
  Tensor x = randn({2, 3, 4, 4});
  EXPECT_TRUE(identical(a(x), b(x)));
  EXPECT_EQ(b.named_buffers()[2].tensor.item<std::int64_t>(), 1);
  Tensor held = b.scale;
  b.load_state_dict(copied(a));
  EXPECT_TRUE(held.is_same(b.scale)) << "values are copied in, handles stay";
}

TEST(StateDict, ErrorsEscapeNamesFromFiles) {
  nn::Linear linear(2, 2);
  EXPECT_EQ(error_of(linear, {{"\x1b[2J", ones({1})}}).find('\x1b'), std::string::npos);
}

TEST(StateDict, ConvertsDtypes) {
  nn::Linear a(3, 2), b(3, 2);
  a.to(f64);
  b.load_state_dict(a.state_dict());
  EXPECT_EQ(b.weight.dtype(), f32);
  EXPECT_TRUE(identical(b.weight.detach(), a.weight.detach().to(f32)));
}

TEST(StateDict, StrictListsEveryKeyAndChangesNothing) {
  Net net;
  nn::StateDict before = copied(net), state = copied(net);
  for (auto& t : state) t.tensor.fill_(9);
  state[0].name = "skale";                // scale
  state[1].tensor = zeros({4, 3, 1, 1});  // body.0.weight
  state[8].tensor = zeros({6});           // fc.bias
  state.push_back({"extra.weight", ones({1})});
  state.erase(state.begin() + 3);  // body.1.bias
  std::string error = error_of(net, state);
  EXPECT_THAT(error, HasSubstr("missing keys: scale, body.1.bias"));
  EXPECT_THAT(error, HasSubstr("unexpected keys: skale, extra.weight"));
  EXPECT_THAT(error, HasSubstr("misshapen keys: body.0.weight ([4, 3, 1, 1] for [4, 3, 3, 3]), "
                               "fc.bias ([6] for [5])"));
  nn::StateDict after = net.state_dict();
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_TRUE(identical(after[i].tensor.detach(), before[i].tensor)) << before[i].name;
  }
}

TEST(StateDict, TwoTensorsOfOneNameAreRefused) {
  nn::Linear layer(2, 1);
  const std::vector<float> before = layer.weight.to_vector();
  nn::StateDict state = layer.state_dict();
  state.push_back({"weight", zeros({1, 2})});
  EXPECT_THAT(error_of(layer, state), HasSubstr("two tensors called \"weight\""));
  EXPECT_EQ(layer.weight.to_vector(), before);
}

TEST(StateDict, NamesAPrefixThatOneSideHas) {
  nn::Linear plain(2, 3);
  nn::StateDict state = plain.state_dict();
  for (nn::NamedTensor& entry : state) entry.name = "module." + entry.name;
  EXPECT_ERROR(plain.load_state_dict(state), Error,
               "the keys of the state dict begin with \"module.\", those of the model do not "
               "(DataParallel adds it; its module() has none): rename them first");
  for (nn::NamedTensor& entry : state) entry.name = "model." + entry.name.substr(7);
  state.push_back({"optimizer.0.momentum", zeros({3, 2})});
  EXPECT_ERROR(plain.load_state_dict(state), Error,
               "the state dict is that of a training checkpoint: io::load_checkpoint reads it");
  nn::Sequential inside{nn::Linear(2, 3)};
  EXPECT_ERROR(inside.load_state_dict(plain.state_dict()), Error,
               "the keys of the model begin with \"0.\", those of the state dict do not: rename "
               "them first");
}

TEST(Module, BytesAreRefusedWithAWordOnWhatMakesThemFloats) {
  const Tensor bytes = zeros({1, 3, 4, 4}, {.dtype = u8});
  EXPECT_ERROR(nn::Conv2d(3, 2, 3)(bytes), DTypeError, "data::ImageTransform");
  EXPECT_ERROR(nn::Linear(4, 2)(bytes), DTypeError, "data::ImageTransform");
  EXPECT_ERROR(nn::BatchNorm2d(3)(bytes), DTypeError, "data::ImageTransform");
  EXPECT_ERROR(nn::MaxPool2d(2)(bytes), DTypeError, "data::ImageTransform");
}

TEST(StateDict, LooseLoadsWhatFitsAndReportsTheRest) {
  Net net;
  auto report =
      net.load_state_dict({{"scale", full({5}, 2)}, {"other", ones({1})}}, {.strict = false});
  EXPECT_EQ(net.scale[0].item(), 2);
  EXPECT_THAT(report.unexpected_keys, ElementsAre("other"));
  EXPECT_EQ(report.missing_keys.size(), 7u);
  EXPECT_THAT(report.misshapen_keys, IsEmpty());
  EXPECT_THAT(error_of(net, {{"scale", full({6}, 3)}}, false), HasSubstr("scale ([6] for [5])"));
  EXPECT_EQ(net.scale[0].item(), 2);
}

TEST(StateDict, AcceptsFilesOlderThanNumBatchesTracked) {
  nn::BatchNorm2d bn(2);
  EXPECT_EQ(error_of(bn, {{"weight", ones({2})},
                          {"bias", ones({2})},
                          {"running_mean", ones({2})},
                          {"running_var", ones({2})}}),
            "");
  EXPECT_EQ(bn.bias[1].item(), 1);
}

TEST(AnyModule, EmptyOnesAreSkippedAndCannotRun) {
  struct Holder : nn::Module {
    nn::AnyModule part;
    Tensor forward(const Tensor& x) override { return part(x); }
    void visit(nn::Visitor& v) override { v.child("part", part); }
  } holder;
  EXPECT_THAT(names_of(holder.state_dict()), IsEmpty());
  EXPECT_EQ(holder.named_modules().size(), 1u);
  holder.eval();
  EXPECT_THROW(holder(ones({1})), Error);
  EXPECT_FALSE(nn::clone(holder).part.has_value());
}

struct Twins : nn::Module {
  nn::Linear a{2, 2}, b{2, 2};
  Tensor forward(const Tensor& x) override { return b(a(x)); }
  void visit(nn::Visitor& v) override {
    v.child("fc", a);
    v.child("fc", b);
  }
};

struct Dotted : nn::Module {
  Tensor w = ones({1});
  Tensor forward(const Tensor& x) override { return x * w; }
  void visit(nn::Visitor& v) override { v.parameter("a.weight", w); }
};

struct Mirror : nn::Module {
  Tensor forward(const Tensor& x) override { return x; }
  void visit(nn::Visitor& v) override { v.child("self", *this); }
};

TEST(Module, NamesAreUniqueAndNoModuleLiesInItself) {
  Twins twins;
  EXPECT_ERROR(twins.state_dict(), Error, "two members of this module are called \"fc\"");
  Dotted dotted;
  EXPECT_ERROR(dotted.state_dict(), Error, "\"a.weight\" is not a valid name for a member");
  Mirror mirror;
  EXPECT_ERROR(mirror.parameters(), Error, "the module \"self\" contains itself");
}

TEST(Module, AStateDictIsOffTheTape) {
  nn::Linear linear(2, 2);
  for (const auto& [name, tensor] : linear.state_dict())
    EXPECT_FALSE(tensor.requires_grad()) << name;
  linear.state_dict()[0].tensor.fill_(3);
  EXPECT_EQ(linear.weight.to_vector(), (std::vector<float>{3, 3, 3, 3}));
}

struct WithMask : nn::Module {
  Tensor mask = ones({2, 2}), count = zeros({1});
  Tensor forward(const Tensor& x) override { return x * mask; }
  void visit(nn::Visitor& v) override {
    v.non_persistent_buffer("mask", mask);
    v.buffer("count", count);
  }
};

TEST(Module, StateDictsLeaveOutNonPersistentBuffers) {
  WithMask module;
  EXPECT_EQ(module.named_buffers().size(), 2U);
  const nn::StateDict state = module.state_dict();
  ASSERT_EQ(state.size(), 1U);
  EXPECT_EQ(state[0].name, "count");
  module.load_state_dict(state);
  module.to(f64);
  EXPECT_EQ(module.mask.dtype(), f64) << "it moves with the module";
  EXPECT_EQ(nn::clone(module).mask.dtype(), f64);
}

}  // namespace
}  // namespace rondo::test
