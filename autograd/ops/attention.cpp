#include "autograd/ops/attention.h"

#include <cmath>
#include <limits>

#include "autograd/autocast.h"
#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "autograd/record.h"
#include "tensor/backend.h"
#include "tensor/creation.h"
#include "tensor/record_function.h"

namespace rondo {
namespace {

constexpr const char* name = "scaled_dot_product_attention";
constexpr double infinity = std::numeric_limits<double>::infinity();

Dims leading(const Tensor& x) { return Dims(x.shape().begin(), x.shape().end() - 2); }

Dims joined(Dims sizes, std::int64_t rows, std::int64_t columns) {
  sizes.push_back(rows);
  sizes.push_back(columns);
  return sizes;
}

bool broadcasts_to(const Dims& from, const Dims& to) {
  const std::int64_t extra = to.size() - from.size();
  if (extra < 0) return false;
  for (std::int64_t i = 0; i < from.size(); ++i)
    if (from[i] != 1 && from[i] != to[extra + i]) return false;
  return true;
}

void check(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  require<ShapeError>(q.dim() >= 2 && k.dim() >= 2 && v.dim() >= 2, name, ": q ", q.shape(), ", k ",
                      k.shape(), " and v ", v.shape(), " must have two dimensions or more");
  require<ShapeError>(q.size(-1) == k.size(-1), name, ": queries of ", q.shape(), " and keys of ",
                      k.shape(), " differ in their last dimension");
  require<ShapeError>(k.size(-2) == v.size(-2), name, ": there are ", k.size(-2), " keys in ",
                      k.shape(), " and ", v.size(-2), " values in ", v.shape());
  require<DTypeError>(is_floating(q.dtype()) && q.dtype() == k.dtype() && q.dtype() == v.dtype(),
                      name, ": q of ", q.dtype(), ", k of ", k.dtype(), ", v of ", v.dtype());
  require(options.dropout_p >= 0 && options.dropout_p <= 1, name, ": the probability ",
          options.dropout_p, " is not in [0, 1]");
  const Tensor& mask = options.attn_mask;
  require_one_device(name, {q, k, v, mask});
  if (!mask.defined()) return;
  require(!options.is_causal, name, ": attn_mask and is_causal exclude each other");
  require<DTypeError>(mask.dtype() == boolean || mask.dtype() == q.dtype(), name,
                      ": the mask is of ", mask.dtype(), ", neither boolean nor ", q.dtype());
}

/// The bias added to the scores, and a mask of the queries that have no key (undefined: all have
/// one).
struct Mask {
  Tensor bias, blind;
};

/// The bias is -inf for excluded keys. If all keys of a query are excluded it is 0 instead: softmax
/// of only -inf is NaN, and no later product removes a NaN. Such a query averages all values, and
/// its output is set to zero at the end.
Mask mask_for(const Tensor& q, const Tensor& k, const AttentionOptions& options) {
  const TensorOptions like = {.dtype = q.dtype(), .device = q.device()};
  const auto allowed = [&](const Tensor& which) {
    return where(which, scalar(0, like), scalar(-infinity, like));
  };
  if (options.is_causal) {  // cumsum numbers the rows on the device, because a captured step cannot
                            // copy from the host
    const auto numbered = [&](std::int64_t n) {
      return cumsum(ones({n}, {.dtype = f32, .device = q.device()}), 0);
    };
    return {allowed(le(unsqueeze(numbered(k.size(-2)), 0), unsqueeze(numbered(q.size(-2)), 1))),
            {}};
  }
  if (!options.attn_mask.defined() || k.size(-2) == 0) return {};
  const Tensor& mask = options.attn_mask;
  const Tensor bias = mask.dtype() == boolean ? allowed(mask) : mask;
  if (bias.dim() == 0) return mask_for(q, k, {.attn_mask = expand(mask, {1, 1})});
  if (bias.size(-1) == 0) return {bias, {}};
  const Tensor blind = no_grad([&] { return eq(max(bias.detach(), -1, true).values, -infinity); });
  return {masked_fill(bias, blind, 0.0), blind};
}

}  // namespace

AttentionResult attention_with_weights(const Tensor& q, const Tensor& k, const Tensor& v,
                                       const AttentionOptions& options) {
  const RecordOp op("scaled_dot_product_attention");
  if (const Casts cast{AutocastOp::scaled_dot_product_attention, q}) {
    AttentionOptions lower = options;
    lower.attn_mask = cast(options.attn_mask);
    return attention_with_weights(cast(q), cast(k), cast(v), lower);
  }
  check(q, k, v, options);
  const Dims batch = broadcast_shapes(broadcast_shapes(leading(q), leading(k)), leading(v));
  const Dims scored = joined(batch, q.size(-2), k.size(-2));
  const double features = static_cast<double>(std::max<std::int64_t>(q.size(-1), 1));
  const double scale = options.scale.value_or(1 / std::sqrt(features));

  // In 16 bits, scores would have errors that the exponential makes large.
  const bool is_narrow = size_of(q.dtype()) == 2;
  const auto wide = [&](const Tensor& x) { return is_narrow ? x.to(f32) : x; };
  // Scale the queries, which have fewer elements than the scores.
  Tensor scores = bmm(detail::as_batch(wide(q) * scale, batch),
                      transpose(detail::as_batch(wide(k), batch), 1, 2));
  const Mask mask = mask_for(q, k, options);
  if (mask.bias.defined()) {
    require<ShapeError>(broadcasts_to(mask.bias.shape(), scored), name, ": a mask of ",
                        mask.bias.shape(), " for scores of ", scored);
    scores = reshape(scores, scored) + mask.bias;
  }
  Tensor weights = dropout(softmax(scores, -1), options.dropout_p).to(v.dtype());
  Tensor output = reshape(
      bmm(reshape(weights, {numel_of(batch), q.size(-2), k.size(-2)}), detail::as_batch(v, batch)),
      joined(batch, q.size(-2), v.size(-1)));
  weights = reshape(weights, scored);
  if (!mask.blind.defined()) return {output, weights};
  return {masked_fill(output, mask.blind, 0.0), masked_fill(weights, mask.blind, 0.0)};
}

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options) {
  return attention_with_weights(q, k, v, options).output;
}

}  // namespace rondo
