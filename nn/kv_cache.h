#pragma once
// KeyValueCache and CausalModule: language models that generate a text token by token. In causal
// attention, the keys and values of earlier tokens never change, so the cache keeps them, and each
// step computes those of the new tokens only. Read nn/models/gpt2.h next.

#include <utility>
#include <vector>

#include "nn/module.h"

namespace rondo::nn {

/// The keys and values of all attention layers, for the tokens that a model has read so far.
class KeyValueCache {
 public:
  KeyValueCache() = default;
  KeyValueCache(KeyValueCache&&) = default;
  KeyValueCache& operator=(KeyValueCache&&) = default;

  /// The number of tokens whose keys the layer has appended.
  std::int64_t length(std::int64_t layer = 0) const;
  /// Appends k and v (N, heads, L, E), and returns the keys and values of all tokens so far: views
  /// (N, heads, length, E), which stay valid. Its memory doubles when it is full. Throws ShapeError
  /// if N, heads or E differ from the layer's earlier keys, and Error if k or v needs a gradient,
  /// because the cache has none.
  std::pair<Tensor, Tensor> append(std::int64_t layer, const Tensor& k, const Tensor& v);

 private:
  struct Layer {
    Tensor keys, values;  // (N, heads, capacity, E)
    std::int64_t length = 0;
  };
  std::vector<Layer> layers_;
};

/// Causal attention with grouped queries: q (N, H, L, E), k and v (N, G, L, E), where G divides H.
/// Without a cache (null), query i attends to keys 0 … i. With one, the L elements follow those of
/// the cache: they are appended to the layer, and each query also attends to all earlier keys.
Tensor causal_attention(const Tensor& q, const Tensor& k, const Tensor& v, KeyValueCache* cache,
                        std::int64_t layer, double dropout_p = 0);

/// A causal language model, or a part of one: its output for an element depends on this element and
/// earlier ones.
struct CausalModule : Module {
  Tensor forward(const Tensor& x) override { return run(x, nullptr); }
  using Module::operator();
  /// x follows the elements that the cache has seen, and is added to them. Null: forward(x).
  Tensor operator()(const Tensor& x, KeyValueCache* cache);

 protected:
  virtual Tensor run(const Tensor& x, KeyValueCache* cache) = 0;
};

}  // namespace rondo::nn
