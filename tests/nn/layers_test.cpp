// Every layer against PyTorch: output, all gradients, buffers, and the output in evaluation; in f64
// (rondo's own loops) to f64 precision, and in f32 (oneDNN, vectorised kernels) to f32 precision.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "nn/activation.h"
#include "nn/batch_norm.h"
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
#include "nn/losses.h"
#include "nn/norm.h"
#include "nn/pooling.h"
#include "support/errors.h"
#include "support/fill.h"
#include "support/golden.h"
#include "support/support.h"
#include "support/test_device.h"

namespace rondo::test {
namespace {

const Golden& golden() {
  static const Golden file("nn_layers.txt");
  return file;
}

struct Case {
  std::string name;
  std::function<nn::AnyModule()> make;
  Dims shape;  // the input's; empty: indices for an embedding
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

/// The longest sum in any case (a weight gradient) has about 200 terms of size about 2.
void expect_close(const Tensor& ours, const std::string& name, DType dtype) {
  Tensor theirs = golden()[name];
  if (is_floating(theirs.dtype())) theirs = theirs.to(ours.dtype());
  EXPECT_TRUE(all_close(ours.detach().to(Device::cpu()), theirs, tolerance(dtype, 200, 4),
                        tolerance(dtype, 16)))
      << name;
}

class Layers : public ::testing::TestWithParam<Case> {
 protected:
  void run(DType dtype) {
    const auto& [name, make, shape] = GetParam();
    nn::AnyModule module = make();
    module.to(dtype);
    module.to(test_device());
    std::uint32_t k = 10;
    for (auto& p : module.named_parameters()) {
      NoGradGuard no_grad;
      p.tensor.copy_(fill(p.tensor.shape(), k++));
    }
    bool lookup = shape.empty();
    Tensor x = lookup ? tensor<std::int64_t>({1, 4, 1, 0, 6, 3}, {2, 3}).to(test_device())
                      : fill(shape, 0, 2).to(dtype).to(test_device()).requires_grad_();
    Tensor y = module(x);
    y.backward(fill(y.shape(), 1).to(y.dtype()).to(test_device()));

    EXPECT_EQ(y.dtype(), dtype);
    expect_close(y, name + ".y", dtype);
    if (!lookup) expect_close(x.grad(), name + ".dx", dtype);
    for (auto& p : module.named_parameters()) {
      ASSERT_TRUE(p.tensor.grad().defined()) << p.name;
      expect_close(p.tensor.grad(), name + ".d." + p.name, dtype);
    }
    for (auto& b : module.named_buffers())
      expect_close(b.tensor, name + ".buffer." + b.name, dtype);
    module.eval();
    Tensor after = module(x);
    expect_close(after, name + (golden().has(name + ".eval") ? ".eval" : ".y"), dtype);
  }
};

TEST_P(Layers, F64AgreesWithPyTorch) { run(f64); }
TEST_P(Layers, F32AgreesWithPyTorch) { run(f32); }

using namespace nn;

INSTANTIATE_TEST_SUITE_P(
    All, Layers,
    ::testing::Values(
        Case{"linear", [] { return Linear(7, 5); }, {3, 7}},
        Case{"linear_3d", [] { return Linear(4, 3, {.bias = false}); }, {2, 3, 4}},
        Case{"conv2d", [] { return Conv2d(3, 4, 3); }, {2, 3, 6, 5}},
        Case{"conv2d_options",
             [] {
               return Conv2d(
                   4, 6, {3, 2},
                   {.stride = {2, 1}, .padding = {1, 2}, .dilation = {1, 2}, .groups = 2});
             },
             {2, 4, 7, 6}},
        Case{"conv2d_depthwise",
             [] { return Conv2d(4, 4, 3, {.padding = 1, .groups = 4, .bias = false}); },
             {1, 4, 5, 5}},
        Case{"conv1d", [] { return Conv1d(3, 4, 3); }, {2, 3, 7}},
        Case{"conv1d_options",
             [] {
               return Conv1d(
                   4, 6, 2, {.stride = 2, .padding = 2, .dilation = 3, .groups = 2, .bias = false});
             },
             {2, 4, 9}},
        Case{"conv_transpose2d", [] { return ConvTranspose2d(3, 4, 3); }, {2, 3, 4, 3}},
        Case{"conv_transpose2d_options",
             [] {
               return ConvTranspose2d(4, 6, {3, 2},
                                      {.stride = {2, 3},
                                       .padding = {1, 0},
                                       .output_padding = {1, 2},
                                       .groups = 2,
                                       .dilation = {1, 2}});
             },
             {2, 4, 3, 4}},
        Case{"conv_transpose2d_long_end",
             [] {
               return ConvTranspose2d(
                   2, 2, 2,
                   {.stride = {1, 2}, .output_padding = {2, 1}, .bias = false, .dilation = 3});
             },
             {1, 2, 3, 2}},
        Case{"batch_norm1d", [] { return BatchNorm1d(5); }, {6, 5}},
        Case{"batch_norm1d_3d", [] { return BatchNorm1d(3, {.affine = false}); }, {4, 3, 5}},
        Case{"batch_norm2d", [] { return BatchNorm2d(3); }, {4, 3, 3, 2}},
        Case{"batch_norm2d_options",
             [] { return BatchNorm2d(3, {.eps = 1e-3, .momentum = 0.3}); },
             {4, 3, 3, 2}},
        Case{"batch_norm2d_average",
             [] { return BatchNorm2d(2, {.momentum = std::nullopt}); },
             {4, 2, 3, 2}},
        Case{"batch_norm2d_untracked",
             [] { return BatchNorm2d(3, {.track_running_stats = false}); },
             {4, 3, 3, 2}},
        Case{"group_norm", [] { return GroupNorm(2, 6); }, {2, 6, 3, 2}},
        Case{"group_norm_plain",
             [] { return GroupNorm(3, 6, {.eps = 1e-3, .affine = false}); },
             {2, 6, 4}},
        Case{"layer_norm", [] { return LayerNorm(6); }, {4, 6}},
        Case{"layer_norm_2d",
             [] {
               return LayerNorm({3, 4}, {.eps = 1e-3, .bias = false});
             },
             {2, 3, 4}},
        Case{"embedding", [] { return Embedding(7, 3); }, {}},
        Case{"embedding_padding", [] { return Embedding(7, 3, {.padding_idx = -6}); }, {}},
        Case{"relu", [] { return ReLU(); }, {3, 5}},
        Case{"leaky_relu", [] { return LeakyReLU(0.2); }, {3, 5}},
        Case{"gelu", [] { return GELU(); }, {3, 5}},
        Case{"gelu_tanh", [] { return GELU(GeluApproximation::tanh); }, {3, 5}},
        Case{"silu", [] { return SiLU(); }, {3, 5}},
        Case{"sigmoid", [] { return Sigmoid(); }, {3, 5}},
        Case{"tanh", [] { return Tanh(); }, {3, 5}},
        Case{"softmax", [] { return Softmax(1); }, {3, 5, 2}},
        Case{"log_softmax", [] { return LogSoftmax(-1); }, {3, 5}},
        Case{"max_pool2d", [] { return MaxPool2d(3, {.stride = 2, .padding = 1}); }, {2, 2, 7, 6}},
        Case{"avg_pool2d", [] { return AvgPool2d(2); }, {2, 2, 6, 4}},
        Case{"avg_pool2d_options",
             [] { return AvgPool2d(3, {.stride = 2, .padding = 1, .count_include_pad = false}); },
             {2, 2, 7, 6}},
        Case{"adaptive_avg_pool2d",
             [] {
               return AdaptiveAvgPool2d({3, 2});
             },
             {2, 2, 7, 5}},
        Case{"upsample", [] { return Upsample({.scale_factor = {2}}); }, {1, 2, 3, 2}},
        Case{"flatten", [] { return Flatten(); }, {2, 3, 2, 2}},
        Case{"batch_norm3d", [] { return BatchNorm3d(2); }, {3, 2, 2, 1, 2}},
        Case{"instance_norm1d", [] { return InstanceNorm1d(3); }, {2, 3, 4}},
        Case{"instance_norm2d",
             [] {
               return InstanceNorm2d(
                   3, {.eps = 1e-3, .momentum = 0.3, .affine = true, .track_running_stats = true});
             },
             {2, 3, 2, 3}},
        Case{"instance_norm3d_unbatched", [] { return InstanceNorm3d(2, {.affine = true}); }, {2, 2, 1, 3}},
        Case{"rms_norm", [] { return RMSNorm(5); }, {3, 5}},
        Case{"rms_norm_2d",
             [] { return RMSNorm({3, 2}, {.eps = 1e-3, .elementwise_affine = false}); },
             {2, 3, 2}},
        Case{"local_response_norm", [] { return LocalResponseNorm(4, {.alpha = 0.5, .beta = 0.6, .k = 1.5}); }, {2, 5, 2, 2}},
        Case{"local_response_norm_1d", [] { return LocalResponseNorm(3); }, {2, 5, 3}},
        Case{"max_pool1d", [] { return MaxPool1d(3, {.stride = 2, .padding = 1, .dilation = 2}); }, {2, 2, 9}},
        Case{"max_pool1d_ceil", [] { return MaxPool1d(3, {.stride = 2, .ceil_mode = true}); }, {1, 2, 8}},
        Case{"max_pool2d_dilation", [] { return MaxPool2d({2, 3}, {.stride = 2, .padding = 1, .dilation = {3, 2}, .ceil_mode = true}); }, {1, 2, 8, 10}},
        Case{"avg_pool1d", [] { return AvgPool1d(3, {.stride = 2, .padding = 1, .count_include_pad = false}); }, {2, 2, 7}},
        Case{"lp_pool1d", [] { return LPPool1d(2, 3, {.stride = 2}); }, {2, 2, 7}},
        Case{"lp_pool2d", [] { return LPPool2d(4, {2, 3}); }, {1, 2, 5, 6}},
        Case{"adaptive_avg_pool1d", [] { return AdaptiveAvgPool1d(3); }, {2, 2, 7}},
        Case{"adaptive_max_pool1d", [] { return AdaptiveMaxPool1d(3); }, {2, 2, 7}},
        Case{"adaptive_max_pool2d", [] { return AdaptiveMaxPool2d({3, 2}); }, {2, 2, 7, 5}},
        Case{"max_pool3d", [] { return MaxPool3d({2, 3, 2}, {.stride = {1, 2, 2}, .padding = {1, 1, 0}, .dilation = {1, 1, 2}}); }, {1, 2, 3, 5, 5}},
        Case{"avg_pool3d", [] { return AvgPool3d({2, 3, 2}, {.stride = 2, .padding = 1, .ceil_mode = true, .count_include_pad = false}); }, {1, 2, 4, 4, 5}},
        Case{"avg_pool3d_include", [] { return AvgPool3d({2, 3, 2}, {.stride = 2, .padding = 1, .ceil_mode = true}); }, {1, 2, 4, 4, 5}},
        Case{"adaptive_avg_pool3d", [] { return AdaptiveAvgPool3d({2, 3, 2}); }, {1, 2, 3, 5, 4}},
        Case{"adaptive_max_pool3d", [] { return AdaptiveMaxPool3d({2, 3, 2}); }, {1, 2, 3, 5, 4}},
        Case{"unfold", [] { return Unfold({2, 3}, {.dilation = {2, 1}, .padding = {1, 0}, .stride = {1, 2}}); }, {2, 2, 4, 5}},
        Case{"fold", [] { return Fold({4, 5}, {2, 3}, {.dilation = {2, 1}, .padding = {1, 0}, .stride = {1, 2}}); }, {2, 12, 8}},
        Case{"pixel_shuffle", [] { return PixelShuffle(2); }, {2, 8, 2, 3}},
        Case{"pixel_unshuffle", [] { return PixelUnshuffle(2); }, {1, 2, 3, 4, 6}},
        Case{"channel_shuffle", [] { return ChannelShuffle(3); }, {2, 6, 2}},
        Case{"unflatten", [] { return Unflatten(1, {2, -1}); }, {2, 6}},
        Case{"embedding_bag", [] { return EmbeddingBag(7, 3); }, {}},
        Case{"embedding_bag_max", [] { return EmbeddingBag(7, 3, {.mode = BagMode::max}); }, {}},
        Case{"embedding_bag_sum_padding", [] { return EmbeddingBag(7, 3, {.mode = BagMode::sum, .padding_idx = 1}); }, {}},
        Case{"conv3d", [] { return Conv3d(2, 3, 2); }, {2, 2, 3, 4, 3}},
        Case{"conv3d_options", [] { return Conv3d(4, 6, {3, 2, 1}, {.stride = {2, 1, 2}, .padding = {1, 0, 2}, .dilation = {1, 2, 3}, .groups = 2, .bias = false}); }, {1, 4, 5, 4, 3}},
        Case{"conv3d_same", [] { return Conv3d(2, 2, {2, 3, 4}, {.same_padding = true}); }, {1, 2, 3, 3, 4}},
        Case{"conv3d_circular", [] { return Conv3d(1, 2, 3, {.padding = {1, 0, 1}, .padding_mode = PadMode::circular}); }, {1, 1, 3, 3, 2}},
        Case{"conv3d_unbatched", [] { return Conv3d(2, 2, 2, {.padding = 1}); }, {2, 2, 3, 2}},
        Case{"conv1d_unbatched", [] { return Conv1d(2, 3, 2, {.padding = 1, .padding_mode = PadMode::reflect}); }, {2, 4}},
        Case{"conv2d_unbatched", [] { return Conv2d(2, 3, 2); }, {2, 4, 3}},
        Case{"conv_transpose1d", [] { return ConvTranspose1d(3, 4, 3); }, {2, 3, 5}},
        Case{"conv_transpose1d_options", [] { return ConvTranspose1d(4, 6, 3, {.stride = 3, .padding = 2, .output_padding = 2, .groups = 2, .bias = false, .dilation = 2}); }, {2, 4, 4}},
        Case{"conv_transpose2d_unbatched", [] { return ConvTranspose2d(2, 3, 2, {.stride = 2}); }, {2, 2, 3}},
        Case{"conv_transpose3d", [] { return ConvTranspose3d(2, 3, 2); }, {2, 2, 3, 2, 3}},
        Case{"conv_transpose3d_options", [] { return ConvTranspose3d(4, 2, {3, 2, 2}, {.stride = {2, 3, 1}, .padding = {1, 0, 2}, .output_padding = {1, 2, 0}, .groups = 2, .dilation = {1, 2, 3}}); }, {1, 4, 3, 2, 3}},
        Case{"conv_transpose3d_long_end", [] { return ConvTranspose3d(1, 2, 2, {.output_padding = 2, .bias = false, .dilation = 3}); }, {1, 2, 1, 2}},
        Case{"avg_pool2d_divisor", [] { return AvgPool2d(3, {.stride = 2, .padding = 1, .ceil_mode = true, .divisor_override = -5}); }, {1, 2, 6, 5}},
        Case{"avg_pool3d_divisor", [] { return AvgPool3d(2, {.stride = {1, 2, 2}, .padding = {1, 0, 1}, .divisor_override = 3}); }, {1, 2, 3, 4, 3}},
        Case{"lp_pool3d", [] { return LPPool3d(2, {2, 1, 2}, {.stride = 1}); }, {1, 2, 3, 2, 3}},
        Case{"max_pool1d_unbatched", [] { return MaxPool1d(2); }, {2, 5}},
        Case{"max_pool2d_unbatched", [] { return MaxPool2d(2); }, {2, 5, 4}},
        Case{"max_pool3d_unbatched", [] { return MaxPool3d(2); }, {2, 3, 4, 5}},
        Case{"avg_pool2d_unbatched", [] { return AvgPool2d(2); }, {2, 5, 4}},
        Case{"adaptive_avg_pool2d_unbatched", [] { return AdaptiveAvgPool2d({3, 2}); }, {2, 5, 4}},
        Case{"adaptive_max_pool2d_unbatched", [] { return AdaptiveMaxPool2d({3, 2}); }, {2, 5, 4}},
        Case{"upsample_bilinear", [] { return Upsample({.scale_factor = {2.5, 2}, .mode = "bilinear"}); }, {1, 2, 3, 2}},
        Case{"upsample_size", [] { return Upsample({.size = 5}); }, {1, 2, 3, 2}},
        Case{"upsampling_nearest2d", [] { return UpsamplingNearest2d({.scale_factor = {3}}); }, {1, 2, 3, 2}},
        Case{"upsampling_bilinear2d", [] { return UpsamplingBilinear2d({.size = {5, 3}}); }, {1, 2, 3, 2}},
        Case{"sequential",
             [] { return Sequential(Linear(4, 6), BatchNorm1d(6), GELU(), Linear(6, 2)); },
             {5, 4}}),
    [](const auto& info) { return info.param.name; });

TEST(BatchNorm, FusedResidualAndReluAgreeWithPyTorch) {
  for (DType dtype : {f64, f32}) {
    BatchNorm2d bn(3);
    bn.to(dtype);
    bn.to(test_device());
    {
      NoGradGuard no_grad;
      bn.weight.copy_(fill({3}, 10));
      bn.bias.copy_(fill({3}, 11));
    }
    Tensor x = fill({4, 3, 3, 2}, 0, 2).to(dtype).to(test_device()).requires_grad_();
    Tensor residual = fill({4, 3, 3, 2}, 5).to(dtype).to(test_device()).requires_grad_();
    Tensor y = bn(x, {.residual = residual, .relu = true});
    y.backward(fill(y.shape(), 1).to(dtype).to(test_device()));
    expect_close(y, "batch_norm2d_fused.y", dtype);
    expect_close(x.grad(), "batch_norm2d_fused.dx", dtype);
    expect_close(residual.grad(), "batch_norm2d_fused.dresidual", dtype);
    expect_close(bn.weight.grad(), "batch_norm2d_fused.dweight", dtype);
    expect_close(bn.bias.grad(), "batch_norm2d_fused.dbias", dtype);
  }
}

TEST(BatchNorm, KeepsF32UnderBf16AndComputesInIt) {
  BatchNorm2d bn(3);
  bn.to(bf16);
  EXPECT_EQ(bn.weight.dtype(), f32);
  EXPECT_EQ(bn.running_var.dtype(), f32);
  EXPECT_EQ(bn.num_batches_tracked.dtype(), i64);
  Tensor x = fill({4, 3, 3, 2}, 0, 2).to(bf16);
  Tensor y = bn(x);
  ASSERT_EQ(y.dtype(), bf16);
  BatchNorm2d exact(3);
  exact.to(f64);
  EXPECT_TRUE(all_close(y.to(f64), exact(x.to(f64)), tolerance(bf16, 1, 2)));
  bn.to(f64);
  EXPECT_EQ(bn.weight.dtype(), f64);
}

TEST(BatchNorm, CountsBatchesInTrainingOnly) {
  BatchNorm1d bn(2);
  bn(randn({4, 2}));
  bn(randn({4, 2}));
  bn.eval();
  Tensor before = bn.running_mean.clone();
  bn(randn({4, 2}));
  EXPECT_EQ(bn.num_batches_tracked.item<std::int64_t>(), 2);
  EXPECT_TRUE(identical(bn.running_mean, before));
}

TEST(BatchNorm, AveragesAllBatchesWithoutMomentum) {
  BatchNorm1d bn(1, {.momentum = std::nullopt});
  bn(tensor<float>({1, 3}, {2, 1}));
  bn(tensor<float>({5, 9}, {2, 1}));
  bn(tensor<float>({-2, 2}, {2, 1}));
  EXPECT_NEAR(bn.running_mean.item(), (2 + 7 + 0) / 3.0, 1e-6);
  EXPECT_NEAR(bn.running_var.item(), (2 + 8 + 8) / 3.0, 1e-5);
}

TEST(Dropout, DropsInTrainingOnly) {
  manual_seed(1);
  Dropout dropout(0.25);
  Tensor x = ones({10000});
  Tensor y = dropout(x);
  std::int64_t dropped = 0;
  for (float value : y.to_vector()) {
    dropped += value == 0;
    ASSERT_FLOAT_EQ(value, value == 0 ? 0 : 4.0f / 3);
  }
  EXPECT_NEAR(static_cast<double>(dropped), 2500, 5 * std::sqrt(10000 * 0.25 * 0.75));
  dropout.eval();
  EXPECT_TRUE(identical(dropout(x), x));
}

// C++ wants fields in the order of their declaration, so it must be that of PyTorch's arguments.
TEST(LayerOptions, AreInPyTorchsOrder) {
  const Reduction sum = Reduction::sum;
  MaxPool1d(2, {.stride = 1, .padding = 1, .dilation = 1, .ceil_mode = true});
  MaxPool2d(2, {.stride = 1, .padding = 1, .dilation = 1, .ceil_mode = true});
  MaxPool3d(2, {.stride = 1, .padding = 1, .dilation = 1, .ceil_mode = true});
  AvgPool2d(2,
            {.padding = 1, .ceil_mode = true, .count_include_pad = false, .divisor_override = 3});
  RNN(4, 3, {.num_layers = 1, .nonlinearity = RNNNonlinearity::relu, .bias = false});
  EmbeddingBag(4, 3, {.mode = BagMode::sum, .include_last_offset = true, .padding_idx = 1});
  CrossEntropyLoss(
      {.weight = ones({3}), .ignore_index = 1, .reduction = sum, .label_smoothing = 0});
  BCELoss({.weight = ones({3}), .reduction = sum});
  BCEWithLogitsLoss({.weight = ones({3}), .reduction = sum, .pos_weight = ones({3})});
  SmoothL1Loss({.reduction = sum, .beta = 2});
  HuberLoss({.reduction = sum, .delta = 2});
  EXPECT_EQ(Upsample({.scale_factor = 2})(zeros({1, 1, 3, 3})).shape(), (Dims{1, 1, 6, 6}));
}

TEST(LayerDefaults, StartAsPyTorchs) {
  manual_seed(2);
  Linear linear(100, 50);
  double bound = 0.1;  // 1 / sqrt(100)
  EXPECT_LE(linear.weight.abs().max().item(), bound);
  EXPECT_GT(linear.weight.abs().max().item(), 0.99 * bound);
  EXPECT_LE(linear.bias.abs().max().item(), bound);
  EXPECT_GT(linear.bias.abs().max().item(), 0.8 * bound);
  Conv2d conv(8, 16, {3, 5}, {.groups = 2});
  bound = 1 / std::sqrt(4 * 15.0);
  EXPECT_LE(conv.weight.abs().max().item(), bound);
  EXPECT_GT(conv.weight.abs().max().item(), 0.98 * bound);
  EXPECT_LE(conv.bias.abs().max().item(), bound);
  Conv1d line(8, 16, 5, {.groups = 2});
  bound = 1 / std::sqrt(4 * 5.0);
  EXPECT_LE(line.weight.abs().max().item(), bound);
  EXPECT_GT(line.weight.abs().max().item(), 0.98 * bound);
  EXPECT_LE(line.bias.abs().max().item(), bound);
  ConvTranspose2d back(8, 64, 3, {.groups = 2});
  bound = 1 / std::sqrt(32 * 9.0);  // PyTorch's fan in of (8, 64 / 2, 3, 3)
  EXPECT_LE(back.weight.abs().max().item(), bound);
  EXPECT_GT(back.weight.abs().max().item(), 0.98 * bound);
  EXPECT_LE(back.bias.abs().max().item(), bound);
  EXPECT_GT(back.bias.abs().max().item(), 0.8 * bound);
  ConvTranspose3d deep(8, 64, 3, {.groups = 2});
  bound = 1 / std::sqrt(32 * 27.0);
  EXPECT_LE(deep.weight.abs().max().item(), bound);
  EXPECT_GT(deep.weight.abs().max().item(), 0.98 * bound);
  Embedding embedding(5, 3, {.padding_idx = 2});
  EXPECT_EQ(embedding.weight[2].abs().sum().item(), 0);
  EXPECT_TRUE(linear.weight.requires_grad() && embedding.weight.requires_grad());
}

TEST(ConvTranspose, ReachesTheOutputSizeItIsAskedFor) {
  ConvTranspose2d conv(2, 3, 3, {.stride = {2, 3}, .padding = 1});
  const Tensor x = fill({1, 2, 4, 3}, 0).to(f32);
  EXPECT_EQ(conv(x).shape(), (Dims{1, 3, 7, 7}));
  const Tensor y = conv(x, {8, 9});
  EXPECT_EQ(y.shape(), (Dims{1, 3, 8, 9}));
  EXPECT_TRUE(identical(conv(x, {1, 3, 8, 9}), y));
  EXPECT_TRUE(identical(conv(x[0], {8, 9}), y[0]));
  ConvTranspose2d padded = conv;
  padded.options.output_padding = {1, 2};
  EXPECT_TRUE(identical(padded(x), y));
  EXPECT_EQ(ConvTranspose1d(2, 3, 3, {.stride = 2})(zeros({2, 4}), {10}).shape(), (Dims{3, 10}));
  EXPECT_EQ(ConvTranspose3d(1, 1, 2, {.stride = 2})(zeros({1, 1, 1, 1, 1}), {3, 2, 3}).shape(),
            (Dims{1, 1, 3, 2, 3}));
  EXPECT_ERROR(conv(x, {9, 9}), ShapeError,
               "ConvTranspose2d: output size [9, 9], but dimension 0 can have from 7 to 8 elements "
               "for input [1, 2, 4, 3]");
  EXPECT_ERROR(conv(x, {8}), ShapeError, "output size [8] has neither 2 nor 4 numbers");
}

}  // namespace
}  // namespace rondo::test
