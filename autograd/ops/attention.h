#pragma once
// Attention: the result for each query is the average of the values, weighted by how well their
// keys match the query (Vaswani et al. 2017).

#include <optional>

#include "tensor/tensor.h"

namespace rondo {

struct AttentionOptions {
  /// Which keys a query attends to; broadcast to (..., L, S). A boolean mask is true for the keys
  /// that take part. A floating-point mask is added to the scores, so that -inf excludes a key. (In
  /// the masks of nn::MultiheadAttention, as in PyTorch's, true excludes a key.)
  Tensor attn_mask = {};
  /// Each weight is dropped with this probability; the others are scaled by 1 / (1 - p). This
  /// function does not know train and eval mode, as in PyTorch: pass 0 in evaluation.
  double dropout_p = 0;
  /// Query i attends to keys 0 … i. Cannot be combined with attn_mask (Error).
  bool is_causal = false;
  /// The factor for the scores; 1 / sqrt(E) if not given.
  std::optional<double> scale = {};
  /// Grouped queries: q (..., H, L, E) may have several heads for each head of k and v (..., G, S,
  /// E); query head h attends to key head h / (H / G). Throws ShapeError unless G divides H.
  bool enable_gqa = false;
};

/// softmax(scale q k^T + mask) v. q (..., L, E), k (..., S, E), v (..., S, Ev); their leading
/// dimensions broadcast. The result is (..., L, Ev). A query that may attend to no key gets zeros.
/// In f32, bf16 and f16 memory is linear in L and S. All scores are kept in f64, in a trace, and
/// with a mask that requires a gradient. A backward with create_graph keeps them, too, and gives
/// derivatives of any order. Throws ShapeError if the shapes do not match, and DTypeError if q, k,
/// v and a floating-point mask differ in dtype. Agrees with
/// torch.nn.functional.scaled_dot_product_attention.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options = {});

struct AttentionResult {
  Tensor output, weights;  // (..., L, Ev), (..., L, S)
};
/// The same, and also the weights as they were applied, that is, after dropout.
AttentionResult attention_with_weights(const Tensor& q, const Tensor& k, const Tensor& v,
                                       const AttentionOptions& options = {});

struct RotaryOptions {
  double base = 10000;      // rope_theta in configurations of models
  std::int64_t offset = 0;  // the position of the first element
};

/// Rotary position embedding of queries or keys (Su et al. 2021). x (..., L, E): with the angle
/// a = (offset + l) base^(-2i / E), element l becomes
///
///   y[i] = x[i] cos a - x[i + E/2] sin a,   y[i + E/2] = x[i + E/2] cos a + x[i] sin a
///
/// The scores of rotated queries and keys depend on distances only. Computed in f32 for 16-bit
/// floats. Throws ShapeError for an odd E. Agrees with the models of Hugging Face; the original
/// code of Llama pairs 2i with 2i + 1 instead.
Tensor rotary_embedding(const Tensor& x, RotaryOptions options = {});

}  // namespace rondo
