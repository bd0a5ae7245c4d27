// KeyValueCache, causal_attention, CausalModule (see kv_cache.h).

#include "nn/kv_cache.h"

#include <algorithm>

#include "autograd/grad_mode.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/attention.h"
#include "autograd/ops/shape.h"
#include "tensor/creation.h"

namespace rondo::nn {

std::int64_t KeyValueCache::length(std::int64_t layer) const {
  const auto at = static_cast<std::size_t>(layer);
  return at < layers_.size() ? layers_[at].length : 0;
}

std::pair<Tensor, Tensor> KeyValueCache::append(std::int64_t layer, const Tensor& k,
                                                const Tensor& v) {
  require(layer >= 0, "KeyValueCache: the layer ", layer, " is negative");
  require(!(GradMode::is_enabled() && (k.requires_grad() || v.requires_grad())),
          "KeyValueCache: has no gradients; call the model under NoGradGuard");
  const auto at = static_cast<std::size_t>(layer);
  layers_.resize(std::max(layers_.size(), at + 1));
  Layer& kept = layers_[at];
  const auto fits = [&](const Tensor& x, const Tensor& buffer) {
    if (x.dim() != 4 || x.size(2) != k.size(2)) return false;
    if (!buffer.defined()) return true;
    Dims sizes = x.shape();
    sizes[2] = buffer.size(2);
    return sizes == buffer.shape() && x.dtype() == buffer.dtype();
  };
  require<ShapeError>(
      fits(k, kept.keys) && fits(v, kept.values), "KeyValueCache: keys ", k.shape(), " of ",
      k.dtype(), " and values ", v.shape(), " of ", v.dtype(), " do not continue ",
      kept.keys.defined() ? concat("a cache of ", kept.keys.shape(), " of ", kept.keys.dtype())
                          : "each other as (N, heads, L, E)");
  const std::int64_t length = kept.length + k.size(2);
  const auto append_to = [&](Tensor& buffer, const Tensor& x) {
    if (!buffer.defined() || buffer.size(2) < length) {
      Dims sizes = x.shape();
      sizes[2] = std::max(length, 2 * kept.length);
      const Tensor larger = empty(sizes, {.dtype = x.dtype(), .device = x.device()});
      if (kept.length > 0) larger.narrow(2, 0, kept.length).copy_(buffer.narrow(2, 0, kept.length));
      buffer = larger;
    }
    buffer.narrow(2, kept.length, x.size(2)).copy_(x);
    return buffer.narrow(2, 0, length);
  };
  std::pair<Tensor, Tensor> all = {append_to(kept.keys, k), append_to(kept.values, v)};
  kept.length = length;
  return all;
}

Tensor causal_attention(const Tensor& q, const Tensor& k, const Tensor& v, KeyValueCache* cache,
                        std::int64_t layer, double dropout_p) {
  const std::int64_t before = cache == nullptr ? 0 : cache->length(layer);
  const auto [keys, values] = cache == nullptr ? std::pair(k, v) : cache->append(layer, k, v);
  AttentionOptions options = {.dropout_p = dropout_p, .enable_gqa = true};
  if (before == 0) {
    options.is_causal = true;
  } else if (q.size(2) > 1) {  // a single query attends to all keys
    const Tensor key = arange(keys.size(2), {.dtype = i64, .device = q.device()});
    options.attn_mask = le(unsqueeze(key, 0), unsqueeze(key.narrow(0, before, q.size(2)), 1));
  }
  return scaled_dot_product_attention(q, keys, values, options);
}

Tensor CausalModule::operator()(const Tensor& x, KeyValueCache* cache) {
  return call([&](const Tensor& in) { return run(in, cache); }, x);
}

}  // namespace rondo::nn
