// Llama (see llama.h).

#include "nn/models/llama.h"

#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/attention.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "nn/init.h"
#include "tensor/creation.h"

namespace rondo::nn {
namespace {

std::int64_t key_heads(const LlamaOptions& options) {
  return options.num_key_value_heads.value_or(options.num_attention_heads);
}

std::int64_t head_size(const LlamaOptions& options) {
  const std::int64_t heads = options.num_attention_heads;
  require<ShapeError>(heads > 0 && key_heads(options) > 0 && heads % key_heads(options) == 0,
                      "Llama: ", key_heads(options), " heads of keys do not divide ", heads,
                      " heads of queries");
  require<ShapeError>(options.head_dim || options.hidden_size % heads == 0, "Llama: ", heads,
                      " heads do not divide hidden_size ", options.hidden_size);
  return options.head_dim.value_or(options.hidden_size / heads);
}

}  // namespace

LlamaAttention::LlamaAttention(std::int64_t layer, const LlamaOptions& options)
    : layer(layer),
      head_dim(head_size(options)),
      rope_theta(options.rope_theta),
      q_proj(options.hidden_size, options.num_attention_heads * head_dim,
             {.bias = options.attention_bias}),
      k_proj(options.hidden_size, key_heads(options) * head_dim, {.bias = options.attention_bias}),
      v_proj(options.hidden_size, key_heads(options) * head_dim, {.bias = options.attention_bias}),
      o_proj(options.num_attention_heads * head_dim, options.hidden_size,
             {.bias = options.attention_bias}) {}

Tensor LlamaAttention::run(const Tensor& x, KeyValueCache* cache) {
  const std::int64_t n = x.size(0), length = x.size(1);
  const auto heads = [&](Linear& projection) {  // (N, heads, L, E)
    return transpose(reshape(projection(x), {n, length, -1, head_dim}), 1, 2);
  };
  const RotaryOptions rotary = {.base = rope_theta,
                                .offset = cache == nullptr ? 0 : cache->length(layer)};
  const Tensor y =
      causal_attention(rotary_embedding(heads(q_proj), rotary),
                       rotary_embedding(heads(k_proj), rotary), heads(v_proj), cache, layer);
  return o_proj(reshape(transpose(y, 1, 2), {n, length, q_proj.out_features}));
}

void LlamaAttention::visit(Visitor& v) {
  v.child("q_proj", q_proj);
  v.child("k_proj", k_proj);
  v.child("v_proj", v_proj);
  v.child("o_proj", o_proj);
}

LlamaMlp::LlamaMlp(const LlamaOptions& options)
    : gate_proj(options.hidden_size, options.intermediate_size, {.bias = false}),
      up_proj(options.hidden_size, options.intermediate_size, {.bias = false}),
      down_proj(options.intermediate_size, options.hidden_size, {.bias = false}) {}

Tensor LlamaMlp::forward(const Tensor& x) { return down_proj(silu(gate_proj(x)) * up_proj(x)); }

void LlamaMlp::visit(Visitor& v) {
  v.child("gate_proj", gate_proj);
  v.child("up_proj", up_proj);
  v.child("down_proj", down_proj);
}

LlamaDecoderLayer::LlamaDecoderLayer(std::int64_t layer, const LlamaOptions& options)
    : self_attn(layer, options),
      mlp(options),
      input_layernorm(options.hidden_size, {.eps = options.rms_norm_eps}),
      post_attention_layernorm(options.hidden_size, {.eps = options.rms_norm_eps}) {}

Tensor LlamaDecoderLayer::run(const Tensor& x, KeyValueCache* cache) {
  const Tensor y = x + self_attn(input_layernorm(x), cache);
  return y + mlp(post_attention_layernorm(y));
}

void LlamaDecoderLayer::visit(Visitor& v) {
  v.child("self_attn", self_attn);
  v.child("mlp", mlp);
  v.child("input_layernorm", input_layernorm);
  v.child("post_attention_layernorm", post_attention_layernorm);
}

LlamaModel::LlamaModel(const LlamaOptions& options)
    : embed_tokens(options.vocab_size, options.hidden_size),
      norm(options.hidden_size, {.eps = options.rms_norm_eps}) {
  for (std::int64_t layer = 0; layer < options.num_hidden_layers; ++layer)
    layers.push_back(LlamaDecoderLayer(layer, options));
}

Tensor LlamaModel::run(const Tensor& tokens, KeyValueCache* cache) {
  require<ShapeError>(tokens.dim() == 2, "Llama: tokens ", tokens.shape(), " are not (N, L)");
  Tensor x = embed_tokens(tokens);
  for (AnyModule& layer : layers) x = layer.as<CausalModule>()(x, cache);
  return norm(x);
}

void LlamaModel::visit(Visitor& v) {
  v.child("embed_tokens", embed_tokens);
  v.child("layers", layers);
  v.child("norm", norm);
}

Llama::Llama(const LlamaOptions& options)
    : model(options), lm_head(options.hidden_size, options.vocab_size, {.bias = false}) {
  if (options.tie_word_embeddings) lm_head.weight = model.embed_tokens.weight;
  for (auto& [name, parameter] : named_parameters()) {
    if (parameter.dim() == 2) init::normal_(parameter, 0, options.initializer_range);
    if (name.ends_with(".bias")) init::zeros_(parameter);
  }
}

Tensor Llama::run(const Tensor& tokens, KeyValueCache* cache) {
  return lm_head(model(tokens, cache));
}

void Llama::visit(Visitor& v) {
  v.child("model", model);
  v.child("lm_head", lm_head);
}

}  // namespace rondo::nn
