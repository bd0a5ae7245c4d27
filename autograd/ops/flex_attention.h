#pragma once
// Attention whose scores are changed by a C++ callable, as by PyTorch's flex_attention: relative
// positions, soft caps, windows, documents, …
//
//   Tensor y = flex_attention(q, k, v, [](Score s, auto batch, auto head, auto query, auto key) {
//     return query - key < 128 ? 20 * tanh(s / 20) : Score::excluded();
//   });
//
// The callable is inlined in a loop over a tile of scores, between the products that the kernels of
// the backend compute. Its derivative comes from the same code: a Score carries its derivative by
// the score that the callable got (forward-mode differentiation with dual numbers). There is no
// matrix of scores or biases, in forward or in backward.

#include <cmath>
#include <functional>
#include <limits>

#include "autograd/ops/attention.h"
#include "tensor/backend.h"

namespace rondo {

/// A score, or a number computed from it, and its derivative by that score.
struct Score {
  float value, slope;

  Score(float value, float slope = 0) : value(value), slope(slope) {}
  /// The query does not attend to the key.
  static Score excluded() { return -std::numeric_limits<float>::infinity(); }
};
inline Score operator-(Score a) { return {-a.value, -a.slope}; }
inline Score operator+(Score a, Score b) { return {a.value + b.value, a.slope + b.slope}; }
inline Score operator-(Score a, Score b) { return {a.value - b.value, a.slope - b.slope}; }
inline Score operator*(Score a, Score b) {
  return {a.value * b.value, a.slope * b.value + a.value * b.slope};
}
inline Score operator/(Score a, Score b) {
  const float ratio = a.value / b.value;
  return {ratio, (a.slope - ratio * b.slope) / b.value};
}
inline Score exp(Score a) {
  const float y = std::exp(a.value);
  return {y, y * a.slope};
}
inline Score log(Score a) { return {std::log(a.value), a.slope / a.value}; }
inline Score tanh(Score a) {
  const float y = std::tanh(a.value);
  return {y, (1 - y * y) * a.slope};
}

namespace detail {
Tensor flex_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                      const std::function<void(const ScoreTile&)>& score_mod,
                      const AttentionOptions& options);
}  // namespace detail

/// Like scaled_dot_product_attention, with score_mod(score, batch, head, query, key) instead of
/// each score scale q · k, before a mask is added. `batch` counts the elements of all dimensions
/// before the heads'. score_mod must not throw, and several threads call it. Gradients go to q, k
/// and v only, and have no derivatives (AutogradError). Throws DTypeError if the backend has no
/// kernel (on GPUs, and for f64), Error if attn_mask requires a gradient, and ShapeError for empty
/// tensors.
template <class ScoreMod>
Tensor flex_attention(const Tensor& q, const Tensor& k, const Tensor& v, ScoreMod score_mod,
                      const AttentionOptions& options = {}) {
  const auto change = [score_mod](const ScoreTile& tile) {
    for (std::int64_t i = 0; i < tile.keys; ++i)
      for (std::int64_t j = 0; j < tile.queries; ++j) {
        const std::int64_t at = i * tile.stride + j;
        const Score score = score_mod(Score(tile.scores[at], 1), tile.batch, tile.head,
                                      tile.first_query + j, tile.first_key + i);
        tile.scores[at] = score.value;
        if (tile.slopes != nullptr) tile.slopes[at] = score.slope;
      }
  };
  return detail::flex_attention(q, k, v, change, options);
}

}  // namespace rondo
