#include "autograd/ops/attention.h"

#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "autograd/autocast.h"
#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/flex_attention.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "autograd/record.h"
#include "autograd/trace.h"
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
  require<ShapeError>(!options.enable_gqa || (q.dim() >= 3 && k.dim() >= 3 && v.dim() >= 3 &&
                                              k.size(-3) == v.size(-3) && k.size(-3) > 0 &&
                                              q.size(-3) % k.size(-3) == 0),
                      name, ": with enable_gqa, the heads of k ", k.shape(), " and v ", v.shape(),
                      " must be equal in number and divide those of q ", q.shape());
  require(options.dropout_p >= 0 && options.dropout_p <= 1, name, ": the probability ",
          options.dropout_p, " is not in [0, 1]");
  const Tensor& mask = options.attn_mask;
  require_one_device(name, {q, k, v, mask});
  if (!mask.defined()) return;
  require(!options.is_causal, name, ": attn_mask and is_causal exclude each other");
  require<DTypeError>(mask.dtype() == boolean || mask.dtype() == q.dtype(), name,
                      ": the mask is of ", mask.dtype(), ", neither boolean nor ", q.dtype());
}

AttentionOptions cast_mask(const Casts& cast, AttentionOptions options) {
  options.attn_mask = cast(options.attn_mask);
  return options;
}

void check_mask(const Tensor& mask, const Dims& scored) {
  require<ShapeError>(broadcasts_to(mask.shape(), scored), name, ": a mask of ", mask.shape(),
                      " for scores of ", scored);
}

double scale_of(const Tensor& q, const AttentionOptions& options) {
  const double features = static_cast<double>(std::max<std::int64_t>(q.size(-1), 1));
  return options.scale.value_or(1 / std::sqrt(features));
}

/// 1 … n, made on the device, because a captured step cannot copy from the host.
Tensor numbered(std::int64_t n, const TensorOptions& options) {
  return cumsum(ones({n}, options), 0);
}

/// The bias added to the scores, and a mask of the queries that have no key (undefined: all have
/// one).
struct ScoreMask {
  Tensor bias, blind;
};

