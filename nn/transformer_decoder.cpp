// TransformerDecoderLayer, TransformerDecoder, Transformer (see transformer_decoder.h).

#include "nn/transformer_decoder.h"

#include <limits>
#include <utility>

#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/composed.h"
#include "nn/init.h"
#include "tensor/creation.h"

namespace rondo::nn {

TransformerDecoderLayer::TransformerDecoderLayer(std::int64_t d_model, std::int64_t nhead,
                                                 TransformerDecoderLayerOptions options)
    : options(options),
      self_attn(
          d_model, nhead,
          {.dropout = options.dropout, .bias = options.bias, .batch_first = options.batch_first}),
      multihead_attn(
          d_model, nhead,
          {.dropout = options.dropout, .bias = options.bias, .batch_first = options.batch_first}),
      linear1(d_model, options.dim_feedforward, {.bias = options.bias}),
      dropout(options.dropout),
      linear2(options.dim_feedforward, d_model, {.bias = options.bias}),
      norm1(d_model, {.eps = options.layer_norm_eps, .bias = options.bias}),
      norm2(d_model, {.eps = options.layer_norm_eps, .bias = options.bias}),
      norm3(d_model, {.eps = options.layer_norm_eps, .bias = options.bias}),
      dropout1(options.dropout),
      dropout2(options.dropout),
      dropout3(options.dropout) {}

void TransformerDecoderLayer::visit(Visitor& v) {
  v.child("self_attn", self_attn);
  v.child("multihead_attn", multihead_attn);
  v.child("linear1", linear1);
  v.child("dropout", dropout);
  v.child("linear2", linear2);
  v.child("norm1", norm1);
  v.child("norm2", norm2);
  v.child("norm3", norm3);
  v.child("dropout1", dropout1);
  v.child("dropout2", dropout2);
  v.child("dropout3", dropout3);
}

Tensor TransformerDecoderLayer::attend(const Tensor& x, const TransformerDecoderMasks& masks) {
  return dropout1(self_attn(x, x, x,
                            {.key_padding_mask = masks.tgt_key_padding_mask,
                             .attn_mask = masks.tgt_mask,
                             .need_weights = false,
                             .is_causal = masks.tgt_is_causal})
                      .output);
}

Tensor TransformerDecoderLayer::attend_to_memory(const Tensor& x, const Tensor& memory,
                                                 const TransformerDecoderMasks& masks) {
  return dropout2(multihead_attn(x, memory, memory,
                                 {.key_padding_mask = masks.memory_key_padding_mask,
                                  .attn_mask = masks.memory_mask,
                                  .need_weights = false,
                                  .is_causal = masks.memory_is_causal})
                      .output);
}

Tensor TransformerDecoderLayer::feed_forward(const Tensor& x) {
  return dropout3(linear2(dropout(detail::activated(linear1(x), options.activation))));
}

Tensor TransformerDecoderLayer::run(const Tensor& tgt, const Tensor& memory,
                                    const TransformerDecoderMasks& masks) {
  if (options.norm_first) {
    Tensor y = tgt + attend(norm1(tgt), masks);
    y = y + attend_to_memory(norm2(y), memory, masks);
    return y + feed_forward(norm3(y));
  }
  Tensor y = norm1(tgt + attend(tgt, masks));
  y = norm2(y + attend_to_memory(y, memory, masks));
  return norm3(y + feed_forward(y));
}

Tensor TransformerDecoderLayer::operator()(const Tensor& tgt, const Tensor& memory,
                                           const TransformerDecoderMasks& masks) {
  return call([&](const auto&... inputs) { return run(inputs...); }, tgt, memory, masks);
}

Tensor TransformerDecoderLayer::forward(const Tensor&) {
  throw Error("TransformerDecoderLayer: call it with (tgt, memory)");
}

TransformerDecoder::TransformerDecoder(const TransformerDecoderLayer& layer,
                                       std::int64_t num_layers, AnyModule norm)
    : layers(detail::copies_of("TransformerDecoder", layer, num_layers)), norm(std::move(norm)) {}

Tensor TransformerDecoder::operator()(const Tensor& tgt, const Tensor& memory,
                                      const TransformerDecoderMasks& masks) {
  return call([&](const auto&... inputs) { return run(inputs...); }, tgt, memory, masks);
}

Tensor TransformerDecoder::run(const Tensor& tgt, const Tensor& memory,
                               const TransformerDecoderMasks& masks) {
  Tensor y = tgt;
  for (AnyModule& layer : layers) y = layer.as<TransformerDecoderLayer>()(y, memory, masks);
  return norm.has_value() ? norm(y) : y;
}

Tensor TransformerDecoder::forward(const Tensor&) {
  throw Error("TransformerDecoder: call it with (tgt, memory)");
}

namespace {

TransformerEncoderLayerOptions layer_options(const TransformerOptions& o) {
  return {.dim_feedforward = o.dim_feedforward,
          .dropout = o.dropout,
          .activation = o.activation,
          .layer_norm_eps = o.layer_norm_eps,
          .batch_first = o.batch_first,
          .norm_first = o.norm_first,
          .bias = o.bias};
}

LayerNorm last_norm(std::int64_t d_model, const TransformerOptions& o) {
  return LayerNorm(d_model, {.eps = o.layer_norm_eps, .bias = o.bias});
}

}  // namespace

Transformer::Transformer(std::int64_t d_model, std::int64_t nhead, TransformerOptions options)
    : d_model(d_model),
      options(options),
      encoder(TransformerEncoderLayer(d_model, nhead, layer_options(options)),
              options.num_encoder_layers, last_norm(d_model, options)),
      decoder(TransformerDecoderLayer(d_model, nhead, layer_options(options)),
              options.num_decoder_layers, last_norm(d_model, options)) {
  for (const Tensor& p : parameters())
    if (p.dim() > 1) init::xavier_uniform_(p);
}

Tensor Transformer::operator()(const Tensor& src, const Tensor& tgt, const TransformerCall& call) {
  return Module::call([&](const auto&... inputs) { return run(inputs...); }, src, tgt, call);
}

Tensor Transformer::run(const Tensor& src, const Tensor& tgt, const TransformerCall& call) {
  const std::int64_t batch = options.batch_first ? 0 : 1;
  require<ShapeError>(src.dim() == tgt.dim() && (src.dim() == 2 || src.dim() == 3) &&
                          src.size(-1) == d_model && tgt.size(-1) == d_model &&
                          (src.dim() == 2 || src.size(batch) == tgt.size(batch)),
                      "Transformer: src ", src.shape(), " and tgt ", tgt.shape(), " are not both ",
                      options.batch_first ? "(N, L, " : "(L, N, ", d_model,
                      ") of one batch, or (L, ", d_model, ")");
  const Tensor memory = encoder(src, {.src_mask = call.src_mask,
                                      .src_key_padding_mask = call.src_key_padding_mask,
                                      .is_causal = call.src_is_causal});
  return decoder(tgt, memory,
                 {.tgt_mask = call.tgt_mask,
                  .memory_mask = call.memory_mask,
                  .tgt_key_padding_mask = call.tgt_key_padding_mask,
                  .memory_key_padding_mask = call.memory_key_padding_mask,
                  .tgt_is_causal = call.tgt_is_causal,
                  .memory_is_causal = call.memory_is_causal});
}

Tensor Transformer::forward(const Tensor&) { throw Error("Transformer: call it with (src, tgt)"); }

Tensor Transformer::generate_square_subsequent_mask(std::int64_t size, TensorOptions options) {
  return triu(full({size, size}, -std::numeric_limits<double>::infinity(), options), 1);
}

}  // namespace rondo::nn
