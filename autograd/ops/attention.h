#pragma once
// Attention: each query takes the average of the values, weighted by how well their keys match it
// (Vaswani et al. 2017).

#include <optional>

#include "tensor/tensor.h"

namespace rondo {

struct AttentionOptions {
  /// Which keys a query may look at; broadcast to (..., L, S). Boolean: true takes part. Floating:
  /// added to the scores, so that -inf leaves a key out. (nn::MultiheadAttention's masks, like
  /// PyTorch's, say true where a key does not take part.)
  Tensor attn_mask = {};
  /// Each weight is dropped with this probability; the others grow by 1 / (1 - p). As in PyTorch
  /// there is no mode here: give 0 in evaluation.
  double dropout_p = 0;
  /// Query i sees keys 0 … i. Not together with attn_mask (Error).
  bool is_causal = false;
  /// What scores are multiplied by; 1 / sqrt(E) where nothing is given.
  std::optional<double> scale = {};
};

/// softmax(scale q k^T + mask) v. q (..., L, E), k (..., S, E), v (..., S, Ev), whose leading
/// dimensions broadcast; the result is (..., L, Ev). A query that may look at no key gets zeros.
/// Recorded op by op, so that it has derivatives of any order. Throws ShapeError where shapes do
/// not fit and DTypeError where q, k, v and a floating mask are not of one type. Agrees with
/// torch.nn.functional.scaled_dot_product_attention.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options = {});

struct AttentionResult {
  Tensor output, weights;  // (..., L, Ev), (..., L, S)
};
/// The same, with the weights as they were applied: after dropout.
AttentionResult attention_with_weights(const Tensor& q, const Tensor& k, const Tensor& v,
                                       const AttentionOptions& options = {});

}  // namespace rondo
