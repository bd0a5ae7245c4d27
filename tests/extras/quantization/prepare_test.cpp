// Conversion to int8 layers: ranges as in PyTorch's observers, training as in its modules, whole
// models compared with their f32 originals. The layers themselves: int8_test.cpp.

#include "extras/quantization/prepare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "autograd/checkpoint.h"
#include "autograd/engine.h"
#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/conv.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "extras/quantization/int8.h"
#include "extras/quantization/prepared.h"
#include "nn/activation.h"
#include "nn/attention.h"
#include "nn/containers.h"
#include "nn/flatten.h"
#include "nn/models/models.h"
#include "optim/sgd.h"
#include "support/errors.h"
#include "support/fill.h"
#include "support/golden.h"
#include "support/mnist_cnn.h"
#include "support/support.h"

namespace rondo::nn {
namespace {

using test::all_close;
using test::fill;
using test::fill32;
using test::Golden;
using test::identical;
using test::tolerance;
using ::testing::HasSubstr;

TEST(Observers, FindPyTorchsRanges) {
  const Golden golden("quantize.txt");
  using Range = ObserverOptions::Range;
  for (auto [name, range] :
       {std::pair{"min_max", Range::min_max}, {"moving_average", Range::moving_average}}) {
    FakeQuantize fake({.range = range, .averaging_constant = 0.25});
    for (std::uint32_t i = 0; i < 3; ++i) fake(fill32({2, 50}, i, 1.0 + i, 0.25 * i));
    const Quantization q = fake.quantization();
    const std::string key = std::string("observer.") + name;
    EXPECT_NEAR(q.scale, golden[key + ".scale"].item<double>(), 1e-8) << name;
    EXPECT_EQ(q.zero_point, golden[key + ".zero_point"].item<std::int64_t>()) << name;
  }
  FakeQuantize positive({.range = Range::min_max});
  positive(fill32({2, 50}, 1, 0.5, 2));
  EXPECT_NEAR(positive.quantization().scale, golden["observer.positive.scale"].item<double>(),
              1e-9);
  EXPECT_EQ(positive.quantization().zero_point, 0);
}

TEST(Observers, ComplainOfWhatCannotBeARange) {
  FakeQuantize fake({.range = ObserverOptions::Range::min_max});
  EXPECT_ERROR(fake.quantization(), Error, "no input has been observed");
  fake(tensor<double>({1.0, NAN}).to(f32));
  fake(ones({2}));
  EXPECT_ERROR(fake.quantization(), Error, "nan");
  EXPECT_ERROR(FakeQuantize({.averaging_constant = 0}), Error, "at most 1, but is 0");
}

TEST(Observers, ACheckpointNoticesARangeThatHasMoved) {
  FakeQuantize fake({.range = ObserverOptions::Range::min_max});
  fake.fake_quant_enabled = true;
  const Tensor x = fill32({2, 50}, 1).requires_grad_(), wider = fill32({2, 50}, 2, 5);
  auto part = [&](const Tensor& x) { return fake(x) * x; };
  const Tensor direct = part(x), again = checkpoint(part, x);
  EXPECT_TRUE(identical(grad({again.sum()}, {x})[0], grad({direct.sum()}, {x})[0]));
  const Tensor first = checkpoint(part, x), second = checkpoint(part, wider);
  EXPECT_ERROR((first + second).sum().backward(), AutogradError, "was modified in place");
}

TEST(QuantizeDynamic, MakesAModelAQuarterOfItsSize) {
  Sequential net(Linear(784, 512), ReLU(), Linear(512, 512), ReLU(), Linear(512, 10));
  const Tensor x = fill32({16, 784}, 1);
  NoGradGuard no_grad;
  const Tensor before = net(x);
  std::int64_t bytes = 0, fewer = 0;
  for (auto& [name, tensor] : net.state_dict()) bytes += tensor.nbytes();
  EXPECT_EQ(quantize_dynamic(net), 3);
  for (auto& [name, tensor] : net.state_dict()) fewer += tensor.nbytes();
  EXPECT_GT(static_cast<double>(bytes) / static_cast<double>(fewer), 3.9);
  const Tensor after = net(x);
  // The relative error of each product is 2^-9 per factor; over the sum the errors are a random
  // walk.
  EXPECT_TRUE(all_close(after, before, 0.02 * before.abs().max().item<double>()));
  EXPECT_FALSE(identical(after, before));
  EXPECT_EQ(net.parameters().size(), 0u);
  EXPECT_ERROR(quantize_dynamic(net), Error, "no Linear");
}

TEST(QuantizeDynamic, LeavesWhatIsToBeLeft) {
  Sequential net(Linear(8, 8), ReLU(), Linear(8, 4));
  EXPECT_EQ(quantize_dynamic(net, {"2"}), 1);
  ASSERT_EQ(net.parameters().size(), 2u);
  EXPECT_EQ(net.named_parameters()[0].name, "2.weight");
}

TEST(QuantizeDynamic, ReachesLayersOfAnyOwner) {
  MultiheadAttention attention(8, 2, {.batch_first = true});
  const Tensor x = fill32({2, 5, 8}, 1);
  NoGradGuard no_grad;
  const Tensor before = attention(x);
  EXPECT_EQ(quantize_dynamic(attention), 1);  // out_proj, a plain member
  EXPECT_TRUE(all_close(attention(x), before, 0.02));
  EXPECT_FALSE(identical(attention(x), before));
}

TEST(QuantizeDynamic, TheActivationGoesAlong) {
  Linear linear(8, 4);
  quantize_dynamic(linear);
  NoGradGuard no_grad;
  const Tensor x = fill32({3, 8}, 1), y = linear(x);
  EXPECT_TRUE(identical(linear(x, Activation::relu), relu(y)));
  EXPECT_TRUE(identical(linear(x, Activation::gelu_tanh), gelu(y, GeluApproximation::tanh)));
  EXPECT_LT(y.min().item(), 0);
}

TEST(QuantizeDynamic, IsSavedAndLoaded) {
  auto make = [] { return Sequential(Linear(8, 8), ReLU(), Linear(8, 4)); };
  Sequential net = make(), other = make();
  quantize_dynamic(net);
  EXPECT_ERROR(other.load_state_dict(net.state_dict()), Error, "unexpected keys: 0.weight_int8");
  quantize_dynamic(other);
  other.load_state_dict(net.state_dict());
  NoGradGuard no_grad;
  const Tensor x = fill32({3, 8}, 1);
  EXPECT_TRUE(identical(other(x), net(x)));
}

/// A block as in ResNets, with plain members.
struct Block : Module {
  Conv2d conv1{3, 8, 3, {.padding = 1, .bias = false}};
  BatchNorm2d bn1{8};
  Conv2d conv2{8, 8, 3, {.padding = 1, .bias = false}};
  BatchNorm2d bn2{8};
  Conv2d both{3, 8, 1};
  BatchNorm2d not_folded{8};
  Tensor forward(const Tensor& x) override {
    const Tensor shortcut = both(x);
    const Tensor y =
        bn2(conv2(bn1(conv1(x), {.relu = true})), {.residual = shortcut, .relu = true});
    return y + not_folded(shortcut);
  }
  void visit(Visitor& v) override {
    v.child("conv1", conv1);
    v.child("bn1", bn1);
    v.child("conv2", conv2);
    v.child("bn2", bn2);
    v.child("both", both);
    v.child("not_folded", not_folded);
  }
};

/// Batch norms with statistics other than 0 and 1.
void unsettle(Module& model) {
  std::uint32_t key = 50;
  for (auto& [name, module] : model.named_modules()) {
    auto* bn = dynamic_cast<BatchNorm*>(module);
    if (bn == nullptr) continue;
    NoGradGuard no_grad;
    const Dims shape = bn->weight.shape();
    bn->weight.copy_(fill32(shape, key++, 0.5, 1));
    bn->bias.copy_(fill32(shape, key++, 0.5));
    bn->running_mean.copy_(fill32(shape, key++, 0.5));
    bn->running_var.copy_(fill32(shape, key++, 0.25, 1));
  }
}

TEST(Prepare, FoldsWhatFollowsAndComputesWhatItDid) {
  Block block;
  unsettle(block);
  block.eval();
  const Tensor x = fill32({2, 3, 6, 6}, 1);
  NoGradGuard no_grad;
  const Tensor before = block(x);
  EXPECT_EQ(prepare(block, x), 3);
  // Two layers read the output of `both`, so its batch norm is not folded.
  EXPECT_TRUE(dynamic_cast<FoldedBatchNorm*>(&block.bn1.self()));
  EXPECT_TRUE(dynamic_cast<FoldedBatchNorm*>(&block.bn2.self()));
  EXPECT_FALSE(dynamic_cast<FoldedBatchNorm*>(&block.not_folded.self()));
  EXPECT_TRUE(all_close(block(x), before, tolerance(f32, 72, 4)));
  EXPECT_FALSE(block.is_training());
  EXPECT_EQ(block.bn1.weight.defined(), false) << "what was folded is held twice";

  EXPECT_EQ(convert(block), 3);
  const auto& conv1 = dynamic_cast<Int8Conv2d&>(block.conv1.self());
  const auto& conv2 = dynamic_cast<Int8Conv2d&>(block.conv2.self());
  EXPECT_TRUE(conv1.relu);
  EXPECT_FALSE(conv2.relu);
  EXPECT_TRUE(all_close(block(x), before, 0.02 * before.abs().max().item<double>()));
  Block copy = clone(block);
  EXPECT_TRUE(identical(copy(x), block(x)));
}

TEST(Prepare, AReluBetweenKeepsThemApart) {
  test::MnistCnn net;
  unsettle(net);
  net.eval();
  NoGradGuard no_grad;
  const Tensor x = fill32({2, 1, 28, 28}, 1);
  const Tensor before = net(x);
  prepare(net, x);
  EXPECT_TRUE(identical(net(x), before));
  convert(net);
  EXPECT_TRUE(all_close(net(x), before, 0.03 * before.abs().max().item<double>()));
}

TEST(Prepare, WholeResNetsAgreeWithThemselves) {
  for (const char* name : {"resnet20", "resnet18"}) {
    SCOPED_TRACE(name);
    auto model = make_model(name, {.num_classes = 10});
    unsettle(model);
    model.eval();
    const Tensor x = fill32({4, 3, 32, 32}, 1);
    NoGradGuard no_grad;
    const Tensor before = model(x);
    prepare(model, x);
    model(x);
    convert(model);
    const Tensor after = model(x);
    EXPECT_TRUE(all_close(after, before, 0.1 * before.abs().max().item<double>()));
    for (auto& [key, tensor] : model.state_dict())
      EXPECT_FALSE(tensor.dtype() == f32 && tensor.numel() > 4096) << key;
  }
}

TEST(Prepare, PaddingModesStay) {
  Sequential net(Conv2d(3, 4, 3, {.padding = 2, .padding_mode = PadMode::reflect}), ReLU(),
                 Conv2d(4, 4, 2, {.same_padding = true}));
  net.eval();
  NoGradGuard no_grad;
  const Tensor x = fill32({2, 3, 6, 6}, 1), before = net(x);
  prepare(net, x);
  EXPECT_TRUE(identical(net(x), before));
  convert(net);
  EXPECT_TRUE(all_close(net(x), before, 0.03 * before.abs().max().item<double>()));
}

TEST(Prepare, RefusesWhatItCannotDo) {
  Sequential nothing = Sequential(ReLU{});
  EXPECT_ERROR(prepare(nothing, ones({1})), Error, "no Linear or Conv2d");
  Sequential net(Linear(4, 4), ReLU(), Linear(4, 2));
  EXPECT_ERROR(convert(net), Error, "call prepare or prepare_qat first");
  EXPECT_ERROR(prepare(net, ones({1, 5})), ShapeError, "linear");
  EXPECT_EQ(net.parameters().size(), 4u);  // unchanged
  prepare(net, ones({1, 4}));
  for (auto& [name, module] : net.named_modules())
    if (auto* fake = dynamic_cast<FakeQuantize*>(module)) *fake = FakeQuantize();
  EXPECT_ERROR(convert(net), Error, "convert: 0: quantisation: no input has been observed");
  EXPECT_EQ(net.parameters().size(), 4u);
}

TEST(PrepareQat, TrainsAsPyTorchDoes) {
  const Golden golden("quantize.txt");
  for (bool bias : {false, true}) {
    const std::string name = bias ? "qat.bias" : "qat";
    SCOPED_TRACE(name);
    Sequential net(Conv2d(4, 6, 3, {.stride = 2, .padding = 1, .bias = bias}), BatchNorm2d(6));
    const Tensor first = fill32({3, 4, 5, 5}, 20, 1, 0.25);
    prepare_qat(net, first);
    auto* prepared = dynamic_cast<PreparedConv2d*>(net.named_modules()[1].second);
    ASSERT_NE(prepared, nullptr);
    {
      NoGradGuard no_grad;
      prepared->conv.weight.copy_(fill32({6, 4, 3, 3}, 10));
      if (bias) prepared->conv.bias.copy_(fill32({6}, 11));
      prepared->bn->weight.copy_(fill32({6}, 12, 0.5, 1));
      prepared->bn->bias.copy_(fill32({6}, 13));
    }
    Tensor x, y;
    for (std::uint32_t i = 0; i < 2; ++i) {
      net.zero_grad();
      x = fill32({3, 4, 5, 5}, 20 + i, 1, 0.25).requires_grad_();
      y = net(x);
      y.backward(fill32(y.shape(), 30 + i));
    }
    // Sums of up to 27 products forward, and 3 · 9 and 6 · 9 backward, through a batch norm of 27.
    const double near = tolerance(f32, 54, 8);
    EXPECT_TRUE(all_close(y, golden[name + ".y"], near));
    EXPECT_TRUE(all_close(x.grad(), golden[name + ".dx"], near));
    EXPECT_TRUE(all_close(prepared->conv.weight.grad(), golden[name + ".dweight"], near));
    EXPECT_TRUE(all_close(prepared->bn->weight.grad(), golden[name + ".dgamma"], near));
    EXPECT_TRUE(all_close(prepared->bn->bias.grad(), golden[name + ".dbeta"], near));
    EXPECT_TRUE(all_close(prepared->bn->running_var, golden[name + ".running_var"], near));
    net.eval();
    NoGradGuard no_grad;
    const Tensor evaluated = net(fill32({3, 4, 5, 5}, 22));
    EXPECT_TRUE(all_close(evaluated, golden[name + ".eval"], near));
    // The converted model computes what it was trained to compute.
    convert(net);
    if (int8_levels() == 255) {
      EXPECT_TRUE(all_close(net(fill32({3, 4, 5, 5}, 22)), golden[name + ".eval"], near));
    }
  }
}

TEST(PrepareQat, LinearTrainsAsPyTorchDoes) {
  const Golden golden("quantize.txt");
  Sequential net(Linear(7, 5));
  prepare_qat(net, fill32({3, 7}, 20));
  auto* prepared = dynamic_cast<PreparedLinear*>(net.named_modules()[1].second);
  ASSERT_NE(prepared, nullptr);
  {
    NoGradGuard no_grad;
    prepared->linear.weight.copy_(fill32({5, 7}, 10));
    prepared->linear.bias.copy_(fill32({5}, 11));
  }
  const Tensor x = fill32({3, 7}, 20).requires_grad_();
  const Tensor y = net(x);
  y.backward(fill32({3, 5}, 30));
  EXPECT_TRUE(all_close(y, golden["qat.linear.y"], tolerance(f32, 7)));
  EXPECT_TRUE(all_close(x.grad(), golden["qat.linear.dx"], tolerance(f32, 5)));
  EXPECT_TRUE(
      all_close(prepared->linear.weight.grad(), golden["qat.linear.dweight"], tolerance(f32, 3)));
}

TEST(PrepareQat, EvaluationLeavesNoTrace) {
  Sequential net(Linear(4, 2));
  prepare_qat(net, ones({1, 4}));
  net(fill32({8, 4}, 1));
  const Tensor range = net.named_buffers()[1].tensor.clone();
  net.eval();
  net(fill32({8, 4}, 1, 100));
  EXPECT_TRUE(identical(net.named_buffers()[1].tensor, range));
  net.train();
  enable_observer(net, false);
  net(fill32({8, 4}, 1, 100));
  EXPECT_TRUE(identical(net.named_buffers()[1].tensor, range));
  EXPECT_EQ(net.named_buffers()[1].name, "0.input.max_val");
}

TEST(PrepareQat, LearnsWithTheRoundingInIt) {
  // Weights on a grid of 1/128 of their maximum: the loss falls nevertheless, and convert keeps it.
  Sequential net(Linear(6, 16), ReLU(), Linear(16, 3));
  const Tensor x = fill32({64, 6}, 1);
  const Tensor target = x.narrow(1, 0, 3).contiguous().argmax(1);
  prepare_qat(net, x);
  optim::SGD sgd(net.parameters(), {.lr = 0.5});
  double first = 0, last = 0;
  for (int step = 0; step < 200; ++step) {
    net.zero_grad();
    const Tensor loss = cross_entropy(net(x), target);
    loss.backward();
    sgd.step();
    (step == 0 ? first : last) = loss.item<double>();
  }
  EXPECT_LT(last, 0.2 * first);
  net.eval();
  NoGradGuard no_grad;
  const auto trained = cross_entropy(net(x), target).item<double>();
  convert(net);
  EXPECT_NEAR(cross_entropy(net(x), target).item<double>(), trained, 0.02);
}

// MinMaxObserver(dtype=torch.quint8).calculate_qparams(), which computes in f32.
TEST(Quantize, ZeroPointsArePyTorchs) {
  for (const auto& [least, most, scale, zero_point] :
       {std::tuple{-1.0, 1.0, 0.007843137718737125, 127},
        {-1.5, 2.5, 0.01568627543747425, 96},
        {-0.3, 0.7, 0.003921568859368563, 76},
        {-3.0, 3.0, 0.0235294122248888, 128},
        {-0.1, 0.1, 0.0007843137136660516, 128},
        {-1e-9, 1e-9, 1.1920928955078125e-07, 0}}) {
    const Quantization q = affine_quantization(least, most);
    EXPECT_EQ(q.scale, scale) << least;
    EXPECT_EQ(q.zero_point, zero_point) << least;
  }
}

/// A layer of a derived type may compute something else: it stays as it is.
TEST(Quantize, DerivedLayersAreLeftAlone) {
  struct Loud : nn::Linear {
    using nn::Linear::Linear;
    Tensor forward(const Tensor& x) override { return nn::Linear::forward(x) * 1000; }
  };
  manual_seed(1);
  nn::Sequential net(nn::Linear(8, 8), Loud(8, 8));
  net.eval();
  const Tensor x = randn({4, 8});
  const NoGradGuard no_grad;
  const Tensor before = net(x);
  EXPECT_EQ(nn::quantize_dynamic(net), 1);
  const Tensor after = net(x);
  EXPECT_LT((after - before).norm().item(), 0.02 * before.norm().item());
}

}  // namespace
}  // namespace rondo::nn
