// GPT2 (see gpt2.h).

#include "nn/models/gpt2.h"

#include <cmath>

#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/shape.h"
#include "nn/init.h"
#include "tensor/creation.h"

namespace rondo::nn {
namespace {

/// The standard deviation of weights in layers that add to the residual connection. The connection
/// is a sum of 2 n_layer such terms, whose size then does not depend on n_layer.
double residual_stddev(const GPT2Options& options) {
  return options.initializer_range / std::sqrt(2 * static_cast<double>(options.n_layer));
}

}  // namespace

GPT2Linear::GPT2Linear(std::int64_t in_features, std::int64_t out_features, double stddev)
    : weight(empty({in_features, out_features})), bias(zeros({out_features}).requires_grad_()) {
  init::normal_(weight, 0, stddev);
  weight.requires_grad_();
}

Tensor GPT2Linear::forward(const Tensor& x) { return linear(x, transpose(weight, 0, 1), bias); }

GPT2Attention::GPT2Attention(std::int64_t layer, const GPT2Options& options)
    : layer(layer),
      n_head(options.n_head),
      attn_pdrop(options.attn_pdrop),
      c_attn(options.n_embd, 3 * options.n_embd, options.initializer_range),
      c_proj(options.n_embd, options.n_embd, residual_stddev(options)),
      resid_dropout(options.resid_pdrop) {}

Tensor GPT2Attention::run(const Tensor& x, KeyValueCache* cache) {
  const std::int64_t n = x.size(0), length = x.size(1), width = x.size(2);
  Tensors parts = chunk(c_attn(x), 3, -1);
  for (Tensor& part : parts)  // as (N, heads, L, E)
    part = transpose(reshape(part, {n, length, n_head, width / n_head}), 1, 2);
  const Tensor y =
      causal_attention(parts[0], parts[1], parts[2], cache, layer, is_training() ? attn_pdrop : 0);
  return resid_dropout(c_proj(reshape(transpose(y, 1, 2), {n, length, width})));
}

void GPT2Attention::visit(Visitor& v) {
  v.child("c_attn", c_attn);
  v.child("c_proj", c_proj);
  v.child("resid_dropout", resid_dropout);
}

GPT2Mlp::GPT2Mlp(const GPT2Options& options)
    : c_fc(options.n_embd, 4 * options.n_embd, options.initializer_range),
      c_proj(4 * options.n_embd, options.n_embd, residual_stddev(options)),
      dropout(options.resid_pdrop) {}

Tensor GPT2Mlp::forward(const Tensor& x) {
  return dropout(c_proj(gelu(c_fc(x), GeluApproximation::tanh)));
}

void GPT2Mlp::visit(Visitor& v) {
  v.child("c_fc", c_fc);
  v.child("c_proj", c_proj);
  v.child("dropout", dropout);
}

GPT2Block::GPT2Block(std::int64_t layer, const GPT2Options& options)
    : ln_1(options.n_embd, {.eps = options.layer_norm_epsilon}),
      attn(layer, options),
      ln_2(options.n_embd, {.eps = options.layer_norm_epsilon}),
      mlp(options) {}

Tensor GPT2Block::run(const Tensor& x, KeyValueCache* cache) {
  const Tensor y = x + attn(ln_1(x), cache);
  return y + mlp(ln_2(y));
}

void GPT2Block::visit(Visitor& v) {
  v.child("ln_1", ln_1);
  v.child("attn", attn);
  v.child("ln_2", ln_2);
  v.child("mlp", mlp);
}

GPT2Model::GPT2Model(const GPT2Options& options)
    : wte(options.vocab_size, options.n_embd),
      wpe(options.n_positions, options.n_embd),
      drop(options.embd_pdrop),
      ln_f(options.n_embd, {.eps = options.layer_norm_epsilon}) {
  require<ShapeError>(options.n_head > 0 && options.n_embd % options.n_head == 0,
                      "GPT2: ", options.n_head, " heads do not divide n_embd ", options.n_embd);
  init::normal_(wte.weight, 0, options.initializer_range);
  init::normal_(wpe.weight, 0, options.initializer_range);
  for (std::int64_t layer = 0; layer < options.n_layer; ++layer)
    h.push_back(GPT2Block(layer, options));
}

Tensor GPT2Model::run(const Tensor& tokens, KeyValueCache* cache) {
  require<ShapeError>(tokens.dim() == 2, "GPT2: tokens ", tokens.shape(), " are not (N, L)");
  const std::int64_t before = cache == nullptr ? 0 : cache->length(), length = tokens.size(1);
  require<ShapeError>(before + length <= wpe.num_embeddings, "GPT2: ", before + length,
                      " tokens, but n_positions is ", wpe.num_embeddings);
  Tensor x = drop(wte(tokens) + wpe.weight.narrow(0, before, length));
  for (AnyModule& block : h) x = block.as<CausalModule>()(x, cache);
  return ln_f(x);
}

void GPT2Model::visit(Visitor& v) {
  v.child("wte", wte);
  v.child("wpe", wpe);
  v.child("drop", drop);
  v.child("h", h);
  v.child("ln_f", ln_f);
}

GPT2::GPT2(const GPT2Options& options)
    : transformer(options), lm_head(options.n_embd, options.vocab_size, {.bias = false}) {
  lm_head.weight = transformer.wte.weight;
}

Tensor GPT2::run(const Tensor& tokens, KeyValueCache* cache) {
  return lm_head(transformer(tokens, cache));
}

void GPT2::visit(Visitor& v) {
  v.child("transformer", transformer);
  v.child("lm_head", lm_head);
}

}  // namespace rondo::nn
