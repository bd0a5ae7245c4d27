#pragma once
// MultiheadAttention: several attentions side by side, each in a space of its own (Vaswani et al.
// 2017). The arithmetic is in autograd/ops/attention.h; what is made of it is in nn/transformer.h.

#include "nn/linear.h"
#include "nn/module.h"

namespace rondo::nn {

struct MultiheadAttentionOptions {
  double dropout = 0;  // of the weights, in training
  bool bias = true;
  bool batch_first = false;  // (N, L, E) instead of (L, N, E)
};

/// What one call of it is given besides queries, keys and values. Masks are boolean, true where a
/// key does NOT take part (the opposite of scaled_dot_product_attention's, as in PyTorch), or
/// floating, added to the scores.
struct AttentionCall {
  Tensor key_padding_mask = {};  // (N, S), or (S) without a batch
  Tensor attn_mask = {};         // (L, S), or one for each head, (N num_heads, L, S)
  bool need_weights = true;
  bool average_attn_weights =
      true;                // weights (N, L, S), the mean over heads; else (N, heads, L, S)
  bool is_causal = false;  // query i sees keys 0 … i; PyTorch wants attn_mask said as well
};

struct AttentionOutput {
  Tensor output, weights;  // weights undefined where they were not asked for
};

/// query (L, N, E), key and value (S, N, E), E being embed_dim, to the query's shape; (N, L, E)
/// with batch_first, and (L, E) without a batch. Each head h projects to E / num_heads features and
/// attends; what the heads found is joined and projected once more. A query all of whose keys are
/// masked gets zeros where PyTorch has, with need_weights, NaN.
///
/// in_proj_weight (3E, E) holds the three projections, of queries, keys and values, and is drawn by
/// xavier_uniform_; in_proj_bias (3E) and out_proj.bias are 0. Throws ShapeError where heads do not
/// divide E or an input does not fit, Error for a probability outside [0, 1]. Agrees with
/// torch.nn.MultiheadAttention, but for kdim, vdim, add_bias_kv and add_zero_attn, which it has
/// not.
///
///   nn::MultiheadAttention attention(64, 4, {.batch_first = true});
///   auto [y, weights] = attention(x, x, x, {.is_causal = true});
struct MultiheadAttention : Module {
  std::int64_t embed_dim, num_heads;
  MultiheadAttentionOptions options;
  Tensor in_proj_weight, in_proj_bias;
  Linear out_proj;

  MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads,
                     MultiheadAttentionOptions options = {});
  /// Self-attention without masks.
  Tensor forward(const Tensor& x) override;
  /// The three projections, and the scores and averages of all heads, masked or not. `key` and y
  /// are (L, N, E), the batch first or second, or (L, E).
  std::int64_t multiply_adds(const Tensor& key, const Tensor& y) const override;
  using Module::operator();
  /// An observer (nn/observe.h) is shown the key as its input.
  AttentionOutput operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                             const AttentionCall& call = {});
  void visit(Visitor& v) override {
    v.parameter("in_proj_weight", in_proj_weight);
    v.parameter("in_proj_bias", in_proj_bias);
    v.child("out_proj", out_proj);
  }

 private:
  AttentionOutput run(const Tensor& query, const Tensor& key, const Tensor& value,
                      const AttentionCall& call);
  Tensors projected(const Tensor& query, const Tensor& key, const Tensor& value);
};

}  // namespace rondo::nn
