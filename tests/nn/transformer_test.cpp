#include "nn/transformer.h"

#include <gtest/gtest.h>

#include <limits>

#include "autograd/ops/arithmetic.h"
#include "nn/summary.h"
#include "support/errors.h"
#include "support/fill.h"
#include "support/sequence_case.h"
#include "support/support.h"
#include "support/test_device.h"

namespace rondo::test {
namespace {

using nn::TransformerEncoder;
using nn::TransformerEncoderLayer;
using nn::TransformerMasks;

template <class M>
void expect_transformer(const std::string& name, M module, const Dims& shape,
                        TransformerMasks masks = {}) {
  for (Tensor* mask : {&masks.src_mask, &masks.src_key_padding_mask})
    if (mask->defined()) *mask = mask->to(test_device());
  for (DType dtype : {f64, f32})
    expect_sequence(
        "transformer." + name, {shape}, dtype,
        [&](const Tensors& x) { return Tensors{module(x[0], masks)}; }, &module);
}

TEST(TransformerEncoderLayer, AgreesWithPyTorch) {
  expect_transformer("post", TransformerEncoderLayer(4, 2, {.dim_feedforward = 5, .dropout = 0}),
                     {5, 3, 4});
  expect_transformer("pre",
                     TransformerEncoderLayer(4, 2,
                                             {.dim_feedforward = 5,
                                              .dropout = 0,
                                              .activation = nn::TransformerActivation::gelu,
                                              .layer_norm_eps = 1e-3,
                                              .batch_first = true,
                                              .norm_first = true}),
                     {3, 5, 4}, {.is_causal = true});
  expect_transformer(
      "no_bias", TransformerEncoderLayer(4, 2, {.dim_feedforward = 5, .dropout = 0, .bias = false}),
      {5, 3, 4});
}

TEST(TransformerEncoderLayer, DropsInTrainingAlone) {
  expect_transformer("dropped", TransformerEncoderLayer(4, 2, {.dim_feedforward = 5, .dropout = 1}),
                     {5, 3, 4});
  TransformerEncoderLayer layer(4, 2, {.dim_feedforward = 5, .dropout = 0.5, .batch_first = true});
  layer.eval();
  const Tensor padding = zeros({3, 5});
  padding[1].narrow(0, 3, 2).fill_(-std::numeric_limits<float>::infinity());
  expect_transformer("evaluated", layer, {3, 5, 4},
                     {.src_mask = fill({5, 5}, 61), .src_key_padding_mask = padding});
}

TEST(TransformerEncoder, AgreesWithPyTorch) {
  const TransformerEncoderLayer layer(
      4, 2, {.dim_feedforward = 5, .dropout = 0, .batch_first = true, .norm_first = true});
  expect_transformer("encoder", TransformerEncoder(layer, 2, nn::LayerNorm(4)), {3, 5, 4},
                     {.is_causal = true});
  const TransformerEncoderLayer plain(4, 4, {.dim_feedforward = 6, .dropout = 0});
  expect_transformer("encoder_plain", TransformerEncoder(plain, 3), {5, 2, 4});
}

TEST(TransformerEncoder, HasPyTorchsNamesAndLayersOfItsOwn) {
  const TransformerEncoderLayer layer(4, 2, {.dim_feedforward = 5});
  TransformerEncoder encoder(layer, 2, nn::LayerNorm(4));
  const std::vector<std::string> names = parameter_names(encoder);
  ASSERT_EQ(names.size(), 26u);
  const std::vector<std::string> of_one(names.begin(), names.begin() + 12);
  EXPECT_EQ(
      of_one,
      (std::vector<std::string>{
          "layers.0.self_attn.in_proj_weight[12, 4]", "layers.0.self_attn.in_proj_bias[12]",
          "layers.0.self_attn.out_proj.weight[4, 4]", "layers.0.self_attn.out_proj.bias[4]",
          "layers.0.linear1.weight[5, 4]", "layers.0.linear1.bias[5]",
          "layers.0.linear2.weight[4, 5]", "layers.0.linear2.bias[4]", "layers.0.norm1.weight[4]",
          "layers.0.norm1.bias[4]", "layers.0.norm2.weight[4]", "layers.0.norm2.bias[4]"}));
  EXPECT_EQ(names[12], "layers.1.self_attn.in_proj_weight[12, 4]");
  EXPECT_EQ(names[24], "norm.weight[4]");
  const Tensor a = encoder.layers[0].as<TransformerEncoderLayer>().linear1.weight;
  const Tensor b = encoder.layers[1].as<TransformerEncoderLayer>().linear1.weight;
  EXPECT_TRUE(identical(a.detach(), layer.linear1.weight.detach()));
  EXPECT_TRUE(identical(b.detach(), layer.linear1.weight.detach()));
  EXPECT_NE(a.data_ptr(), b.data_ptr());
  EXPECT_NE(a.data_ptr(), layer.linear1.weight.data_ptr());
}

TEST(TransformerEncoder, SeesNothingOfTheFutureWhenCausal) {
  const TransformerEncoderLayer layer(8, 2, {.dim_feedforward = 16, .batch_first = true});
  TransformerEncoder encoder(layer, 2);
  encoder.eval();
  const Tensor x = fill({1, 6, 8}, 0).to(f32);
  const Tensor changed = x.clone();
  changed[0][4].fill_(3);
  const TransformerMasks causal = {.is_causal = true};
  const Tensor y = encoder(x, causal), z = encoder(changed, causal);
  EXPECT_TRUE(identical(y.narrow(1, 0, 4).clone(), z.narrow(1, 0, 4).clone()));
  EXPECT_GT((y - z).narrow(1, 4, 2).abs().min().item(), 0);
  EXPECT_GT((encoder(x) - encoder(changed)).narrow(1, 0, 4).abs().max().item(), 0);
}

TEST(TransformerEncoder, IsSummarized) {
  const TransformerEncoderLayer layer(8, 2, {.dim_feedforward = 16, .batch_first = true});
  TransformerEncoder encoder(layer, 2, nn::LayerNorm(8));
  const nn::ModelSummary s = nn::summarize(encoder, {3, 5, 8});
  const std::int64_t tokens = 3 * 5, attention = tokens * (3 * 64 + 2 * 5 * 8);
  const auto of = [&](const std::string& name) {
    for (const nn::LayerSummary& found : s.layers)
      if (found.name == name) return found;
    return nn::LayerSummary();
  };
  EXPECT_EQ(of("layers.0.self_attn").multiply_adds, attention);
  EXPECT_EQ(of("layers.0.self_attn").parameters, 24 * 8 + 24);
  EXPECT_EQ(of("layers.0.self_attn.out_proj").multiply_adds, tokens * 64);
  EXPECT_EQ(s.multiply_adds, 2 * (attention + tokens * (64 + 2 * 8 * 16)));
  EXPECT_EQ(s.parameters, 2 * (4 * 72 + 8 * 16 + 16 + 16 * 8 + 8 + 32) + 16);
  std::int64_t of_layers = 0;
  for (const nn::LayerSummary& found : s.layers) of_layers += found.parameters;
  EXPECT_EQ(of_layers, s.parameters);
}

TEST(TransformerErrors, NameShapes) {
  EXPECT_ERROR(TransformerEncoderLayer(6, 4), ShapeError, "4 heads do not divide");
  EXPECT_THROW(TransformerEncoderLayer(4, 2, {.dropout = -1}), Error);
  const TransformerEncoderLayer layer(4, 2, {.batch_first = true});
  EXPECT_ERROR(TransformerEncoder(layer, -1), Error, "TransformerEncoder: -1 layers");
  struct Named : TransformerEncoderLayer {
    using TransformerEncoderLayer::TransformerEncoderLayer;
    std::string name;
  };
  EXPECT_ERROR(TransformerEncoder(Named(4, 2), 1), Error,
               "TransformerEncoder: the layer is a Named, and copies of it as a "
               "TransformerEncoderLayer would lose what it adds");
  TransformerEncoder encoder(layer, 1);
  EXPECT_ERROR(encoder(zeros({2, 3, 5})), ShapeError, "MultiheadAttention: query [2, 3, 5]");
  EXPECT_ERROR(encoder(zeros({2, 3, 4}), {.src_mask = zeros({2, 2})}), ShapeError,
               "attn_mask [2, 2] is neither [3, 3] nor [4, 3, 3]");
}

}  // namespace
}  // namespace rondo::test
