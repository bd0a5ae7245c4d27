#include "nn/attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "autograd/autocast.h"
#include "autograd/ops/arithmetic.h"
#include "nn/observe.h"
#include "support/errors.h"
#include "support/fill.h"
#include "support/sequence_case.h"
#include "support/support.h"
#include "support/test_device.h"

namespace rondo::test {
namespace {

using nn::AttentionCall;
using nn::MultiheadAttention;
using nn::MultiheadAttentionOptions;

/// Compares with PyTorch in f64 and f32. One input is self-attention; the second of two inputs is
/// both keys and values.
void expect_attention(const std::string& name, MultiheadAttention attention,
                      const std::vector<Dims>& shapes, AttentionCall call = {}) {
  for (Tensor* mask : {&call.key_padding_mask, &call.attn_mask})
    if (mask->defined()) *mask = mask->to(test_device());
  for (DType dtype : {f64, f32})
    expect_sequence(
        "mha." + name, shapes, dtype,
        [&](const Tensors& x) {
          const auto [y, weights] = attention(x[0], x[x.size() > 1 ? 1 : 0], x.back(), call);
          return weights.defined() ? Tensors{y, weights} : Tensors{y};
        },
        &attention);
}

Tensor chosen(const Dims& shape, std::uint32_t key) { return gt(fill(shape, key), 0); }

/// True above the diagonal: later elements.
Tensor later(std::int64_t n) { return lt(arange(n).unsqueeze(1), arange(n).unsqueeze(0)); }

/// (rows, columns), true from column `from` of `row` on.
Tensor padded(const Dims& shape,
              std::initializer_list<std::pair<std::int64_t, std::int64_t>> ends) {
  const Tensor mask = zeros(shape, {.dtype = boolean});
  for (const auto& [row, from] : ends) mask[row].narrow(0, from, shape[1] - from).fill_(true);
  return mask;
}

constexpr MultiheadAttentionOptions first = {.batch_first = true};

TEST(MultiheadAttention, AgreesWithPyTorch) {
  expect_attention("self", MultiheadAttention(4, 2), {{5, 3, 4}});
  expect_attention("self_first", MultiheadAttention(4, 2, first), {{3, 5, 4}},
                   {.average_attn_weights = false});
  expect_attention("no_bias", MultiheadAttention(6, 3, {.bias = false}), {{4, 2, 6}},
                   {.need_weights = false});
  expect_attention("memory", MultiheadAttention(8, 4, first), {{3, 5, 8}, {3, 7, 8}});
  expect_attention("cross", MultiheadAttention(4, 4), {{5, 3, 4}, {7, 3, 4}, {7, 3, 4}});
}

TEST(MultiheadAttention, HasPyTorchsOtherOptions) {
  expect_attention("other_sizes", MultiheadAttention(4, 2, {.kdim = 3, .vdim = 5}),
                   {{5, 2, 4}, {6, 2, 3}, {6, 2, 5}}, {.key_padding_mask = chosen({2, 6}, 66)});
  expect_attention(
      "extra_keys",
      MultiheadAttention(4, 2, {.add_bias_kv = true, .add_zero_attn = true, .batch_first = true}),
      {{3, 5, 4}}, {.key_padding_mask = padded({3, 5}, {{1, 3}}), .is_causal = true});
  expect_attention("bias_kv",
                   MultiheadAttention(4, 2, {.bias = false, .add_bias_kv = true, .kdim = 3}),
                   {{5, 4}, {6, 3}, {6, 4}});
  expect_attention("zero_attn", MultiheadAttention(4, 2, {.add_zero_attn = true}), {{4, 2, 4}},
                   {.attn_mask = fill({4, 4}, 61)});
  MultiheadAttention attention(4, 2, {.add_bias_kv = true, .kdim = 3});
  EXPECT_EQ(
      parameter_names(attention),
      (std::vector<std::string>{"q_proj_weight[4, 4]", "k_proj_weight[4, 3]", "v_proj_weight[4, 4]",
                                "in_proj_bias[12]", "bias_k[1, 1, 4]", "bias_v[1, 1, 4]",
                                "out_proj.weight[4, 4]", "out_proj.bias[4]"}));
  EXPECT_ERROR(attention(zeros({2, 4}), zeros({2, 4}), zeros({2, 4})), ShapeError,
               "are not all (L, N, 4) or (L, 4), with kdim and vdim features");
  EXPECT_ERROR(MultiheadAttention(4, 2, {.vdim = -1}), ShapeError, "kdim 0 and vdim -1");
}

TEST(MultiheadAttention, MasksAgreeWithPyTorch) {
  expect_attention("unbatched", MultiheadAttention(4, 4, first), {{5, 4}, {7, 4}},
                   {.key_padding_mask = chosen({7}, 60)});
  expect_attention(
      "padding", MultiheadAttention(4, 2, first), {{3, 5, 4}, {3, 7, 4}},
      {.key_padding_mask = padded({3, 7}, {{1, 4}, {2, 6}}), .attn_mask = fill({5, 7}, 61)});
  const Tensor heads = chosen({6, 5, 7}, 62);
  heads.select(2, 0).fill_(false);
  expect_attention("each_head", MultiheadAttention(4, 2, first), {{3, 5, 4}, {3, 7, 4}},
                   {.attn_mask = heads});
  expect_attention("causal_padding", MultiheadAttention(4, 2, first), {{3, 5, 4}},
                   {.key_padding_mask = padded({3, 5}, {{1, 3}}), .is_causal = true});
  for (const Tensor& mask : {later(5), Tensor()})
    expect_attention("causal", MultiheadAttention(4, 2, first), {{3, 5, 4}},
                     {.attn_mask = mask, .need_weights = false, .is_causal = !mask.defined()});
}

TEST(MultiheadAttention, DropsWeightsInTrainingAlone) {
  MultiheadAttention attention(4, 2, {.dropout = 1});
  expect_attention("dropped", attention, {{5, 3, 4}});
  attention.to(f32);
  attention.eval();
  const Tensor x = fill({5, 3, 4}, 0).to(f32);
  const Tensor weights = attention(x, x, x).weights;
  EXPECT_TRUE(all_close(weights.sum({2}), ones({3, 5}), tolerance(f32, 5)));
}

TEST(MultiheadAttention, WhoSeesNothingGetsTheBias) {
  MultiheadAttention attention(4, 2, first);
  attention.out_proj.bias.set_data(tensor<float>({1, 2, 3, 4}));
  const Tensor x = fill({2, 3, 4}, 0).to(f32);
  const auto [y, weights] = attention(x, x, x, {.key_padding_mask = padded({2, 3}, {{1, 0}})});
  EXPECT_TRUE(identical(y[1].detach(), attention.out_proj.bias.detach().expand({3, 4}).clone()));
  EXPECT_EQ(weights[1].abs().sum().item(), 0);
  y.sum().backward();
  EXPECT_TRUE(std::isfinite(attention.in_proj_weight.grad().abs().sum().item()));
}

TEST(MultiheadAttention, StartsAsPyTorchs) {
  manual_seed(2);
  MultiheadAttention attention(64, 4);
  EXPECT_EQ(parameter_names(attention),
            (std::vector<std::string>{"in_proj_weight[192, 64]", "in_proj_bias[192]",
                                      "out_proj.weight[64, 64]", "out_proj.bias[64]"}));
  const double bound = std::sqrt(6.0 / (64 + 192)), bound_out = 1 / 8.0;
  EXPECT_LE(attention.in_proj_weight.abs().max().item(), bound);
  EXPECT_GT(attention.in_proj_weight.abs().max().item(), 0.99 * bound);
  EXPECT_LE(attention.out_proj.weight.abs().max().item(), bound_out);
  EXPECT_GT(attention.out_proj.weight.abs().max().item(), 0.99 * bound_out);
  EXPECT_EQ(attention.in_proj_bias.abs().max().item(), 0);
  EXPECT_EQ(attention.out_proj.bias.abs().max().item(), 0);
  MultiheadAttention plain(4, 2, {.bias = false});
  EXPECT_EQ(parameter_names(plain),
            (std::vector<std::string>{"in_proj_weight[12, 4]", "out_proj.weight[4, 4]"}));
}

TEST(MultiheadAttention, ComputesInTheScopesType) {
  MultiheadAttention attention(4, 2, first);
  const Tensor x = fill({2, 3, 4}, 0).to(f32).requires_grad_();
  {
    const Autocast amp(Device::cpu(), bf16);
    const auto [y, weights] = attention(x, x, x, {.attn_mask = zeros({3, 3})});
    EXPECT_EQ(y.dtype(), bf16);
    EXPECT_EQ(weights.dtype(), bf16);
    y.sum().backward();
  }
  EXPECT_EQ(x.grad().dtype(), f32);
  EXPECT_EQ(attention.in_proj_weight.grad().dtype(), f32);
}

TEST(MultiheadAttentionErrors, NameShapes) {
  EXPECT_ERROR(MultiheadAttention(6, 4), ShapeError, "4 heads do not divide an embedding of 6");
  EXPECT_THROW(MultiheadAttention(4, 0), ShapeError);
  EXPECT_THROW(MultiheadAttention(-4, 2), ShapeError);
  EXPECT_ERROR(MultiheadAttention(4, 2, {.dropout = 2}), Error, "probability 2");
  MultiheadAttention attention(4, 2, first);
  const Tensor x = zeros({2, 3, 4});
  EXPECT_ERROR(attention(zeros({2, 3, 5})), ShapeError, "MultiheadAttention: query [2, 3, 5]");
  EXPECT_ERROR(attention(zeros({4})), ShapeError, "(N, L, 4) or (L, 4)");
  EXPECT_THROW(attention(x, zeros({3, 4}), zeros({3, 4})), ShapeError);
  EXPECT_ERROR(attention(x, x, zeros({2, 5, 4})), ShapeError, "are not of one batch");
  EXPECT_ERROR(attention(x, zeros({3, 5, 4}), zeros({3, 5, 4})), ShapeError,
               "are not of one batch");
  EXPECT_ERROR(attention(x, x, x, {.attn_mask = zeros({3, 4})}), ShapeError,
               "attn_mask [3, 4] is neither [3, 3] nor [4, 3, 3]");
  EXPECT_ERROR(attention(x, x, x, {.key_padding_mask = zeros({3, 2})}), ShapeError,
               "key_padding_mask [3, 2] for a batch of 2 and 3 keys");
  EXPECT_ERROR(attention(x[0], x[0], x[0], {.key_padding_mask = zeros({1, 3})}), ShapeError,
               "without a batch");
  EXPECT_ERROR(attention(x, x, x, {.attn_mask = zeros({3, 3}, {.dtype = i64})}), DTypeError,
               "attn_mask is of i64");
}

}  // namespace
}  // namespace rondo::test
