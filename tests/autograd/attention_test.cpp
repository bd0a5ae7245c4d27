#include "autograd/ops/attention.h"

#include <gtest/gtest.h>

#include <limits>
#include <thread>

#include "autograd/autograd_meta.h"
#include "autograd/engine.h"
#include "autograd/gradcheck.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/shape.h"
#include "autograd/trace.h"
#include "support/errors.h"
#include "support/fill.h"
#include "support/layouts.h"
#include "support/sequence_case.h"
#include "support/support.h"

namespace rondo::test {
namespace {

/// Compares with PyTorch in f64 and f32. The mask of a case, if any, is its fourth input or
/// `call`'s.
void expect_attention(const std::string& name, const std::vector<Dims>& shapes,
                      const AttentionOptions& options = {}) {
  for (DType dtype : {f64, f32})
    expect_sequence("sdpa." + name, shapes, dtype, [&](const Tensors& x) {
      AttentionOptions given = options;
      if (x.size() > 3) given.attn_mask = x[3];
      return Tensors{scaled_dot_product_attention(x[0], x[1], x[2], given)};
    });
}

const std::vector<Dims> plain = {{2, 3, 5, 4}, {2, 3, 7, 4}, {2, 3, 7, 6}};

TEST(Attention, AgreesWithPyTorch) {
  expect_attention("plain", plain);
  expect_attention("matrices", {{5, 4}, {3, 4}, {3, 2}});
  expect_attention("broadcast", {{2, 3, 5, 4}, {1, 7, 4}, {3, 7, 6}});
  expect_attention("causal", plain, {.is_causal = true});
  expect_attention("causal_long", {{2, 6, 4}, {2, 3, 4}, {2, 3, 4}}, {.is_causal = true});
  expect_attention("scale", plain, {.scale = 0.3});
  std::vector<Dims> with_mask = plain;
  with_mask.push_back({5, 7});
  expect_attention("floating", with_mask);
}

TEST(Attention, OfGroupedQueriesAgreesWithPyTorch) {
  const std::vector<Dims> grouped = {{2, 6, 5, 4}, {2, 2, 7, 4}, {2, 2, 7, 6}};
  expect_attention("grouped", grouped, {.enable_gqa = true});
  expect_attention("grouped_causal", grouped, {.is_causal = true, .enable_gqa = true});
  expect_attention("grouped_mask", {grouped[0], grouped[1], grouped[2], {6, 5, 7}},
                   {.enable_gqa = true});
  expect_attention("grouped_one", {{4, 3, 4}, {1, 3, 4}, {1, 3, 4}}, {.enable_gqa = true});
  expect_attention("plain", plain, {.enable_gqa = true});  // a key head for each query head
}

TEST(Attention, OfGroupedQueriesHasWeightsOfEachHead) {
  const Tensor q = fill({2, 6, 5, 4}, 0), k = fill({2, 2, 7, 4}, 1), v = fill({2, 2, 7, 6}, 2);
  const auto repeated = [](const Tensor& x) {
    return reshape(expand(unsqueeze(x, 2), {2, 2, 3, 7, x.size(-1)}), {2, 6, 7, x.size(-1)});
  };
  const AttentionResult found = attention_with_weights(q, k, v, {.enable_gqa = true});
  const AttentionResult expected = attention_with_weights(q, repeated(k), repeated(v));
  EXPECT_TRUE(all_close(found.weights, expected.weights, tolerance(f64, 7)));
  EXPECT_TRUE(all_close(found.output, expected.output, tolerance(f64, 7)));
}

TEST(RotaryEmbedding, AgreesWithLlama) {
  for (DType dtype : {f64, f32}) {
    expect_sequence("rotary.plain", {{2, 3, 5, 8}}, dtype,
                    [](const Tensors& x) { return Tensors{rotary_embedding(x[0])}; });
    expect_sequence("rotary.later", {{4, 6}}, dtype, [](const Tensors& x) {
      return Tensors{rotary_embedding(x[0], {.base = 500, .offset = 37})};
    });
  }
}

TEST(RotaryEmbedding, KeepsScoresOfEqualDistances) {
  const Tensor q = fill({1, 8}, 0), k = fill({1, 8}, 1);
  const auto score = [&](std::int64_t at_q, std::int64_t at_k) {
    return (rotary_embedding(q, {.offset = at_q}) * rotary_embedding(k, {.offset = at_k}))
        .sum()
        .item<double>();
  };
  EXPECT_NEAR(score(5, 2), score(103, 100), 1e-12);
  EXPECT_GT(std::abs(score(5, 2) - score(5, 3)), 1e-3);
}

TEST(RotaryEmbedding, KeepsItsTablesForEqualOptionsOnly) {
  const Tensor x = randn({2, 5, 6}, {.dtype = f64}), narrow = x.narrow(1, 0, 4);
  const Tensor y = rotary_embedding(x, {.base = 100, .offset = 3});
  rotary_embedding(x.to(f32), {.base = 100, .offset = 3});
  rotary_embedding(x, {.base = 100, .offset = 4});
  EXPECT_TRUE(identical(rotary_embedding(narrow, {.base = 100, .offset = 3}), y.narrow(1, 0, 4)));
  rotary_embedding(x, {.base = 50, .offset = 3});
  EXPECT_TRUE(identical(rotary_embedding(x, {.base = 100, .offset = 3}), y));
  EXPECT_TRUE(identical(rotary_embedding(x, {.base = 100, .offset = 3}), y));
  // Equal options in another dtype, in turns.
  const Tensor z = rotary_embedding(x.to(f32), {.base = 100, .offset = 3});
  EXPECT_EQ(z.dtype(), f32);
  EXPECT_TRUE(all_close(z.to(f64), y, 1e-6));
  EXPECT_TRUE(identical(rotary_embedding(x, {.base = 100, .offset = 3}), y));
  Tensor other;
  std::thread([&] { other = rotary_embedding(x, {.base = 100, .offset = 3}); }).join();
  EXPECT_TRUE(identical(other, y));
}

TEST(RotaryEmbedding, Of16BitsIsRoundedOnce) {
  const Tensor x = fill({300, 8}, 0).to(bf16);
  const Tensor y = rotary_embedding(x, {.offset = 5000});
  EXPECT_EQ(y.dtype(), bf16);
  EXPECT_TRUE(identical(y, rotary_embedding(x.to(f32), {.offset = 5000}).to(bf16)));
}

/// Exporters of graphs know the ops, but not the kernel.
TEST(RotaryEmbedding, OfAnyLayoutIsThatOfTheTracedOps) {
  for (const DType dtype : {f64, f32, bf16, f16})
    for (const Dims& sizes : {Dims{2, 3, 5, 6}, {3, 2}, {2, 3, 4, 2050}, {0, 4}, {2, 0}})
      for (const Layout layout : all_layouts) {
        const Tensor x = relaid(layout, randn(sizes), dtype).requires_grad_();
        const Tensor y = rotary_embedding(x, {.offset = 3});
        EXPECT_STREQ(autograd_meta(y).grad_fn->name(), "rotary_embedding");
        EXPECT_EQ(y.dtype(), dtype);
        const TraceMode tracing;
        const Tensor traced = rotary_embedding(x, {.offset = 3});
        EXPECT_STRNE(autograd_meta(traced).grad_fn->name(), "rotary_embedding");
        EXPECT_TRUE(all_close(y.detach(), traced.detach(), tolerance(dtype, 2, 4)))
            << dtype << sizes;
      }
}

TEST(Attention, BooleanMasksSayWhoTakesPart) {
  const Tensor mask = gt(fill({2, 1, 5, 7}, 50), 0);
  mask.select(2, 1).fill_(false);
  expect_attention("boolean", plain, {.attn_mask = mask});  // query 1: zeros, not NaN
}

TEST(Attention, LeavesOutWhatIsMinusInfinityWhereverItIs) {
  const Tensor q = fill({3, 4}, 0), k = fill({5, 4}, 1), v = fill({5, 2}, 2).requires_grad_();
  const Tensor mask = zeros({3, 5}, {.dtype = f64});
  mask.narrow(1, 3, 2).fill_(-std::numeric_limits<double>::infinity());
  mask.select(0, 2).fill_(-std::numeric_limits<double>::infinity());
  const auto [y, weights] = attention_with_weights(q, k, v, {.attn_mask = mask});
  const Tensor seen =
      scaled_dot_product_attention(q.narrow(0, 0, 2), k.narrow(0, 0, 3), v.narrow(0, 0, 3));
  EXPECT_TRUE(all_close(y.narrow(0, 0, 2), seen, tolerance(f64, 4)));
  EXPECT_TRUE(identical(y[2].detach(), zeros({2}, {.dtype = f64})));
  EXPECT_TRUE(all_close(weights.sum({1}), tensor<double>({1, 1, 0}), tolerance(f64, 5)));
  y.backward(ones_like(y));
  EXPECT_TRUE(identical(v.grad().narrow(0, 3, 2), zeros({2, 2}, {.dtype = f64})));
  EXPECT_NEAR(v.grad().sum().item<double>(), 4, 1e-12);  // two queries, two features
}

TEST(Attention, DropsWeightsAndKeepsTheirMean) {
  manual_seed(3);
  const Tensor q = zeros({100, 4}), k = zeros({50, 4}), v = ones({50, 2});
  const Tensor w = attention_with_weights(q, k, v, {.dropout_p = 0.4}).weights;
  double dropped = 0;
  for (const float value : w.to_vector()) {
    dropped += value == 0;
    ASSERT_TRUE(value == 0 || std::abs(value - 0.02 / 0.6) < 1e-6) << value;
  }
  EXPECT_NEAR(dropped, 2000, 5 * std::sqrt(5000 * 0.4 * 0.6));
  const Tensor y = scaled_dot_product_attention(q, k, v, {.dropout_p = 1});
  EXPECT_TRUE(identical(y, zeros({100, 2})));
}

TEST(Attention, OfNothing) {
  EXPECT_EQ(
      scaled_dot_product_attention(zeros({2, 0, 4}), zeros({2, 3, 4}), zeros({2, 3, 5})).shape(),
      (Dims{2, 0, 5}));
  EXPECT_EQ(scaled_dot_product_attention(zeros({0, 2, 4}), zeros({0, 3, 4}), zeros({0, 3, 5}),
                                         {.is_causal = true})
                .shape(),
            (Dims{0, 2, 5}));
  const Tensor none = scaled_dot_product_attention(ones({2, 4}), ones({0, 4}), ones({0, 5}));
  EXPECT_TRUE(identical(none, zeros({2, 5})));  // an average of zero values
}

TEST(Attention, OneNumberMayMaskAll) {
  const Tensor q = ones({2, 4}), k = ones({3, 4}), v = ones({3, 5});
  const auto masked = [&](const Tensor& mask) {
    return scaled_dot_product_attention(q, k, v, {.attn_mask = mask});
  };
  EXPECT_TRUE(identical(masked(zeros({}, {.dtype = boolean})), zeros({2, 5})));
  EXPECT_TRUE(all_close(masked(ones({}, {.dtype = boolean})), ones({2, 5}), tolerance(f32, 3)));
}

TEST(Attention, ScoresOf16BitsKeepTheirDigits) {
  // Scores reach 75, where bf16 has a spacing of 1/2. The remaining error is the rounding of the
  // weights, which add up to 1, and of the result: each 2^-9 of the largest value.
  const auto rounded = [](std::uint32_t key) { return fill({16, 8}, key, 5).to(f32).to(bf16); };
  const Tensor q = rounded(1), k = rounded(2), v = rounded(3);
  const Tensor expected = scaled_dot_product_attention(q.to(f32), k.to(f32), v.to(f32));
  const Tensor y = scaled_dot_product_attention(q, k, v);
  EXPECT_EQ(y.dtype(), bf16);
  EXPECT_TRUE(all_close(y.to(f32), expected, 2 * 0x1p-9 * v.to(f32).abs().max().item<double>()));
}

TEST(AttentionErrors, NameShapesAndTypes) {
  const Tensor q = zeros({2, 5, 4}), k = zeros({2, 7, 4}), v = zeros({2, 7, 6});
  const auto run = [&](const AttentionOptions& options) {
    return scaled_dot_product_attention(q, k, v, options);
  };
  EXPECT_ERROR(scaled_dot_product_attention(zeros({4}), k, v), ShapeError,
               "scaled_dot_product_attention: q [4]");
  EXPECT_ERROR(scaled_dot_product_attention(zeros({2, 5, 3}), k, v), ShapeError,
               "queries of [2, 5, 3] and keys of [2, 7, 4]");
  EXPECT_ERROR(scaled_dot_product_attention(q, k, zeros({2, 6, 6})), ShapeError,
               "there are 7 keys in [2, 7, 4] and 6 values in [2, 6, 6]");
  EXPECT_THROW(scaled_dot_product_attention(zeros({3, 5, 4}), k, v), ShapeError);
  EXPECT_ERROR(scaled_dot_product_attention(q.to(f64), k, v), DTypeError, "q of f64, k of f32");
  EXPECT_ERROR(run({.attn_mask = zeros({5, 6})}), ShapeError,
               "a mask of [5, 6] for scores of [2, 5, 7]");
  EXPECT_ERROR(run({.attn_mask = zeros({1, 2, 5, 7})}), ShapeError, "a mask of [1, 2, 5, 7]");
  EXPECT_ERROR(run({.attn_mask = zeros({5, 7}, {.dtype = i64})}), DTypeError, "the mask is of i64");
  EXPECT_ERROR(run({.attn_mask = zeros({5, 7}), .is_causal = true}), Error, "exclude each other");
  EXPECT_ERROR(run({.dropout_p = 1.5}), Error, "probability 1.5");
  const AttentionOptions grouped = {.enable_gqa = true};
  EXPECT_ERROR(
      scaled_dot_product_attention(zeros({3, 5, 4}), k, v, grouped), ShapeError,
      "the heads of k [2, 7, 4] and v [2, 7, 6] must be equal in number and divide those of q "
      "[3, 5, 4]");
  EXPECT_THROW(scaled_dot_product_attention(zeros({4, 5, 4}), k, zeros({1, 7, 6}), grouped),
               ShapeError);
  EXPECT_THROW(scaled_dot_product_attention(q[0], k[0], v[0], grouped), ShapeError);
}

TEST(RotaryEmbeddingErrors, NameShapesAndTypes) {
  EXPECT_ERROR(rotary_embedding(zeros({2, 5})), ShapeError, "x [2, 5] is not (..., L, E)");
  EXPECT_THROW(rotary_embedding(zeros({4})), ShapeError);
  EXPECT_ERROR(rotary_embedding(zeros({2, 4}, {.dtype = i64})), DTypeError, "x is of i64");
  EXPECT_ERROR(rotary_embedding(zeros({2, 4}), {.base = 0}), Error, "the base 0 is not positive");
}

}  // namespace
}  // namespace rondo::test
