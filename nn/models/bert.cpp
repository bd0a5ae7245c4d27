// Bert (see bert.h).

#include "nn/models/bert.h"

#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/attention.h"
#include "autograd/ops/shape.h"
#include "nn/init.h"
#include "tensor/creation.h"

namespace rondo::nn {

BertEmbeddings::BertEmbeddings(const BertOptions& options)
    : word_embeddings(options.vocab_size, options.hidden_size, {.padding_idx = 0}),
      position_embeddings(options.max_position_embeddings, options.hidden_size),
      token_type_embeddings(options.type_vocab_size, options.hidden_size),
      layer_norm(options.hidden_size, {.eps = options.layer_norm_eps}),
      dropout(options.hidden_dropout_prob) {}

Tensor BertEmbeddings::run(const Tensor& tokens, const Tensor& token_types) {
  const std::int64_t length = tokens.size(1), most = position_embeddings.num_embeddings;
  require<ShapeError>(length <= most, "Bert: ", length, " tokens, but max_position_embeddings is ",
                      most);
  const Tensor type = token_types.defined() ? token_type_embeddings(token_types)
                                            : token_type_embeddings.weight.narrow(0, 0, 1);
  const Tensor position = position_embeddings.weight.narrow(0, 0, length);
  return dropout(layer_norm(word_embeddings(tokens) + type + position));
}

Tensor BertEmbeddings::operator()(const Tensor& tokens, const Tensor& token_types) {
  return call([&](const Tensor& t, const Tensor& types) { return run(t, types); }, tokens,
              token_types);
}

void BertEmbeddings::visit(Visitor& v) {
  v.child("word_embeddings", word_embeddings);
  v.child("position_embeddings", position_embeddings);
  v.child("token_type_embeddings", token_type_embeddings);
  v.child("LayerNorm", layer_norm);
  v.child("dropout", dropout);
}

BertSelfAttention::BertSelfAttention(const BertOptions& options)
    : num_heads(options.num_attention_heads),
      query(options.hidden_size, options.hidden_size),
      key(options.hidden_size, options.hidden_size),
      value(options.hidden_size, options.hidden_size),
      dropout(options.attention_probs_dropout_prob) {
  require<ShapeError>(num_heads > 0 && options.hidden_size % num_heads == 0, "Bert: ", num_heads,
                      " heads do not divide hidden_size ", options.hidden_size);
}

Tensor BertSelfAttention::run(const Tensor& x, const Tensor& mask) {
  const std::int64_t n = x.size(0), length = x.size(1), width = x.size(2);
  const auto heads = [&](Linear& projection) {  // (N, heads, L, E)
    return transpose(reshape(projection(x), {n, length, num_heads, width / num_heads}), 1, 2);
  };
  const Tensor y = scaled_dot_product_attention(
      heads(query), heads(key), heads(value),
      {.attn_mask = mask, .dropout_p = dropout.is_training() ? dropout.p : 0});
  return reshape(transpose(y, 1, 2), {n, length, width});
}

Tensor BertSelfAttention::operator()(const Tensor& x, const Tensor& mask) {
  return call([&](const Tensor& in, const Tensor& m) { return run(in, m); }, x, mask);
}

void BertSelfAttention::visit(Visitor& v) {
  v.child("query", query);
  v.child("key", key);
  v.child("value", value);
  v.child("dropout", dropout);
}

BertBranchEnd::BertBranchEnd(std::int64_t in_features, const BertOptions& options)
    : dense(in_features, options.hidden_size),
      layer_norm(options.hidden_size, {.eps = options.layer_norm_eps}),
      dropout(options.hidden_dropout_prob) {}

Tensor BertBranchEnd::operator()(const Tensor& x, const Tensor& residual) {
  return call(
      [&](const Tensor& in, const Tensor& added) { return layer_norm(dropout(dense(in)) + added); },
      x, residual);
}

void BertBranchEnd::visit(Visitor& v) {
  v.child("dense", dense);
  v.child("LayerNorm", layer_norm);
  v.child("dropout", dropout);
}

BertAttention::BertAttention(const BertOptions& options)
    : self_attention(options), output(options.hidden_size, options) {}

Tensor BertAttention::operator()(const Tensor& x, const Tensor& mask) {
  return call([&](const Tensor& in, const Tensor& m) { return output(self_attention(in, m), in); },
              x, mask);
}

void BertAttention::visit(Visitor& v) {
  v.child("self", self_attention);
  v.child("output", output);
}

BertIntermediate::BertIntermediate(const BertOptions& options)
    : dense(options.hidden_size, options.intermediate_size) {}

Tensor BertIntermediate::forward(const Tensor& x) { return gelu(dense(x)); }

BertLayer::BertLayer(const BertOptions& options)
    : attention(options), intermediate(options), output(options.intermediate_size, options) {}

Tensor BertLayer::run(const Tensor& x, const Tensor& mask) {
  const Tensor y = attention(x, mask);
  return output(intermediate(y), y);
}

Tensor BertLayer::operator()(const Tensor& x, const Tensor& mask) {
  return call([&](const Tensor& in, const Tensor& m) { return run(in, m); }, x, mask);
}

void BertLayer::visit(Visitor& v) {
  v.child("attention", attention);
  v.child("intermediate", intermediate);
  v.child("output", output);
}

BertEncoder::BertEncoder(const BertOptions& options) {
  for (std::int64_t i = 0; i < options.num_hidden_layers; ++i) layer.push_back(BertLayer(options));
}

Tensor BertEncoder::run(const Tensor& x, const Tensor& mask) {
  Tensor y = x;
  for (AnyModule& each : layer) y = each.as<BertLayer>()(y, mask);
  return y;
}

Tensor BertEncoder::operator()(const Tensor& x, const Tensor& mask) {
  return call([&](const Tensor& in, const Tensor& m) { return run(in, m); }, x, mask);
}

BertPooler::BertPooler(const BertOptions& options)
    : dense(options.hidden_size, options.hidden_size) {}

Tensor BertPooler::forward(const Tensor& x) { return tanh(dense(x.select(1, 0))); }

Bert::Bert(const BertOptions& options) : embeddings(options), encoder(options), pooler(options) {
  for (auto& [name, parameter] : named_parameters()) {
    if (parameter.dim() == 2) init::normal_(parameter, 0, options.initializer_range);
    if (name.ends_with(".bias")) init::zeros_(parameter);
  }
  const NoGradGuard no_grad;
  embeddings.word_embeddings.weight.select(0, 0).zero_();  // of the padding
}

BertOutput Bert::run(const Tensor& tokens, const BertCall& call) {
  require<ShapeError>(tokens.dim() == 2 && tokens.size(1) > 0, "Bert: tokens ", tokens.shape(),
                      " are not (N, L), with at least one token");
  for (const auto& [name, x] : {std::pair("token_type_ids", &call.token_type_ids),
                                std::pair("attention_mask", &call.attention_mask)})
    require<ShapeError>(!x->defined() || x->shape() == tokens.shape(), "Bert: ", name, " ",
                        x->defined() ? x->shape() : Dims(), " for tokens ", tokens.shape());
  Tensor mask;
  if (call.attention_mask.defined()) mask = unsqueeze(unsqueeze(ne(call.attention_mask, 0), 1), 1);
  const Tensor hidden = encoder(embeddings(tokens, call.token_type_ids), mask);
  return {hidden, pooler(hidden)};
}

BertOutput Bert::operator()(const Tensor& tokens, const BertCall& call) {
  return Module::call([&](const Tensor& t, const BertCall& c) { return run(t, c); }, tokens, call);
}

void Bert::visit(Visitor& v) {
  v.child("embeddings", embeddings);
  v.child("encoder", encoder);
  v.child("pooler", pooler);
}

}  // namespace rondo::nn