/// The bias is -inf for excluded keys. If all keys of a query are excluded it is 0 instead: softmax
/// of only -inf is NaN, and no later product removes a NaN. Such a query averages all values, and
/// its output is set to zero at the end.
ScoreMask mask_for(const Tensor& q, const Tensor& k, const AttentionOptions& options) {
  const TensorOptions like = {.dtype = q.dtype(), .device = q.device()};
  const auto allowed = [&](const Tensor& which) {
    return where(which, scalar(0, like), scalar(-infinity, like));
  };
  if (options.is_causal) {
    const TensorOptions count = {.dtype = f32, .device = q.device()};
    return {allowed(le(unsqueeze(numbered(k.size(-2), count), 0),
                       unsqueeze(numbered(q.size(-2), count), 1))),
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

/// The factors of dropout with probability p for x.
Tensor kept(const Tensor& x, double p, Philox random) {
  const NoGradGuard no_grad;
  const Tensor draw = empty(x.shape(), {.device = x.device()});
  backend(x).uniform(draw, random, 0, 1);
  return ge(draw, p).to(x.dtype()) * (p == 1 ? 1 : 1 / (1 - p));
}

/// Uninitialised memory for (N, H, L, E) in the order (N, L, H, E): a projection of all heads reads
/// it without a copy.
Tensor heads_last(const Dims& sizes, const TensorOptions& options) {
  const Tensor y = Tensor::empty({sizes[0], sizes[2], sizes[1], sizes[3]}, options);
  return y.as_view(sizes, {y.stride(0), y.stride(2), y.stride(1), y.stride(3)}, y.storage_offset());
}

/// Attention by the backend's kernels. Inputs: q (N, H, L, E), k (N, G, S, E), v (N, G, S, Ev).
struct AttentionBackward final : Node {
  SavedTensor q, k, v, y, mask;
  Tensor lse;
  AttentionParams params;

  AttentionBackward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& y,
                    const Tensor& lse, const AttentionParams& given)
      : q(q), k(k), v(v), y(y, SavedTensor::output), mask(given.mask), lse(lse), params(given) {
    params.mask = {};
  }
  const char* name() const override { return params.score_mod ? "flex_attention" : rondo::name; }

  Tensors backward(const Tensors& dy) override {
    const Tensor queries = q.get(*this), keys = k.get(*this), values = v.get(*this);
    AttentionParams all = params;
    all.mask = mask.get(*this);
    if (GradMode::is_enabled()) return in_ops(dy[0], queries, keys, values, all);
    Tensors dx;
    for (const Tensor& x : {queries, keys, values})
      dx.push_back(heads_last(x.shape(), x.options()));
    backend(queries).attention_backward(dy[0], queries, keys, values, all, y.get(*this), lse, dx[0],
                                        dx[1], dx[2]);
    return dx;
  }

  /// The same in differentiable ops, for create_graph; it keeps the scores.
  Tensors in_ops(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v,
                 const AttentionParams& given) const {
    require<AutogradError>(!given.score_mod, name(), ": has no second derivatives");
    const std::int64_t n = k.size(0), heads = k.size(1), rows = q.size(1) / heads * q.size(2);
    const auto grouped = [&](const Tensor& x) {
      return reshape(x, {n, heads, rows, x.size(-1)}).to(f32);
    };
    const Tensor scaled = grouped(q) * given.scale, wide_k = k.to(f32), wide_dy = grouped(dy);
    Tensor scores = matmul(scaled, transpose(wide_k, 2, 3));
    const ScoreMask bias = mask_for(q, k, {.attn_mask = given.mask, .is_causal = given.is_causal});
    const Dims all = {n, q.size(1), q.size(2), k.size(2)};
    if (bias.bias.defined()) scores = reshape(reshape(scores, all) + bias.bias, scores.shape());
    Tensor p = softmax(scores, -1);
    if (bias.blind.defined())
      p = reshape(masked_fill(reshape(p, all), bias.blind, 0.0), scores.shape());
    const Tensor keep = given.dropout_p > 0 ? kept(p, given.dropout_p, given.random) : Tensor();
    const auto dropped = [&](const Tensor& x) { return keep.defined() ? x * keep : x; };
    const Tensor dp = dropped(matmul(wide_dy, transpose(v.to(f32), 2, 3)));
    const Tensor ds = p * (dp - sum(dp * p, {-1}, true));
    return {reshape(matmul(ds, wide_k) * given.scale, q.shape()).to(q.dtype()),
            matmul(transpose(ds, 2, 3), scaled).to(k.dtype()),
            matmul(transpose(dropped(p), 2, 3), wide_dy).to(v.dtype())};
  }
  void release_saved() override {
    for (SavedTensor* saved : {&q, &k, &v, &y, &mask}) saved->reset();
    lse = {};
  }
};

/// The shape of the scores (..., L, S).
Dims scored(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  const std::int64_t group = options.enable_gqa ? q.size(-3) / k.size(-3) : 1;
  Dims heads = leading(q);
  if (group > 1) heads[heads.size() - 1] /= group;
  Dims all = broadcast_shapes(broadcast_shapes(heads, leading(k)), leading(v));
  if (group > 1) all[all.size() - 1] *= group;
  return joined(all, q.size(-2), k.size(-2));
}

/// Attention op by op, with all scores.
AttentionResult composed(const Tensor& q, const Tensor& k, const Tensor& v,
                         const AttentionOptions& options) {
  // All queries that share a head of k and v are rows of one matrix, so k and v are not repeated.
  const std::int64_t group = options.enable_gqa ? q.size(-3) / k.size(-3) : 1;
  const std::int64_t rows = group * q.size(-2);
  const Dims all = scored(q, k, v, options);
  Dims batch(all.begin(), all.end() - 2), heads = leading(q);
  if (group > 1) {
    batch[batch.size() - 1] /= group;
    heads[heads.size() - 1] /= group;
  }
  const Tensor grouped = group > 1 ? reshape(q, joined(heads, rows, q.size(-1))) : q;

  // In 16 bits, scores would have errors that the exponential makes large.
  const bool is_narrow = size_of(q.dtype()) == 2;
  const auto wide = [&](const Tensor& x) { return is_narrow ? x.to(f32) : x; };
  // Scale the queries, which have fewer elements than the scores.
  Tensor scores = bmm(detail::as_batch(wide(grouped) * scale_of(q, options), batch),
                      transpose(detail::as_batch(wide(k), batch), 1, 2));
  const ScoreMask mask = mask_for(q, k, options);
  if (mask.bias.defined()) {
    check_mask(mask.bias, all);
    scores = reshape(scores, all) + mask.bias;
  }
  Tensor weights = softmax(scores, -1);
  if (options.dropout_p > 0)
    weights = weights * kept(weights, options.dropout_p, default_generator().next());
  weights = weights.to(v.dtype());
  Dims sizes = all;
  sizes[sizes.size() - 1] = v.size(-1);
  Tensor output = reshape(
      bmm(reshape(weights, {numel_of(batch), rows, k.size(-2)}), detail::as_batch(v, batch)),
      sizes);
  weights = reshape(weights, all);
  if (!mask.blind.defined()) return {output, weights};
  return {masked_fill(output, mask.blind, 0.0), masked_fill(weights, mask.blind, 0.0)};
}

/// Whether the backend's kernels compute this attention. They do not record what a trace needs, and
/// give no gradient of the mask.
bool has_kernel(const Tensor& q, const Tensor& k, const Tensor& v,
                const AttentionOptions& options) {
  constexpr std::int64_t few = 8;  // queries, whose scores are few, too
  return backend(q).has_attention(q) && !TraceMode::is_enabled() && q.size(-2) >= few &&
         q.numel() > 0 && k.numel() > 0 && v.numel() > 0 &&
         !any_requires_grad({&options.attn_mask, 1});
}

Tensor by_kernel(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                 const std::function<void(const ScoreTile&)>& score_mod) {
  const std::int64_t group = options.enable_gqa ? q.size(-3) / k.size(-3) : 1;
  const auto with_heads = [group](Dims sizes, bool repeated) {
    if (sizes.empty()) sizes.push_back(1);
    if (repeated) sizes[sizes.size() - 1] *= group;
    return sizes;
  };
  Dims heads = leading(q);
  if (group > 1) heads[heads.size() - 1] /= group;
  const Dims batch = broadcast_shapes(broadcast_shapes(heads, leading(k)), leading(v));
  const Dims key_heads = with_heads(batch, false), query_heads = with_heads(batch, true);
  const auto whole = [](const Tensor& x, const Dims& all, std::int64_t rows, std::int64_t columns) {
    const std::int64_t last = all[all.size() - 1];  // as (N, heads, rows, columns)
    return reshape(expand(x, joined(all, rows, columns)),
                   {numel_of(all) / last, last, rows, columns});
  };
  const std::int64_t length = q.size(-2), keys = k.size(-2);
  AttentionParams params = {.scale = scale_of(q, options),
                            .is_causal = options.is_causal,
                            .dropout_p = options.dropout_p,
                            .score_mod = score_mod};
  if (options.dropout_p > 0) params.random = default_generator().next();
  if (options.attn_mask.defined()) {
    check_mask(options.attn_mask, joined(query_heads, length, keys));
    params.mask = whole(options.attn_mask, query_heads, length, keys);
  }
  const Tensor query = whole(q, query_heads, length, q.size(-1)),
               key = whole(k, key_heads, keys, k.size(-1)),
               value = whole(v, key_heads, keys, v.size(-1));
  Dims sizes = query.shape();
  sizes[3] = v.size(-1);
  const Tensor y = heads_last(sizes, q.options());
  const Tensor lse = Tensor::empty({sizes[0], sizes[1], sizes[2]}, {.device = q.device()});
  backend(q).attention(query, key, value, params, y, lse);
  record<AttentionBackward>({query, key, value}, y, query, key, value, y, lse, params);
  Dims shape = batch;
  if (group > 1) shape[shape.size() - 1] *= group;
  return reshape(y, joined(shape, length, v.size(-1)));
}

/// (a, b), the halves of x's last dimension, to (a cosine - b sine, b cosine + a sine).
Tensor rotated(const Tensor& x, const Tensor& cosine, const Tensor& sine);

struct RotaryBackward final : Node {
  Tensor cosine, sine;
  RotaryBackward(Tensor cosine, Tensor sine) : cosine(std::move(cosine)), sine(std::move(sine)) {}
  const char* name() const override { return "rotary_embedding"; }
  // The rotation back, so derivatives of any order are this op.
  Tensors backward(const Tensors& dy) override { return {rotated(dy[0], cosine, -sine)}; }
};

struct RotaryTables {
  Tensor cosine, sine;  // (L, half)
};

RotaryTables rotary_tables(std::int64_t length, std::int64_t half, const RotaryOptions& options,
                           const TensorOptions& like) {
  // All layers of a model rotate queries and keys by the same angles, so each thread keeps its last
  // tables, if they are small. On a GPU it keeps none: a captured graph must not read memory that
  // belongs to another graph.
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, double, DType>;
  thread_local std::pair<Key, RotaryTables> last;
  const Key key{length, half, options.offset, options.base, *like.dtype};
  constexpr std::int64_t most_kept = 1 << 17;  // elements of a table: 512 KiB in f32
  const bool is_kept =
      like.device.is_cpu() && !TraceMode::is_enabled() && length * half <= most_kept;
  if (is_kept && last.second.cosine.defined() && last.first == key) return last.second;
  const Tensor position = numbered(length, like) + (options.offset - 1);
  const double step =
      -std::log(options.base) / static_cast<double>(std::max<std::int64_t>(half, 1));
  const Tensor angle = unsqueeze(position, 1) * exp((numbered(half, like) - 1) * step);
  const RotaryTables tables = {cos(angle), sin(angle)};
  if (is_kept) last = {key, tables};
  return tables;
}

Tensor rotated(const Tensor& x, const Tensor& cosine, const Tensor& sine) {
  const Tensor y = Tensor::empty_like(x);
  no_grad([&] {
    const std::int64_t half = cosine.size(-1);
    const Tensor a = x.narrow(-1, 0, half), b = x.narrow(-1, half, half);
    backend(x).rotate(a, b, cosine.expand(a.shape()), sine.expand(a.shape()), y.narrow(-1, 0, half),
                      y.narrow(-1, half, half));
  });
  return record<RotaryBackward>({x}, y, cosine, sine);
}

}  // namespace

AttentionResult attention_with_weights(const Tensor& q, const Tensor& k, const Tensor& v,
                                       const AttentionOptions& options) {
  const OpRange op("scaled_dot_product_attention");
  if (const Casts cast{AutocastOp::scaled_dot_product_attention, q})
    return attention_with_weights(cast(q), cast(k), cast(v), cast_mask(cast, options));
  check(q, k, v, options);
  return composed(q, k, v, options);
}

Tensor detail::flex_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                              const std::function<void(const ScoreTile&)>& score_mod,
                              const AttentionOptions& options) {
  const OpRange op("flex_attention");
  if (const Casts cast{AutocastOp::scaled_dot_product_attention, q})
    return flex_attention(cast(q), cast(k), cast(v), score_mod, cast_mask(cast, options));
  check(q, k, v, options);
  require<DeviceError>(q.device().is_cpu(), "flex_attention: q is on ", q.device(),
                       ", but score_mod is compiled for the CPU; move q, k and v to the CPU");
  require<DTypeError>(backend(q).has_attention(q), "flex_attention: ", q.device(),
                      " has no kernel for ", q.dtype());
  require<ShapeError>(q.numel() > 0 && k.numel() > 0 && v.numel() > 0, "flex_attention: q ",
                      q.shape(), ", k ", k.shape(), " or v ", v.shape(), " is empty");
  require(!any_requires_grad({&options.attn_mask, 1}),
          "flex_attention: attn_mask cannot require a gradient");
  return by_kernel(q, k, v, options, score_mod);
}

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options) {
  const OpRange op(name);
  if (const Casts cast{AutocastOp::scaled_dot_product_attention, q})
    return scaled_dot_product_attention(cast(q), cast(k), cast(v), cast_mask(cast, options));
  check(q, k, v, options);
  if (has_kernel(q, k, v, options)) return by_kernel(q, k, v, options, nullptr);
  return composed(q, k, v, options).output;
}

Tensor rotary_embedding(const Tensor& x, RotaryOptions options) {
  const OpRange op("rotary_embedding");
  require<ShapeError>(x.dim() >= 2 && x.size(-1) % 2 == 0, "rotary_embedding: x ", x.shape(),
                      " is not (..., L, E) with an even E");
  require<DTypeError>(is_floating(x.dtype()), "rotary_embedding: x is of ", x.dtype(),
                      ", not floating");
  require(options.base > 0, "rotary_embedding: the base ", options.base, " is not positive");
  const DType wide = size_of(x.dtype()) == 2 ? f32 : x.dtype();
  const TensorOptions like = {.dtype = wide, .device = x.device()};
  const std::int64_t half = x.size(-1) / 2;
  const auto [cosine, sine] = rotary_tables(x.size(-2), half, options, like);
  if (!TraceMode::is_enabled()) return rotated(x, cosine, sine);
  const Tensor wide_x = x.to(wide);  // exporters of graphs know these ops
  const Tensor a = wide_x.narrow(-1, 0, half), b = wide_x.narrow(-1, half, half);
  return cat({a * cosine - b * sine, b * cosine + a * sine}, -1).to(x.dtype());
}

}  // namespace rondo
