// The models against PyTorch: state-dict keys and shapes, parameter counts, logits, loss, the
// gradient of every parameter (its norm and its product with a fixed vector), and evaluation.

#include "nn/models/models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/loss.h"
#include "support/fill.h"
#include "support/golden.h"
#include "support/support.h"
#include "support/test_device.h"

namespace rondo::test {
namespace {

using namespace nn;

const Golden& models_golden() {
  static const Golden file("nn_models.txt");
  return file;
}

/// Fills the model like make_nn.py: weights with variance 2 / fan in, norms around 1, biases around
/// 0.
void fill_parameters(Module& model, DType dtype) {
  NoGradGuard no_grad;
  std::uint32_t k = 10;
  for (auto& [name, p] : model.named_parameters()) {
    Tensor value;
    if (p.dim() > 1) {
      double fan_in = static_cast<double>(p.numel() / p.size(0));
      value = fill(p.shape(), k, std::sqrt(6 / fan_in));
    } else {
      value = fill(p.shape(), k, 0.25, name.ends_with("weight") ? 1 : 0);
    }
    p.copy_(value.to(dtype));
    ++k;
  }
}

/// max |ours - theirs| <= tolerance * max |theirs|.
void expect_close(const Tensor& ours, const std::string& name, double tolerance) {
  Tensor theirs = models_golden()[name];
  double scale = theirs.abs().max().item<double>();
  EXPECT_TRUE(all_close(ours.detach().to(Device::cpu()).to(f64), theirs, tolerance * scale))
      << name;
}

void check_keys(Module& model, const std::string& name) {
  EXPECT_EQ(model.num_parameters(), models_golden()[name + ".parameters"].item<std::int64_t>());
  for (auto& [key, tensor] : model.state_dict()) {
    std::string entry = name + ".shape." + key;
    ASSERT_TRUE(models_golden().has(entry)) << entry;
    auto sizes = models_golden()[entry].to_vector<std::int64_t>();
    EXPECT_EQ(tensor.shape(), Dims(sizes.begin(), sizes.end())) << key;
  }
}

/// Each of `depth` layers adds its rounding error, which all later layers amplify.
double tolerance_of(DType dtype, std::int64_t depth) {
  return static_cast<double>(depth) * tolerance(dtype, depth * depth);
}

/// In addition, a relu whose input is within a rounding of 0 may take its other branch. In f32 this
/// happens to one or two of half a million elements, depending on the machine's kernels, and each
/// changes gradients by some thousandths. f64 shows that the formulas are the same.
double tolerance_of_gradients(DType dtype, double tolerance) {
  return dtype == f64 ? tolerance : std::max(tolerance, 0.01);
}

void check_model(AnyModule model, const std::string& name, const Dims& shape,
                 std::initializer_list<std::int64_t> labels, DType dtype, double tolerance) {
  check_keys(model, name);
  model.to(dtype);
  model.to(test_device());
  fill_parameters(model, dtype);
  Tensor x = fill(shape, 0, 2).to(dtype).to(test_device());
  Tensor logits = model(x);
  Tensor loss = cross_entropy(logits, tensor<std::int64_t>(labels).to(test_device()));
  loss.backward();
  expect_close(logits.narrow(1, 0, 10), name + ".logits", tolerance);
  expect_close(loss, name + ".loss", tolerance);
  const double of_gradients = tolerance_of_gradients(dtype, tolerance);
  std::uint32_t k = 5000;
  for (auto& [key, p] : model.named_parameters()) {
    ASSERT_TRUE(p.grad().defined()) << key;
    Tensor g = p.grad().to(Device::cpu()).to(f64);
    Tensor theirs = models_golden()[name + ".grad." + key];
    double norm = theirs[0].item<double>();
    EXPECT_NEAR(g.norm().item<double>(), norm, of_gradients * norm) << key;
    EXPECT_NEAR((g * fill(g.shape(), k++)).sum().item<double>(), theirs[1].item<double>(),
                of_gradients * norm)
        << key;
  }
  model.eval();
  expect_close(model(x).narrow(1, 0, 10), name + ".eval", tolerance);
}

TEST(Models, MlpAgreesWithPyTorch) {
  for (DType dtype : {f64, f32}) {
    check_model(make_model("mlp"), "mlp", {3, 1, 28, 28}, {1, 9, 4}, dtype, tolerance(dtype, 784));
  }
}

TEST(Models, CifarResNet20AgreesWithPyTorch) {
  for (DType dtype : {f64, f32}) {
    check_model(make_model("resnet20"), "resnet20a", {2, 3, 16, 16}, {3, 7}, dtype,
                tolerance_of(dtype, 20));
    check_model(make_model("resnet20", {.shortcut = Shortcut::b}), "resnet20b", {2, 3, 16, 16},
                {3, 7}, dtype, tolerance_of(dtype, 20));
  }
}

TEST(Models, ResNet18AgreesWithPyTorch) {
  for (DType dtype : {f64, f32}) {
    check_model(make_model("resnet18"), "resnet18", {2, 3, 16, 16}, {3, 7}, dtype,
                tolerance_of(dtype, 18));
  }
}

TEST(Models, ResNet50WithImageNetStemAgreesWithPyTorch) {
  check_model(make_model("resnet50", {.num_classes = 1000, .stem = Stem::imagenet}), "resnet50",
              {2, 3, 48, 48}, {3, 700}, f64, tolerance_of(f64, 50));
}

TEST(Models, ParameterCountsAreThePublishedOnes) {
  for (std::int64_t depth : {20, 32, 44, 56, 110}) {
    std::string name = "resnet" + std::to_string(depth);
    EXPECT_EQ(make_model(name).num_parameters(),
              models_golden()[name + "a.parameters"].item<std::int64_t>());
  }
  struct Published {
    const char* name;
    std::int64_t parameters;
  };
  for (auto [name, parameters] : {Published{"resnet18", 11689512}, Published{"resnet34", 21797672},
                                  Published{"resnet50", 25557032}, Published{"resnet101", 44549160},
                                  Published{"resnet152", 60192808}}) {
    AnyModule model = make_model(name, {.num_classes = 1000, .stem = Stem::imagenet});
    EXPECT_EQ(model.num_parameters(), parameters) << name;
  }
}

TEST(Models, StateDictHasTorchvisionsKeys) {
  ResNet net;
  std::vector<std::string> keys;
  for (auto& t : net.state_dict()) keys.push_back(t.name);
  EXPECT_EQ(keys.size(), 122u);
  EXPECT_EQ(keys[0], "conv1.weight");
  EXPECT_EQ(keys[5], "bn1.num_batches_tracked");
  EXPECT_THAT(keys, ::testing::Contains("layer2.0.downsample.1.running_var"));
  EXPECT_EQ(keys[120], "fc.weight");
}

TEST(Models, StartAsTorchvisionsDo) {
  manual_seed(4);
  ResNet net({.zero_init_residual = true});
  double n = static_cast<double>(net.conv1.weight.numel());
  double variance = net.conv1.weight.pow(2).mean().item<double>();
  double expected = 2.0 / (64 * 49);  // fan out
  EXPECT_NEAR(variance, expected, 5 * expected * std::sqrt(2 / n));
  EXPECT_EQ(net.layer1[0].as<BasicBlock>().bn2.weight.abs().max().item(), 0);
  EXPECT_EQ(net.bn1.weight.min().item(), 1);
  ResNet deep({.depth = 50, .zero_init_residual = true});
  EXPECT_EQ(deep.layer4[2].as<Bottleneck>().bn3.weight.abs().max().item(), 0);
  EXPECT_EQ(deep.layer4[2].as<Bottleneck>().bn2.weight.min().item(), 1);
}

TEST(Models, TakeOtherChannelsClassesAndSizes) {
  NoGradGuard no_grad;
  AnyModule net = make_model("resnet20", {.num_classes = 7, .in_channels = 1});
  EXPECT_EQ(net(zeros({3, 1, 28, 28})).shape(), (Dims{3, 7}));
  net = make_model("mlp", {.num_classes = 100, .in_features = 3072});
  EXPECT_EQ(net(zeros({2, 3, 32, 32})).shape(), (Dims{2, 100}));
}

TEST(Models, FineTuningReplacesTheLastLayerInOneLine) {
  ResNet net({.stem = Stem::cifar});
  net.requires_grad_(false);
  net.fc = Linear(512, 3);
  Tensor y = net(zeros({2, 3, 8, 8}));
  EXPECT_EQ(y.shape(), (Dims{2, 3}));
  y.sum().backward();
  EXPECT_TRUE(net.fc.as<Linear>().weight.grad().defined());
  EXPECT_FALSE(net.conv1.weight.grad().defined());
}

TEST(Models, WorkInBf16) {
  AnyModule net = make_model("resnet20");
  net.to(bf16);
  Tensor y = net(fill({4, 3, 32, 32}, 0, 2).to(bf16));
  EXPECT_EQ(y.dtype(), bf16);
  y.sum().backward();
  for (auto& p : net.named_parameters()) {
    ASSERT_TRUE(p.tensor.grad().defined()) << p.name;
    EXPECT_EQ(p.tensor.grad().dtype(), p.tensor.dtype()) << p.name;
    EXPECT_FALSE(std::isnan(p.tensor.grad().to(f32).sum().item())) << p.name;
  }
}

TEST(Models, AnUnknownNameListsTheKnownOnes) {
  try {
    make_model("resnet19");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("unknown model \"resnet19\""));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("resnet20, resnet32"));
  }
  EXPECT_THROW(CifarResNet({.depth = 21}), Error);
  EXPECT_THROW(CifarResNet({.depth = 2}), Error);
  EXPECT_THROW(ResNet({.depth = 20}), Error);
}

}  // namespace
}  // namespace rondo::test
