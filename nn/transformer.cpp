// TransformerEncoderLayer, TransformerEncoder (see transformer.h).

#include "nn/transformer.h"

#include <utility>

#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"

namespace rondo::nn {

Tensor detail::activated(const Tensor& x, TransformerActivation activation) {
  return activation == TransformerActivation::relu ? relu(x) : gelu(x);
}

TransformerEncoderLayer::TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead,
                                                 TransformerEncoderLayerOptions options)
    : options(options),
      self_attn(
          d_model, nhead,
          {.dropout = options.dropout, .bias = options.bias, .batch_first = options.batch_first}),
      linear1(d_model, options.dim_feedforward, {.bias = options.bias}),
      dropout(options.dropout),
      linear2(options.dim_feedforward, d_model, {.bias = options.bias}),
      norm1(d_model, {.eps = options.layer_norm_eps, .bias = options.bias}),
      norm2(d_model, {.eps = options.layer_norm_eps, .bias = options.bias}),
      dropout1(options.dropout),
      dropout2(options.dropout) {}

Tensor TransformerEncoderLayer::attend(const Tensor& x, const TransformerMasks& masks) {
  const AttentionOutput found = self_attn(x, x, x,
                                          {.key_padding_mask = masks.src_key_padding_mask,
                                           .attn_mask = masks.src_mask,
                                           .need_weights = false,
                                           .is_causal = masks.is_causal});
  return dropout1(found.output);
}

Tensor TransformerEncoderLayer::feed_forward(const Tensor& x) {
  return dropout2(linear2(dropout(detail::activated(linear1(x), options.activation))));
}

Tensor TransformerEncoderLayer::run(const Tensor& x, const TransformerMasks& masks) {
  if (options.norm_first) {
    const Tensor y = x + attend(norm1(x), masks);
    return y + feed_forward(norm2(y));
  }
  const Tensor y = norm1(x + attend(x, masks));
  return norm2(y + feed_forward(y));
}

Tensor TransformerEncoderLayer::operator()(const Tensor& x, const TransformerMasks& masks) {
  return call([&](const Tensor& in, const TransformerMasks& m) { return run(in, m); }, x, masks);
}

TransformerEncoder::TransformerEncoder(const TransformerEncoderLayer& layer,
                                       std::int64_t num_layers, AnyModule norm)
    : layers(detail::copies_of("TransformerEncoder", layer, num_layers)), norm(std::move(norm)) {}

Tensor TransformerEncoder::run(const Tensor& x, const TransformerMasks& masks) {
  Tensor y = x;
  for (AnyModule& layer : layers) y = layer.as<TransformerEncoderLayer>()(y, masks);
  return norm.has_value() ? norm(y) : y;
}

Tensor TransformerEncoder::operator()(const Tensor& x, const TransformerMasks& masks) {
  return call([&](const Tensor& in, const TransformerMasks& m) { return run(in, m); }, x, masks);
}

}  // namespace rondo::nn
