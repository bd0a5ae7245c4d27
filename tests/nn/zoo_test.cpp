// The models of torchvision, and the U-Net, against PyTorch (tests/golden/make_zoo.py): small
// variants, whose parameters both sides fill. zoo_slow_test.cpp makes the full ones.

#include <gtest/gtest.h>

#include <cmath>

#include "autograd/engine.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/reduce.h"
#include "nn/models/convnext.h"
#include "nn/models/densenet.h"
#include "nn/models/efficientnet.h"
#include "nn/models/mobilenet_v2.h"
#include "nn/models/models.h"
#include "nn/models/unet.h"
#include "nn/models/vgg.h"
#include "nn/models/vit.h"
#include "support/errors.h"
#include "support/fill.h"
#include "support/golden.h"
#include "support/keys_hash.h"
#include "support/support.h"

namespace rondo::test {
namespace {

using namespace nn;

const Golden& zoo() {
  static const Golden file("zoo.txt");
  return file;
}

/// The rounding errors of some tens of layers, each of which may amplify them.
constexpr double bound = 1e-9;

void expect_agrees(const std::string& name, Module&& model, const Dims& shape) {
  EXPECT_EQ(keys_hash(model), zoo()[name + ".keys"].item<std::int64_t>()) << name;
  model.to(f64);
  const std::vector<NamedTensor> parameters = model.named_parameters();
  {
    const NoGradGuard no_grad;
    std::uint32_t k = 10;
    for (const auto& [key, p] : parameters) {
      const auto fan_in = static_cast<double>(p.numel() / p.size(0));
      p.copy_(p.dim() > 1 ? fill(p.shape(), k, std::sqrt(6 / fan_in))
                          : fill(p.shape(), k, 0.25, key.ends_with("weight") ? 1 : 0));
      ++k;
    }
  }
  const auto expect_close = [&](const std::string& what, const Tensor& ours) {
    const Tensor theirs = zoo()[name + what];
    EXPECT_TRUE(all_close(ours.detach(), theirs, bound * (1 + theirs.abs().max().item<double>())))
        << name << what;
  };
  const Tensor x = fill(shape, 0, 2).requires_grad_();
  const Tensor logits = model(x);
  expect_close(".logits", logits);
  (logits * fill(logits.shape(), 1)).sum().backward();
  Tensors products;
  for (std::uint32_t k = 0; k < parameters.size(); ++k) {
    const Tensor& p = parameters[k].tensor;
    ASSERT_TRUE(p.grad().defined()) << name << ' ' << parameters[k].name;
    products.push_back((p.grad() * fill(p.shape(), k + 5000)).sum());
  }
  expect_close(".gradients", stack(products));
  expect_close(".dx", (x.grad() * fill(shape, 2)).sum());
  model.eval();
  const NoGradGuard no_grad;
  expect_close(".eval", model(x));
}

TEST(Zoo, VggAgreesWithTorchvision) {
  expect_agrees(
      "vgg11_bn",
      VGG({.depth = 11, .batch_norm = true, .num_classes = 7, .dropout = 0, .width = 1.0 / 16}),
      {2, 3, 64, 64});
  expect_agrees("vgg16", VGG({.num_classes = 7, .dropout = 0, .width = 1.0 / 16}), {1, 3, 32, 32});
  EXPECT_ERROR(VGG({.depth = 12}), Error, "VGG: depth 12 is not one of 11, 13, 16, 19");
}

TEST(Zoo, MobileNetV2AgreesWithTorchvision) {
  expect_agrees("mobilenet_v2", MobileNetV2({.num_classes = 7, .width_mult = 0.25, .dropout = 0}),
                {2, 3, 96, 96});
}

TEST(Zoo, EfficientNetAgreesWithTorchvision) {
  expect_agrees("efficientnet",
                EfficientNet({.num_classes = 7,
                              .width_mult = 0.25,
                              .depth_mult = 0.5,
                              .dropout = 0,
                              .stochastic_depth_prob = 0}),
                {2, 3, 96, 96});
}

TEST(Zoo, ConvNextAgreesWithTorchvision) {
  expect_agrees("convnext",
                ConvNeXt({.num_classes = 7,
                          .channels = {8, 16, 24, 32},
                          .blocks = {1, 1, 2, 1},
                          .stochastic_depth_prob = 0}),
                {2, 3, 64, 64});
}

TEST(Zoo, DenseNetAgreesWithTorchvision) {
  expect_agrees("densenet",
                DenseNet({.num_classes = 7,
                          .growth_rate = 4,
                          .blocks = {1, 2, 2, 2},
                          .num_init_features = 8,
                          .bn_size = 2}),
                {2, 3, 64, 64});
}

TEST(Zoo, VisionTransformerAgreesWithTorchvision) {
  const VisionTransformerOptions tiny = {.image_size = 16,
                                         .patch_size = 4,
                                         .num_layers = 2,
                                         .num_heads = 2,
                                         .hidden_dim = 16,
                                         .mlp_dim = 32,
                                         .num_classes = 7};
  expect_agrees("vit", VisionTransformer(tiny), {2, 3, 16, 16});
  VisionTransformer model(tiny);
  EXPECT_ERROR(model(zeros({1, 3, 16, 20})), ShapeError,
               "VisionTransformer: input [1, 3, 16, 20] is not (N, C, 16, 16)");
  EXPECT_ERROR(VisionTransformer({.image_size = 30}), ShapeError,
               "patch_size 16 does not divide image_size 30");
}

TEST(Zoo, UNetAgreesWithPyTorch) {
  expect_agrees("unet", UNet({.num_classes = 1, .width = 4}), {2, 3, 18, 35});
}

TEST(Zoo, ModelsStartAsTorchvisions) {
  manual_seed(1);
  MobileNetV2 net;
  const Tensor& last = net.features[18].as<Sequential>()[0].as<Conv2d>().weight;
  EXPECT_NEAR(last.std().item<double>(), std::sqrt(2.0 / 1280), 0.02 * std::sqrt(2.0 / 1280));
  EXPECT_EQ(net.classifier[1].as<Linear>().bias.abs().max().item<double>(), 0);
  EXPECT_NEAR(net.classifier[1].as<Linear>().weight.std().item<double>(), 0.01, 2e-4);
  VisionTransformer vit({.num_layers = 1});
  EXPECT_EQ(vit.heads.head.weight.abs().max().item<double>(), 0);
  EXPECT_NEAR(vit.encoder.pos_embedding.detach().std().item<double>(), 0.02, 4e-4);
}

TEST(Zoo, StochasticDepthDropsWholeSamples) {
  manual_seed(3);
  StochasticDepth layer(0.25);
  const Tensor y = layer(ones({4000, 2, 3}));
  const Tensor rows = y.reshape({4000, 6});
  EXPECT_TRUE(identical(rows.amin({1}), rows.amax({1})));
  EXPECT_NEAR(y.max().item<double>(), 1 / 0.75, 1e-6);
  // The standard deviation of the share of kept rows is sqrt(0.25 0.75 / 4000) = 0.007.
  EXPECT_NEAR(y.mean().item<double>(), 1, 5 * 0.007 / 0.75);
  layer.eval();
  EXPECT_TRUE(identical(layer(ones({2, 2})), ones({2, 2})));
  EXPECT_ERROR(StochasticDepth(1.5), Error, "StochasticDepth: the probability is 1.5");
}

TEST(Zoo, GradCheckpointingIsForTheResNets) {
  EXPECT_ERROR(make_model("vgg11", {.grad_checkpointing = true}), Error,
               "vgg11: grad_checkpointing is for the ResNets");
}

}  // namespace
}  // namespace rondo::test
