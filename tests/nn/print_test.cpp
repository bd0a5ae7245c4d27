// Models print as in PyTorch (tests/golden/make_model_print.py).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <sstream>

#include "autograd/ops/arithmetic.h"
#include "nn/activation.h"
#include "nn/batch_norm.h"
#include "nn/bilinear.h"
#include "nn/containers.h"
#include "nn/conv1d.h"
#include "nn/conv2d.h"
#include "nn/conv3d.h"
#include "nn/conv_transpose1d.h"
#include "nn/conv_transpose2d.h"
#include "nn/conv_transpose3d.h"
#include "nn/dropout.h"
#include "nn/embedding.h"
#include "nn/flatten.h"
#include "nn/fold.h"
#include "nn/instance_norm.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/padding.h"
#include "nn/parametrizations.h"
#include "nn/pooling.h"
#include "nn/recurrent.h"
#include "nn/transformer_decoder.h"
#include "support/golden.h"
#include "tensor/creation.h"

namespace rondo::nn {
namespace {

std::string printed(const Module& model) {
  std::ostringstream out;
  out.precision(2);  // does not matter
  out << model;
  return out.str();
}

std::string golden(const std::string& wanted) {
  for (const auto& [name, text] : test::golden_texts("model_print.txt"))
    if (name == wanted) return text;
  return "";
}

TEST(Print, AsPyTorch) {
  const Sequential convolutions(
      Conv2d(3, 16, 3, {.stride = 2, .padding = 1, .bias = false}), BatchNorm2d(16), ReLU(),
      Conv2d(16, 4, {3, 5},
             {.padding = 1, .dilation = 2, .groups = 2, .padding_mode = PadMode::reflect}),
      Conv2d(4, 4, 3, {.same_padding = true}),
      Sequential(MaxPool2d(2), MaxPool2d({3, 2}, {.stride = 2, .padding = 1, .ceil_mode = true}),
                 AvgPool2d(2)),
      ConvTranspose2d(4, 4, 3, {.stride = 2, .padding = 1, .output_padding = 1}),
      AdaptiveAvgPool2d(1), Flatten(), Linear(4, 10, {.bias = false}), Dropout(0.1));
  EXPECT_EQ(printed(convolutions), golden("convolutions"));
  const ModuleList lines(
      Conv1d(3, 4, 5, {.padding = 2}), BatchNorm1d(4, {.momentum = std::nullopt, .affine = false}),
      LeakyReLU(0.1), LayerNorm(4), LayerNorm({2, 3}, {.elementwise_affine = false}),
      GroupNorm(2, 4), RMSNorm(4), RMSNorm(4, {.eps = 1e-6}), Embedding(10, 3, {.padding_idx = 0}),
      LSTM(3, 4, {.num_layers = 2, .bidirectional = true}), GRU(3, 4, {.batch_first = true}));
  EXPECT_EQ(printed(lines), golden("lines"));
}

/// The texts of modules, one after another.
template <class... M>
std::string all_printed(const M&... modules) {
  std::string text;
  ((text += (text.empty() ? "" : "\n") + printed(modules)), ...);
  return text;
}

TEST(Print, EachLayerAsPyTorch) {
  const std::string convolutions =
      all_printed(Conv3d(2, 4, 3, {.stride = {1, 2, 1}, .padding = 1}),
                  Conv3d(2, 4, {1, 2, 3}, {.bias = false, .same_padding = true}),
                  Conv3d(2, 4, 3, {.padding = {1, 0, 2}, .padding_mode = PadMode::circular}),
                  ConvTranspose1d(2, 4, 3, {.stride = 2, .output_padding = 1}),
                  ConvTranspose3d(2, 4, 3, {.groups = 2, .dilation = 2}));
  const std::string activations =
      all_printed(ReLU6(), RReLU(), ELU(), SELU(), CELU(0.5), GELU(), GELU(GeluApproximation::tanh),
                  GLU(), SiLU(), Mish(), Sigmoid(), LogSigmoid(), Tanh(), Hardtanh(),
                  Hardtanh(-2, 2.5), Hardsigmoid(), Hardswish(), Hardshrink(), Softshrink(0.25),
                  Tanhshrink(), Threshold(0.1, 20), Threshold(-1e16, 1e-5), Softplus(), Softsign(),
                  Softmax(1), Softmax2d(), Softmin(1), LogSoftmax(-1), PReLU(3), Dropout1d(),
                  Dropout2d(0.2), Dropout3d(), AlphaDropout(), FeatureAlphaDropout());
  const std::string pools = all_printed(
      MaxPool1d(2), MaxPool1d(3, {.stride = 2, .padding = 1, .ceil_mode = true}), MaxPool3d(2),
      MaxPool3d({1, 2, 3}, {.stride = 2}), AvgPool1d(2), AvgPool1d(3, {.stride = 2, .padding = 1}),
      AvgPool2d({2, 3}), AvgPool3d(2), AvgPool3d({1, 2, 3}, {.padding = {0, 1, 1}}), LPPool1d(2, 3),
      LPPool2d(2, 3, {.stride = 2, .ceil_mode = true}), LPPool2d(1.5, {2, 3}), LPPool3d(2, 3),
      AdaptiveAvgPool1d(3), AdaptiveAvgPool2d({3, 1}), AdaptiveAvgPool3d({1, 2, 3}),
      AdaptiveMaxPool1d(3), AdaptiveMaxPool2d({3, 2}), AdaptiveMaxPool3d(2), MaxUnpool1d(2),
      MaxUnpool2d(2), MaxUnpool2d({2, 3}, {.stride = 2, .padding = 1}), MaxUnpool3d(2),
      Upsample({.scale_factor = {2}}), Upsample({.size = {3, 4}}),
      Upsample({.scale_factor = {2, 3.5}, .mode = "bilinear", .align_corners = true}),
      UpsamplingNearest2d({.scale_factor = {2}}), UpsamplingBilinear2d({.size = 3}));
  const std::string shapes = all_printed(
      ZeroPad1d(2), ZeroPad2d({1, 2, 3, 4}), ZeroPad3d(1), ConstantPad1d(2, 3.5),
      ConstantPad2d(2, 0), ConstantPad3d(1, 1e9), ReflectionPad1d(2), ReflectionPad2d(1),
      ReflectionPad3d(1), ReplicationPad1d(1), ReplicationPad2d(2), ReplicationPad3d(1),
      CircularPad1d(1), CircularPad2d(1), CircularPad3d(1), Unflatten(1, {2, 3}), Identity(),
      PixelShuffle(2), PixelUnshuffle(2), ChannelShuffle(3), Unfold(2),
      Unfold({2, 3}, {.dilation = 2, .padding = 1, .stride = {1, 2}}), Fold({4, 5}, {2, 3}),
      Fold(4, 2));
  const std::string others = all_printed(
      InstanceNorm1d(3), InstanceNorm2d(3, {.affine = true}),
      InstanceNorm3d(3, {.track_running_stats = true}), LocalResponseNorm(2),
      LocalResponseNorm(2, {.alpha = 0.5, .k = 2}), BatchNorm3d(2), Bilinear(2, 3, 4),
      Bilinear(2, 3, 4, {.bias = false}), EmbeddingBag(5, 3),
      EmbeddingBag(5, 3, {.mode = BagMode::sum, .padding_idx = 1}),
      EmbeddingBag(5, 3, {.mode = BagMode::max}), RNN(3, 4),
      RNN(3, 4, {.num_layers = 2, .nonlinearity = RNNNonlinearity::relu}),
      LSTM(3, 4, {.proj_size = 2}),
      LSTM(3, 4,
           {.num_layers = 2,
            .bias = false,
            .batch_first = true,
            .dropout = 0.5,
            .bidirectional = true}),
      RNNCell(3, 4), RNNCell(3, 4, {.bias = false, .nonlinearity = RNNNonlinearity::relu}),
      LSTMCell(3, 4), GRUCell(3, 4, {.bias = false}),
      Transformer(4, 2, {.num_encoder_layers = 2, .num_decoder_layers = 1, .dim_feedforward = 5}));
  const std::string containers =
      all_printed(ModuleDict({{"a", Linear(2, 3)}, {"b", ReLU()}}), ModuleDict(), ModuleList(),
                  Sequential(), ParameterList(), ParameterDict(),
                  ParameterList({zeros({2, 3}), zeros({})}), ParameterList({zeros({3})}),
                  ParameterDict({{"left", zeros({2, 3}, {.dtype = f64})}, {"right", zeros({1})}}),
                  Sequential(ParameterList({zeros({2}), zeros({1})}),
                             ModuleList(Linear(2, 2), Linear(2, 2), ReLU(), Linear(2, 2))));
  EXPECT_EQ(convolutions + "\n" + activations + "\n" + pools + "\n" + shapes + "\n" + others +
                "\n" + containers,
            golden("layers"));
}

struct Halved : Module {
  Linear fc{2, 3};
  double factor = 0.5;
  Tensor forward(const Tensor& x) override { return fc(x) * factor; }
  void visit(Visitor& v) override { v.child("fc", fc); }
  std::string extra_repr() const override { return "factor=0.5"; }
};

struct Mine : Linear {
  using Linear::Linear;
};
template <class M>
struct Wrapped : M {
  using M::M;
};

std::unique_ptr<Module> of_a_function(const Tensor&) {
  struct Local : Linear {
    using Linear::Linear;
  };
  return std::make_unique<Wrapped<Local>>(2, 2);
}

TEST(Print, TemplatesWithoutNamespaces) {
  EXPECT_THAT(printed(weight_norm(Linear(2, 2))),
              testing::StartsWith("Parametrized<Linear, WeightNorm>("));
  EXPECT_THAT(printed(Wrapped<Mine>(2, 2)), testing::StartsWith("Wrapped<Mine>(in_features=2"));
  EXPECT_THAT(printed(*of_a_function(Tensor())),
              testing::StartsWith("Wrapped<of_a_function(Tensor const&)::Local>(in_features=2"));
}

TEST(Print, AModuleOfYourOwn) {
  EXPECT_EQ(printed(Halved()),
            "Halved(\n  factor=0.5\n  (fc): Linear(in_features=2, out_features=3, bias=True)\n)");
  EXPECT_EQ(printed(AnyModule(ReLU())), "ReLU()");
}

}  // namespace
}  // namespace rondo::nn
