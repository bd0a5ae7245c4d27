// ModuleOf: modules with any arguments and results, called alone, cloned, replaced, checkpointed,
// summarised and traced.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <type_traits>

#include "autograd/checkpoint.h"
#include "autograd/ops/arithmetic.h"
#include "nn/activation.h"
#include "nn/containers.h"
#include "nn/graph.h"
#include "nn/summary.h"
#include "support/any_forward.h"
#include "support/errors.h"
#include "support/support.h"
#include "tensor/creation.h"

namespace rondo::test {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

TEST(ModuleOf, IsCalledWithItsArguments) {
  manual_seed(1);
  Detector net;
  const Tensor x = randn({5, 6}), mask = (randn({5, 6}) > 0).to(f32);
  const Detections found = net(x, mask);
  EXPECT_EQ(found.scores.shape(), Dims({5, 3}));
  EXPECT_EQ(found.boxes.shape(), Dims({5, 4}));
  EXPECT_TRUE(identical(found.scores, net(x * mask).scores));  // without a mask, as None in PyTorch
  loss_of(found).backward();
  for (const auto& [name, p] : net.named_parameters()) EXPECT_TRUE(p.grad().defined()) << name;
  EXPECT_THAT(net.state_dict().keys(), ElementsAre("body.weight", "body.bias", "score.weight",
                                                   "score.bias", "box.weight", "box.bias"));
  static_assert(!std::is_invocable_v<Detector&, Tensor, Tensor, Tensor>);
  static_assert(!std::is_invocable_v<nn::ReLU&, Tensor, Tensor>);
}

/// One tensor in, another result.
struct ModuleWithMoments : nn::ModuleOf<std::pair<Tensor, Tensor>(Tensor)> {
  std::pair<Tensor, Tensor> forward(Tensor x) override { return {x.mean(), x.std()}; }
};
/// Numbers, texts and optional tensors as arguments.
struct ScaledModule
    : nn::ModuleOf<Tensor(Tensor, double, const std::string&, std::optional<Tensor>)> {
  Tensor forward(Tensor x, double by, const std::string& how, std::optional<Tensor> plus) override {
    const Tensor y = how == "divide" ? x / by : x * by;
    return plus ? y + *plus : y;
  }
};
TEST(ModuleOf, TakesAnyTypes) {
  ModuleWithMoments moments;
  const auto [mean, deviation] = moments(tensor<float>({1, 3}));
  EXPECT_EQ(mean.item(), 2);
  EXPECT_FLOAT_EQ(deviation.item<float>(), std::sqrt(2.0F));
  ScaledModule scaled;
  EXPECT_EQ(scaled(ones({1}), 4, "divide", {}).item(), 0.25);
  EXPECT_EQ(scaled(ones({1}), 4, "multiply", ones({1})).item(), 5);
  int inputs = 0;
  scaled.register_forward_pre_hook(
      [&](nn::Module&, const Tensors& x) { inputs = static_cast<int>(x.size()); });
  scaled(ones({1}), 4, "multiply", ones({1}));
  EXPECT_EQ(inputs, 2);
}

/// A result of one tensor: containers run it without the other arguments.
struct MaskedModule : nn::ModuleOf<Tensor(Tensor, Tensor)> {
  Tensor forward(Tensor x, Tensor mask) override { return mask.defined() ? x * mask : x; }
};
TEST(ModuleOf, ContainersRunModulesOfOneTensor) {
  static_assert(nn::Linear::takes_one_tensor && MaskedModule::takes_one_tensor);
  static_assert(!Detector::takes_one_tensor && !ModuleWithMoments::takes_one_tensor);
  nn::Sequential net{MaskedModule(), nn::ReLU()};
  EXPECT_EQ(net(ones({2})).sum().item(), 2);
  const nn::AnyModule any = Detector();
  EXPECT_ERROR(nn::AnyModule(any)(ones({1, 6})), Error,
               "Detector: its forward does not take one tensor and return one");
}

TEST(ModuleOf, IsCopiedClonedAndConverted) {
  Detector net;
  const Tensor x = randn({2, 6});
  Detector copy = clone(net);
  EXPECT_TRUE(identical(copy(x).boxes, net(x).boxes));
  {
    NoGradGuard no_grad;
    net.box.bias.add_(net.box.bias, 1.0);
  }
  EXPECT_FALSE(all_close(copy(x).boxes, net(x).boxes, 1e-3));
  net.to(f64).eval();
  EXPECT_EQ(net(x.to(f64)).scores.dtype(), f64);
}

struct LoudDetector : Detector {
  Detections forward(Tensor x, Tensor mask) override { return Detector::forward(x * 2.0, mask); }
};
struct DetectorOwner : nn::ModuleOf<Detections(Tensor)> {
  Detector part;
  Detections forward(Tensor x) override { return part(x); }
  void visit(nn::Visitor& v) override { v.child("part", part); }
};
TEST(ModuleOf, IsReplacedByAModuleOfTheSameSignature) {
  DetectorOwner owner;
  const LoudDetector loud;
  const Tensor x = randn({2, 6});
  const Tensor expected = nn::clone(loud)(x).scores;
  owner.set_submodule("part", loud);
  EXPECT_TRUE(identical(owner(x).scores, expected));
  owner.set_submodule("part", nn::ReLU());
  EXPECT_ERROR(owner(x), Error,
               "ReLU: set_submodule put it in place of a Detector, but its forward has other "
               "arguments or results");
}

TEST(ModuleOf, ChecksItsParametersAsModuleDoes) {
  Detector net;
  net.body.weight = net.body.weight * 2.0;
  EXPECT_ERROR(net(ones({1, 6})), AutogradError, "its parameter \"body.weight\" was replaced");
}

TEST(ModuleOf, IsCheckpointed) {
  manual_seed(3);
  Detector net;
  const Tensor x = randn({4, 6}).requires_grad_(), mask = (randn({4, 6}) > 0).to(f32);
  loss_of(net(x, mask)).backward();
  std::vector<Tensor> expected;
  for (const Tensor& p : net.parameters()) expected.push_back(p.grad().clone());
  const Tensor dx = x.grad().clone();
  net.zero_grad();
  x.zero_grad();
  int forwards = 0;
  net.register_forward_pre_hook([&](nn::Module&, const Tensors&) { ++forwards; });
  const Detections found = checkpoint(net, x, mask);
  EXPECT_EQ(forwards, 1);
  loss_of(found).backward();
  EXPECT_EQ(forwards, 2);
  EXPECT_TRUE(identical(x.grad(), dx));
  const auto parameters = net.parameters();
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(identical(parameters[i].grad(), expected[i]));
  NoGradGuard no_grad;
  EXPECT_TRUE(identical(checkpoint(net, x, mask).scores, found.scores));
}

TEST(ModuleOf, IsSummarised) {
  Detector net;
  const nn::ModelSummary s = nn::summarize(net, randn({2, 6}), ones({2, 6}));
  ASSERT_EQ(s.layers.size(), 3u);
  EXPECT_EQ(s.layers[0].name, "body");
  EXPECT_EQ(s.multiply_adds, 2 * (6 * 8 + 8 * 3 + 8 * 4));
  // The results of the three layers, and those of the whole.
  EXPECT_EQ(s.output_bytes, 4 * 2 * (8 + 3 + 4));
  EXPECT_TRUE(net.is_training());
}

TEST(ModuleOf, IsTracedWithNames) {
  Detector net;
  const nn::Trace found = nn::trace(net, randn({2, 6}), ones({2, 6}));
  std::vector<std::string> inputs, outputs;
  for (const nn::GraphNode& node : found.nodes)
    if (node.op == "input") inputs.push_back(node.name);
  for (const auto& [name, output] : found.outputs) outputs.push_back(name);
  EXPECT_THAT(inputs, UnorderedElementsAre("input_0", "input_1"));
  EXPECT_THAT(outputs, ElementsAre("scores", "boxes", "features.0"));
}

}  // namespace
}  // namespace rondo::test
