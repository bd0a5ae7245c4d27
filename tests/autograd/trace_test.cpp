// The attributes that nodes report, and the tensors that they keep under TraceMode.

#include "autograd/trace.h"

#include <gtest/gtest.h>

#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/conv.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/norm.h"
#include "autograd/ops/pad.h"
#include "autograd/ops/pool.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/record.h"
#include "support/errors.h"
#include "support/support.h"
#include "tensor/creation.h"

namespace rondo::test {
namespace {

Tensor leaf_of(const Dims& sizes) { return ones(sizes).requires_grad_(); }

Node& node_of(const Tensor& y) { return *gradient_edge(y).node; }

/// The attribute `name` of the op that computed y.
template <class T>
T told(const Tensor& y, const char* name) {
  return std::get<T>(attributes_of(node_of(y)).at(name));
}

TEST(Attributes, SayWhatOpsWereTold) {
  const Tensor conv =
      conv2d(leaf_of({1, 4, 9, 9}), leaf_of({6, 2, 3, 3}), {},
             {.stride = {1, 2}, .padding = {3, 0}, .dilation = {2, 1}, .groups = 2});
  EXPECT_EQ(told<Dims>(conv, "stride"), Dims({1, 2}));
  EXPECT_EQ(told<Dims>(conv, "padding"), Dims({3, 0}));
  EXPECT_EQ(told<Dims>(conv, "dilation"), Dims({2, 1}));
  EXPECT_EQ(told<std::int64_t>(conv, "groups"), 2);
  const Tensor x = leaf_of({2, 3, 4, 4});
  EXPECT_EQ(told<Dims>(max_pool2d(x, {2, 3}, {.stride = 1, .padding = 1}), "kernel"), Dims({2, 3}));
  EXPECT_EQ(told<std::int64_t>(avg_pool2d(x, 2, {.count_include_pad = false}), "count_include_pad"),
            0);
  EXPECT_EQ(told<std::int64_t>(softmax(x, -1), "dim"), 3);
  EXPECT_EQ(told<double>(leaky_relu(x, 0.25), "slope"), 0.25);
  EXPECT_EQ(told<std::string>(gelu(x, GeluApproximation::tanh), "approximation"), "tanh");
  EXPECT_EQ(told<double>(sub(x, x, 3), "alpha"), -3);
  EXPECT_EQ(told<double>(pow(x, 1.5), "exponent"), 1.5);
  EXPECT_EQ(told<Dims>(sum(x, {1, -1}), "dims"), Dims({1, 3}));
  EXPECT_EQ(told<Dims>(permute(x, {3, 0, 2, 1}), "order"), Dims({3, 0, 2, 1}));
  EXPECT_EQ(told<std::int64_t>(slice(x, 2, 1, 4, 2), "start"), 1);
  EXPECT_EQ(told<std::int64_t>(slice(x, 2, 1, 4, 2), "step"), 2);
  EXPECT_EQ(told<Dims>(pad(x, {1, -1}, PadMode::constant, 2), "padding"), Dims({1, -1}));
  EXPECT_EQ(told<double>(pad(x, {1, -1}, PadMode::constant, 2), "value"), 2);
  EXPECT_TRUE(attributes_of(node_of(relu(x))).empty());
}

TEST(Attributes, OfAnEmbeddingHoldTheIndexAsItWasGiven) {
  const Tensor index = tensor<std::int64_t>({1, 0, 1, 1}, {2, 2});
  const Tensor found = told<Tensor>(embedding(leaf_of({3, 5}), index), "index");
  EXPECT_EQ(found.shape(), index.shape());
  EXPECT_EQ(found.storage(), index.storage());
}

TEST(TraceMode, KeepsInputsThatAreNotOnTheTape) {
  const Tensor x = leaf_of({3}), mask = full({3}, 2.0);
  EXPECT_FALSE(constant_input(node_of(x + mask), 1).defined());
  const TraceMode tracing;
  const Tensor y = x + mask;
  EXPECT_FALSE(constant_input(node_of(y), 0).defined());
  EXPECT_EQ(constant_input(node_of(y), 1).storage(), mask.storage());
  EXPECT_EQ(constant_input(node_of(x * 0.5), 1).item(), 0.5F);
  mask.fill_(3.0);
  EXPECT_ERROR(constant_input(node_of(y), 1), AutogradError,
               "add: its input of shape [3] was modified in place after it was used");
}

TEST(TraceMode, RefusesWritesThatItDoesNotRecord) {
  const Tensor x = leaf_of({3});
  const auto written = [&](const auto& write) {
    const TraceMode tracing;
    const Tensor y = x * 2.0;
    write(y);
    return y * 3.0;
  };
  const char* const text = "mul: its result of shape [3] was written without recording";
  EXPECT_ERROR(written([](const Tensor& y) { y.detach().fill_(1); }), AutogradError, text);
  EXPECT_ERROR(written([](const Tensor& y) { y.detach()[0].fill_(1); }), AutogradError, text);
  EXPECT_ERROR(written([](const Tensor& y) { no_grad([&] { return y.zero_(); }); }), AutogradError,
               text);
  EXPECT_EQ(written([](const Tensor& y) { y.add_(ones({3})).mul_(ones({3})); }).dim(), 1);
  EXPECT_EQ(written([](const Tensor& y) { (y + 1.0).detach().fill_(1); }).dim(), 1);
}

TEST(TraceMode, OwnsNoNodeThroughWhatItKeeps) {
  std::weak_ptr<Node> node;
  {
    const TraceMode tracing;
    const Tensor y = zeros({3});
    y.add_(leaf_of({3}));  // y was computed off the tape, and is this node's output
    node = node_of(y).weak_from_this();
  }
  EXPECT_TRUE(node.expired());
}

TEST(TraceMode, RecordsNormalisationsAsOneNodeEach) {
  manual_seed(1);
  const Tensor x = randn({2, 3, 4, 5}).requires_grad_(), gamma = randn({3}), beta = randn({3});
  const Tensor mean = randn({3}), var = rand({3}) + 0.5, residual = randn({2, 3, 4, 5});
  const auto bn = [&] {
    return batch_norm(x, gamma, beta, mean, var,
                      {.training = false, .eps = 1e-3, .residual = residual, .relu = true});
  };
  const auto ln = [&] { return layer_norm(x, {4, 5}, {}, {}, 1e-3); };
  const Tensor bn_plain = bn(), ln_plain = ln();
  EXPECT_STREQ(node_of(ln_plain).name(), "reshape");  // from the kernel that processed rows
  const TraceMode tracing;
  const Tensor normalised = bn(), layer = ln();
  const Node& added = *node_of(normalised).edges[0].node;
  Node& norm = *added.edges[0].node;
  EXPECT_STREQ(node_of(normalised).name(), "relu");
  EXPECT_STREQ(added.name(), "add");
  EXPECT_STREQ(norm.name(), "batch_norm_inference");
  EXPECT_EQ(norm.edges[0].node, gradient_edge(x).node);
  EXPECT_EQ(constant_input(norm, 3).storage(), mean.storage());
  EXPECT_EQ(std::get<double>(attributes_of(norm).at("eps")), 1e-3);
  EXPECT_STREQ(node_of(layer).name(), "layer_norm");
  EXPECT_EQ(told<std::int64_t>(layer, "dims"), 2);
  EXPECT_LT((normalised - bn_plain).abs().max().item(), tolerance(f32, 3));
  EXPECT_EQ((layer - ln_plain).abs().max().item(), 0);
  EXPECT_ERROR(layer.sum().backward(), AutogradError,
               "layer_norm: the node was recorded under TraceMode and has no backward");
}

}  // namespace
}  // namespace rondo::test
