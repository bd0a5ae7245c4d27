// trace: a model's tape as a program. (The tests of graph_of, which draws it, are in
// tests/extras/tensorboard/summary_writer_test.cpp.)

#include "nn/graph.h"

#include <gtest/gtest.h>

#include "autograd/ops/arithmetic.h"
#include "nn/activation.h"
#include "nn/batch_norm.h"
#include "nn/containers.h"
#include "nn/flatten.h"
#include "nn/linear.h"
#include "support/errors.h"
#include "tensor/creation.h"

namespace rondo::test {
namespace {

TEST(Trace, HoldsWhatItTakesToRunAgain) {
  nn::Sequential model(nn::Linear(4, 3), nn::BatchNorm1d(3));
  model[0].requires_grad_(false);
  model.train();
  const nn::Trace found = nn::trace(model, zeros({5, 4}));
  EXPECT_TRUE(model.is_training());
  EXPECT_FALSE(model[0].parameters()[0].requires_grad());  // traced nevertheless
  EXPECT_TRUE(model[1].parameters()[0].requires_grad());

  const auto named = [&](std::int64_t i) { return found.nodes[static_cast<std::size_t>(i)]; };
  const nn::GraphNode norm = named(found.outputs[0].second.node);
  EXPECT_EQ(norm.name, "1.batch_norm_inference");
  EXPECT_EQ(norm.scope, "1");
  EXPECT_EQ(norm.dtypes, std::vector<DType>{f32});
  EXPECT_EQ(std::get<double>(norm.attributes.at("eps")), 1e-5);
  ASSERT_EQ(norm.arguments.size(), 5u);
  EXPECT_EQ(named(norm.arguments[1].node).name, "1.weight");
  EXPECT_EQ(norm.arguments[3].node, -1);
  EXPECT_EQ(norm.arguments[3].constant.storage(),
            model[1].as<nn::BatchNorm1d>().running_mean.storage());
  const nn::GraphNode linear = named(norm.arguments[0].node);
  EXPECT_EQ(linear.op, "linear");
  EXPECT_EQ(named(linear.arguments[0].node).op, "input");
  EXPECT_EQ(named(linear.arguments[1].node).value.storage(), model[0].parameters()[0].storage());
}

TEST(Trace, OfTheIdentityIsTheInput) {
  nn::Identity model;
  const nn::Trace found = nn::trace(model, zeros({2}));
  ASSERT_EQ(found.nodes.size(), 1u);
  EXPECT_EQ(found.nodes[0].op, "input");
  EXPECT_EQ(found.outputs[0].second.node, 0);
}

struct Halves : nn::Module {
  Tensor forward(const Tensor& x) override {
    const Tensors parts = split(x, 2);
    return parts[0] * parts[1];
  }
};

TEST(GraphOf, NamesTheOutputOfANodeWithSeveral) {
  Halves model;
  const std::vector<nn::GraphNode> graph = nn::graph_of(model, zeros({4}));
  ASSERT_EQ(graph.size(), 3u);
  EXPECT_EQ(graph.back().inputs, (std::vector<std::string>{"split", "split:1"}));
}

struct Detached : nn::Module {
  Tensor forward(const Tensor& x) override { return x.detach() + 1.0; }
};

TEST(Trace, OfWhatNoGradientFlowsToIsAConstant) {
  Detached model;
  const nn::Trace found = nn::trace(model, zeros({2}));
  EXPECT_TRUE(found.nodes.empty());
  EXPECT_EQ(found.outputs[0].second.node, -1);
  EXPECT_EQ(found.outputs[0].second.constant.to_vector(), (std::vector<float>{1, 1}));
}

/// Uses a buffer, then writes to it.
struct Counting : nn::Module {
  Tensor count = zeros({2});
  Tensor forward(const Tensor& x) override {
    const Tensor y = x * count;
    count.fill_(1.0);
    return y;
  }
};

TEST(Trace, NoticesConstantsThatAreOverwritten) {
  Counting model;
  EXPECT_ERROR(nn::trace(model, zeros({2})), AutogradError,
               "mul: its input of shape [2] was modified in place after it was used");
}

}  // namespace
}  // namespace rondo::test
