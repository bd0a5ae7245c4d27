#pragma once
// MultiheadAttention: several attention heads in parallel, each with its own projections (Vaswani
// et al. 2017). The arithmetic is in autograd/ops/attention.h; nn/transformer.h builds on this
// module.

#include "nn/linear.h"
#include "nn/module.h"

namespace rondo::nn {

struct MultiheadAttentionOptions {
  double dropout = 0;  // of the attention weights, in training
  bool bias = true;
  bool add_bias_kv = false;         // a learned key and value after those of the sequence
  bool add_zero_attn = false;       // a key and value of zeros after them
  std::int64_t kdim = 0, vdim = 0;  // the features of keys and values; 0: embed_dim
  bool batch_first = false;         // (N, L, E) instead of (L, N, E)
};

/// The arguments of one call besides queries, keys and values. A boolean mask is true where a key
/// does NOT take part (the opposite of scaled_dot_product_attention's, as in PyTorch). A
/// floating-point mask is added to the scores.
struct AttentionCall {
  Tensor key_padding_mask = {};  // (N, S), or (S) without a batch
  Tensor attn_mask = {};         // (L, S), or one for each head, (N num_heads, L, S)
  bool need_weights = true;
  bool average_attn_weights =
      true;                // weights (N, L, S), the mean over heads; else (N, heads, L, S)
  bool is_causal = false;  // query i attends to keys 0 … i; PyTorch requires attn_mask as well
  template <class V>
  void visit(V&& v) {
    v("key_padding_mask", key_padding_mask);
    v("attn_mask", attn_mask);
  }
};

struct AttentionOutput {
  Tensor output, weights;  // weights is undefined if need_weights is false
  template <class V>
  void visit(V&& v) {
    v("output", output);
    v("weights", weights);
  }
};

/// query (L, N, E), key (S, N, kdim) and value (S, N, vdim), with E = embed_dim; the output has the
/// query's shape. With batch_first they are (N, L, E), and without a batch (L, E). Each head
/// projects to E / num_heads features and attends; the heads' outputs are concatenated and
/// projected once more. If all keys of a query are masked, its output is zeros; PyTorch returns NaN
/// there with need_weights.
///
/// in_proj_weight (3E, E) holds the three projections, of queries, keys and values. With another
/// kdim or vdim there are q_proj_weight (E, E), k_proj_weight (E, kdim) and v_proj_weight (E, vdim)
/// instead. They are initialised by xavier_uniform_; in_proj_bias (3E) and out_proj.bias are 0.
/// bias_k and bias_v (1, 1, E), the key and value of add_bias_kv, are drawn by xavier_normal_.
/// Throws ShapeError if the number of heads does not divide E or an input does not match, and Error
/// for a probability outside [0, 1]. Agrees with torch.nn.MultiheadAttention.
///
///   nn::MultiheadAttention attention(64, 4, {.batch_first = true});
///   auto [y, weights] = attention(x, x, x, {.is_causal = true});
struct MultiheadAttention : Module {
  std::int64_t embed_dim, num_heads;
  MultiheadAttentionOptions options;
  Tensor in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight, in_proj_bias, bias_k, bias_v;
  Linear out_proj;

  MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads,
                     MultiheadAttentionOptions options = {});
  /// Self-attention without masks.
  Tensor forward(const Tensor& x) override;
  /// Counts the three projections, and the scores and averages of all heads, masked or not. `key`
  /// and y are (L, N, E), (N, L, E) with batch_first, or (L, E).
  std::int64_t multiply_adds(const Tensor& key, const Tensor& y) const override;
  std::int64_t multiply_adds_of(const Tensors& inputs, const Tensors& outputs) const override;
  using Module::operator();
  AttentionOutput operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                             const AttentionCall& call = {});
  void visit(Visitor& v) override {
    v.parameter("in_proj_weight", in_proj_weight);
    v.parameter("q_proj_weight", q_proj_weight);
    v.parameter("k_proj_weight", k_proj_weight);
    v.parameter("v_proj_weight", v_proj_weight);
    v.parameter("in_proj_bias", in_proj_bias);
    v.parameter("bias_k", bias_k);
    v.parameter("bias_v", bias_v);
    v.child("out_proj", out_proj);
  }

 private:
  AttentionOutput run(const Tensor& query, const Tensor& key, const Tensor& value,
                      const AttentionCall& call);
  Tensors projected(const Tensor& query, const Tensor& key, const Tensor& value);
  void append_extra_keys(Tensors& parts) const;
};

}  // namespace rondo::nn
