#pragma once
// Llama (Touvron et al. 2023), a decoder of text with rotary positions, grouped queries, RMSNorm
// and SwiGLU, with the names and initialisation of Hugging Face's LlamaForCausalLM, so that its
// state dicts load. rope_scaling (Llama 3.1 and later) is not available. nn/generate.h generates
// tokens.

#include <optional>

#include "nn/containers.h"
#include "nn/embedding.h"
#include "nn/kv_cache.h"
#include "nn/linear.h"
#include "nn/norm.h"

namespace rondo::nn {

/// The names and defaults of LlamaConfig.
struct LlamaOptions {
  std::int64_t vocab_size = 32000, hidden_size = 4096, intermediate_size = 11008;
  std::int64_t num_hidden_layers = 32, num_attention_heads = 32;
  std::optional<std::int64_t> num_key_value_heads = {};  // num_attention_heads if not given
  std::optional<std::int64_t> head_dim = {};  // hidden_size / num_attention_heads if not given
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000;
  bool tie_word_embeddings = false;  // lm_head.weight is the same tensor as embed_tokens.weight
  bool attention_bias = false;
  double initializer_range = 0.02;
};

struct LlamaAttention : CausalModule {
  std::int64_t layer, head_dim;
  double rope_theta;
  Linear q_proj, k_proj, v_proj, o_proj;

  LlamaAttention(std::int64_t layer, const LlamaOptions& options);
  /// The scores and averages of all heads, masked or not, without a cache.
  std::int64_t multiply_adds(const Tensor& x, const Tensor&) const override {
    return 2 * x.size(0) * x.size(1) * x.size(1) * q_proj.out_features;
  }
  void visit(Visitor& v) override;

 protected:
  Tensor run(const Tensor& x, KeyValueCache* cache) override;
};

/// down_proj(silu(gate_proj(x)) up_proj(x)): SwiGLU.
struct LlamaMlp : Module {
  Linear gate_proj, up_proj, down_proj;

  explicit LlamaMlp(const LlamaOptions& options);
  Tensor forward(const Tensor& x) override;
  void visit(Visitor& v) override;
};

struct LlamaDecoderLayer : CausalModule {
  LlamaAttention self_attn;
  LlamaMlp mlp;
  RMSNorm input_layernorm, post_attention_layernorm;

  LlamaDecoderLayer(std::int64_t layer, const LlamaOptions& options);
  void visit(Visitor& v) override;

 protected:
  Tensor run(const Tensor& x, KeyValueCache* cache) override;
};

/// tokens (N, L) to features (N, L, hidden_size).
struct LlamaModel : CausalModule {
  Embedding embed_tokens;
  ModuleList layers;
  RMSNorm norm;

  explicit LlamaModel(const LlamaOptions& options);
  void visit(Visitor& v) override;

 protected:
  Tensor run(const Tensor& tokens, KeyValueCache* cache) override;
};

/// tokens i64 (N, L) to logits (N, L, vocab_size) of the tokens that follow each of them. Throws
/// ShapeError unless the numbers of heads divide: num_key_value_heads those of the queries, and
/// these hidden_size if head_dim is not given.
struct Llama : CausalModule {
  LlamaModel model;
  Linear lm_head;

  explicit Llama(const LlamaOptions& options = {});
  void visit(Visitor& v) override;

 protected:
  Tensor run(const Tensor& tokens, KeyValueCache* cache) override;
};

}  // namespace rondo::nn
