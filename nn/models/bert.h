#pragma once
// Bert (Devlin et al. 2018), an encoder of text, with the names and initialisation of Hugging
// Face's BertModel, so that its state dicts load. Files of models with a head have the prefix
// "bert." and the head's keys: rename and leave them out by io::KeyRules.

#include "nn/containers.h"
#include "nn/dropout.h"
#include "nn/embedding.h"
#include "nn/linear.h"
#include "nn/norm.h"

namespace rondo::nn {

/// The names and defaults of BertConfig.
struct BertOptions {
  std::int64_t vocab_size = 30522, hidden_size = 768, num_hidden_layers = 12,
               num_attention_heads = 12, intermediate_size = 3072;
  double hidden_dropout_prob = 0.1, attention_probs_dropout_prob = 0.1;
  std::int64_t max_position_embeddings = 512, type_vocab_size = 2;
  double initializer_range = 0.02, layer_norm_eps = 1e-12;
};

/// The arguments of one call besides the tokens; each may be undefined.
struct BertCall {
  Tensor token_type_ids = {};  // i64 (N, L): which sentence a token belongs to; 0 for all
  Tensor attention_mask = {};  // (N, L): 0, or false, for padding, to which no token attends
  template <class V>
  void visit(V&& v) {
    v("token_type_ids", token_type_ids);
    v("attention_mask", attention_mask);
  }
};

struct BertOutput {
  Tensor last_hidden_state;  // (N, L, hidden_size)
  Tensor pooler_output;      // (N, hidden_size), of the first token
  template <class V>
  void visit(V&& v) {
    v("last_hidden_state", last_hidden_state);
    v("pooler_output", pooler_output);
  }
};

/// LayerNorm(word + position + token type).
struct BertEmbeddings : Module {
  Embedding word_embeddings, position_embeddings, token_type_embeddings;
  LayerNorm layer_norm;
  Dropout dropout;

  explicit BertEmbeddings(const BertOptions& options);
  Tensor forward(const Tensor& tokens) override { return run(tokens, {}); }
  using Module::operator();
  Tensor operator()(const Tensor& tokens, const Tensor& token_types);
  void visit(Visitor& v) override;

 private:
  Tensor run(const Tensor& tokens, const Tensor& token_types);
};

/// The heads' outputs (N, L, E) without the projection that joins them, which is in BertAttention.
struct BertSelfAttention : Module {
  std::int64_t num_heads;
  Linear query, key, value;
  Dropout dropout;

  explicit BertSelfAttention(const BertOptions& options);
  Tensor forward(const Tensor& x) override { return run(x, {}); }
  using Module::operator();
  /// mask: boolean (N, 1, 1, L), true for the keys that take part; or undefined.
  Tensor operator()(const Tensor& x, const Tensor& mask);
  /// The scores and averages of all heads, masked or not.
  std::int64_t multiply_adds(const Tensor& x, const Tensor& y) const override {
    return 2 * y.numel() * x.size(1);
  }
  void visit(Visitor& v) override;

 private:
  Tensor run(const Tensor& x, const Tensor& mask);
};

/// The end of both branches of a layer: LayerNorm(dropout(dense(x)) + residual).
struct BertBranchEnd : Module {
  Linear dense;
  LayerNorm layer_norm;
  Dropout dropout;

  BertBranchEnd(std::int64_t in_features, const BertOptions& options);
  Tensor forward(const Tensor&) override {
    throw Error("BertBranchEnd: has no forward, call it with a residual");
  }
  using Module::operator();
  Tensor operator()(const Tensor& x, const Tensor& residual);
  void visit(Visitor& v) override;
};

struct BertAttention : Module {
  BertSelfAttention self_attention;  // "self" in state dicts
  BertBranchEnd output;

  explicit BertAttention(const BertOptions& options);
  Tensor forward(const Tensor& x) override { return output(self_attention(x), x); }
  using Module::operator();
  Tensor operator()(const Tensor& x, const Tensor& mask);
  void visit(Visitor& v) override;
};

/// gelu(dense(x)).
struct BertIntermediate : Module {
  Linear dense;

  explicit BertIntermediate(const BertOptions& options);
  Tensor forward(const Tensor& x) override;
  void visit(Visitor& v) override { v.child("dense", dense); }
};

struct BertLayer : Module {
  BertAttention attention;
  BertIntermediate intermediate;
  BertBranchEnd output;

  explicit BertLayer(const BertOptions& options);
  Tensor forward(const Tensor& x) override { return run(x, {}); }
  using Module::operator();
  Tensor operator()(const Tensor& x, const Tensor& mask);
  void visit(Visitor& v) override;

 private:
  Tensor run(const Tensor& x, const Tensor& mask);
};

struct BertEncoder : Module {
  ModuleList layer;

  explicit BertEncoder(const BertOptions& options);
  Tensor forward(const Tensor& x) override { return run(x, {}); }
  using Module::operator();
  Tensor operator()(const Tensor& x, const Tensor& mask);
  void visit(Visitor& v) override { v.child("layer", layer); }

 private:
  Tensor run(const Tensor& x, const Tensor& mask);
};

/// tanh(dense(x)) of the first token.
struct BertPooler : Module {
  Linear dense;

  explicit BertPooler(const BertOptions& options);
  Tensor forward(const Tensor& x) override;
  void visit(Visitor& v) override { v.child("dense", dense); }
};

/// tokens i64 (N, L). Throws ShapeError for more tokens than max_position_embeddings, for a call
/// whose tensors are not (N, L), and unless num_attention_heads divides hidden_size.
///
///   auto [hidden, pooled] = bert(tokens, {.attention_mask = ne(tokens, 0)});
struct Bert : Module {
  BertEmbeddings embeddings;
  BertEncoder encoder;
  BertPooler pooler;

  explicit Bert(const BertOptions& options = {});
  /// last_hidden_state.
  Tensor forward(const Tensor& tokens) override { return run(tokens, {}).last_hidden_state; }
  using Module::operator();
  BertOutput operator()(const Tensor& tokens, const BertCall& call);
  void visit(Visitor& v) override;

 private:
  BertOutput run(const Tensor& tokens, const BertCall& call);
};

}  // namespace rondo::nn
