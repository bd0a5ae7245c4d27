#include "nn/transformer_decoder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/shape.h"
#include "support/errors.h"
#include "support/fill.h"
#include "support/sequence_case.h"
#include "support/support.h"
#include "support/test_device.h"
#include "tensor/creation.h"

namespace rondo::test {
namespace {

using nn::Transformer;
using nn::TransformerDecoder;
using nn::TransformerDecoderLayer;
using nn::TransformerDecoderMasks;

/// Compares module(x, memory) with PyTorch.
template <class M, class Masks>
void expect_decoder(const std::string& name, M module, const std::vector<Dims>& shapes,
                    const Masks& masks) {
  for (DType dtype : {f64, f32})
    expect_sequence(
        "transformer." + name, shapes, dtype,
        [&](const Tensors& x) { return Tensors{module(x[0], x[1], masks)}; }, &module);
}

Tensor on_test_device(const Tensor& mask) { return mask.to(test_device()); }

/// Elements after the diagonal.
Tensor after_diagonal(std::int64_t size) {
  const Tensor at = arange(size);
  return on_test_device(gt(unsqueeze(at, 0), unsqueeze(at, 1)));
}

/// The masks of make_sequence.py; true hides an element.
Tensor hidden_memory() {
  const Tensor mask = fill({5, 4}, 63) > 0;
  mask.narrow(1, 0, 1).fill_(0);
  return on_test_device(mask);
}
Tensor memory_padding() {
  const Tensor mask = zeros({3, 4}, {.dtype = boolean});
  mask[2].narrow(0, 2, 2).fill_(1);
  return on_test_device(mask);
}
Tensor target_padding() {
  const Tensor mask = zeros({3, 5}, {.dtype = boolean});
  mask[1].narrow(0, 3, 2).fill_(1);
  return on_test_device(mask);
}

TEST(TransformerDecoderLayer, AgreesWithPyTorch) {
  expect_decoder("decoder_post",
                 TransformerDecoderLayer(4, 2, {.dim_feedforward = 5, .dropout = 0}),
                 {{5, 3, 4}, {4, 3, 4}}, TransformerDecoderMasks{});
  expect_decoder("decoder_pre",
                 TransformerDecoderLayer(4, 2,
                                         {.dim_feedforward = 5,
                                          .dropout = 0,
                                          .activation = nn::TransformerActivation::gelu,
                                          .layer_norm_eps = 1e-3,
                                          .batch_first = true,
                                          .norm_first = true}),
                 {{3, 5, 4}, {3, 4, 4}},
                 TransformerDecoderMasks{.memory_mask = hidden_memory(), .tgt_is_causal = true});
  TransformerDecoderLayer layer(
      4, 2, {.dim_feedforward = 5, .dropout = 0.5, .batch_first = true, .bias = false});
  layer.eval();
  expect_decoder("decoder_padding", layer, {{3, 5, 4}, {3, 4, 4}},
                 TransformerDecoderMasks{.tgt_mask = on_test_device(fill({5, 5}, 61)),
                                         .memory_mask = on_test_device(fill({6, 5, 4}, 64)),
                                         .tgt_key_padding_mask = target_padding(),
                                         .memory_key_padding_mask = memory_padding()});
  expect_decoder("decoder_unbatched",
                 TransformerDecoderLayer(4, 2, {.dim_feedforward = 5, .dropout = 0}),
                 {{5, 4}, {4, 4}}, TransformerDecoderMasks{});
}

TEST(TransformerDecoder, AgreesWithPyTorch) {
  const TransformerDecoderLayer layer(4, 2,
                                      {.dim_feedforward = 5, .dropout = 0, .batch_first = true});
  expect_decoder("decoder", TransformerDecoder(layer, 2, nn::LayerNorm(4)), {{3, 5, 4}, {3, 4, 4}},
                 TransformerDecoderMasks{.tgt_is_causal = true});
}

TEST(Transformer, AgreesWithPyTorch) {
  nn::TransformerOptions small{.num_encoder_layers = 1,
                               .num_decoder_layers = 1,
                               .dim_feedforward = 3,
                               .dropout = 0,
                               .batch_first = true};
  const auto as_bias = [](const Tensor& mask) {
    return where(mask, scalar(-std::numeric_limits<double>::infinity()).to(mask.device()),
                 scalar(0.0).to(mask.device()));
  };
  const Tensor hidden_source = fill({4, 4}, 65) > 0;
  for (std::int64_t i = 0; i < 4; ++i) hidden_source[i][i].fill_(0);
  expect_decoder("both", Transformer(4, 2, small), {{3, 4, 4}, {3, 5, 4}},
                 nn::TransformerCall{.src_mask = on_test_device(hidden_source),
                                     .tgt_mask = after_diagonal(5),
                                     .memory_mask = hidden_memory(),
                                     .src_key_padding_mask = as_bias(memory_padding()),
                                     .tgt_key_padding_mask = as_bias(target_padding()),
                                     .memory_key_padding_mask = memory_padding(),
                                     .tgt_is_causal = true});
  small.batch_first = false;
  small.norm_first = true;
  small.activation = nn::TransformerActivation::gelu;
  small.bias = false;
  expect_decoder("both_pre", Transformer(4, 2, small), {{4, 3, 4}, {5, 3, 4}},
                 nn::TransformerCall{});
}

TEST(Transformer, HasPyTorchsNamesAndStart) {
  manual_seed(3);
  Transformer model(16, 2,
                    {.num_encoder_layers = 2, .num_decoder_layers = 2, .dim_feedforward = 8});
  const nn::StateDict state = model.state_dict();
  ASSERT_EQ(state.size(), 2u * 12 + 2 + 2 * 18 + 2);
  EXPECT_EQ(state[0].name, "encoder.layers.0.self_attn.in_proj_weight");
  EXPECT_EQ(state[24].name, "encoder.norm.weight");
  EXPECT_EQ(state[26].name, "decoder.layers.0.self_attn.in_proj_weight");
  EXPECT_EQ(state[30].name, "decoder.layers.0.multihead_attn.in_proj_weight");
  EXPECT_EQ(state[42].name, "decoder.layers.0.norm3.weight");
  EXPECT_EQ(state.back().name, "decoder.norm.bias");
  const Tensor first = model.encoder.layers[0].as<nn::TransformerEncoderLayer>().linear1.weight,
               second = model.encoder.layers[1].as<nn::TransformerEncoderLayer>().linear1.weight;
  EXPECT_FALSE(identical(first.detach(), second.detach()));  // drawn again for each layer
  const double bound = std::sqrt(6.0 / (16 + 8));
  EXPECT_LE(first.abs().max().item(), bound);
  EXPECT_GT(first.abs().max().item(), 0.95 * bound);
  Transformer copy = nn::clone(model);
  copy.load_state_dict(state);
  EXPECT_EQ(copy.num_parameters(), model.num_parameters());
}

TEST(Transformer, MasksTheFuture) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(identical(Transformer::generate_square_subsequent_mask(3),
                        tensor<float>({0, -inf, -inf, 0, 0, -inf, 0, 0, 0}, {3, 3})));
  TransformerDecoder decoder(
      TransformerDecoderLayer(8, 2, {.dim_feedforward = 4, .batch_first = true}), 2);
  decoder.eval();
  const Tensor x = fill({1, 4, 8}, 0).to(f32), memory = fill({1, 3, 8}, 1).to(f32);
  const Tensor changed = x.clone();
  changed[0][3].fill_(2);
  const TransformerDecoderMasks causal{.tgt_is_causal = true};
  const Tensor y = decoder(x, memory, causal), z = decoder(changed, memory, causal);
  EXPECT_TRUE(identical(y.narrow(1, 0, 3).clone(), z.narrow(1, 0, 3).clone()));
  EXPECT_FALSE(identical(y, z));
}

TEST(TransformerDecoderErrors, NameShapes) {
  TransformerDecoderLayer layer(4, 2, {.batch_first = true});
  EXPECT_ERROR(layer(zeros({2, 3, 4})), Error,
               "TransformerDecoderLayer: call it with (tgt, memory)");
  EXPECT_ERROR(layer(zeros({2, 3, 4}), zeros({3, 3, 4})), ShapeError, "are not of one batch");
  EXPECT_ERROR(layer(zeros({2, 3, 4}), zeros({2, 5, 4}), {.memory_mask = zeros({5, 3})}),
               ShapeError, "attn_mask [5, 3] is neither [3, 5] nor [4, 3, 5]");
  EXPECT_ERROR(TransformerDecoder(layer, -1), Error, "TransformerDecoder: -1 layers");
  struct Named : TransformerDecoderLayer {
    using TransformerDecoderLayer::TransformerDecoderLayer;
  };
  EXPECT_ERROR(TransformerDecoder(Named(4, 2), 1), Error,
               "TransformerDecoder: the layer is a Named, and copies of it as a "
               "TransformerDecoderLayer would lose what it adds");
  TransformerDecoder decoder(layer, 1);
  EXPECT_ERROR(decoder(zeros({2, 3, 4})), Error, "TransformerDecoder: call it with (tgt, memory)");
  Transformer model(4, 2, {.num_encoder_layers = 1, .num_decoder_layers = 1, .dim_feedforward = 2});
  EXPECT_ERROR(model(zeros({2, 3, 4})), Error, "Transformer: call it with (src, tgt)");
  EXPECT_ERROR(model(zeros({2, 3, 4}), zeros({2, 2, 4})), ShapeError,
               "Transformer: src [2, 3, 4] and tgt [2, 2, 4] are not both (L, N, 4) of one batch");
}

}  // namespace
}  // namespace rondo::test
