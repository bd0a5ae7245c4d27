#pragma once
// GPT2 (Radford et al. 2019), a decoder of text, with the names, layouts and initialisation of
// Hugging Face's GPT2LMHeadModel, so that its state dicts load:
//
//   nn::GPT2 gpt2;
//   gpt2.load_state_dict(io::load_weights("model.safetensors"));
//
// The file of the model "gpt2" itself lacks the prefix "transformer." and has masks
// ("h.0.attn.bias"): rename and leave them out by io::KeyRules. nn/generate.h generates tokens.

#include "nn/containers.h"
#include "nn/dropout.h"
#include "nn/embedding.h"
#include "nn/kv_cache.h"
#include "nn/linear.h"
#include "nn/norm.h"

namespace rondo::nn {

/// The names and defaults of GPT2Config.
struct GPT2Options {
  std::int64_t vocab_size = 50257, n_positions = 1024, n_embd = 768, n_layer = 12, n_head = 12;
  double resid_pdrop = 0.1, embd_pdrop = 0.1, attn_pdrop = 0.1;
  double layer_norm_epsilon = 1e-5;
  double initializer_range = 0.02;
};

/// y = x W + b: a Linear whose weight is (in, out), as in Hugging Face's Conv1D.
struct GPT2Linear : Module {
  Tensor weight, bias;

  GPT2Linear(std::int64_t in_features, std::int64_t out_features, double stddev);
  Tensor forward(const Tensor& x) override;
  std::int64_t multiply_adds(const Tensor&, const Tensor& y) const override {
    return y.numel() * weight.size(0);
  }
  void visit(Visitor& v) override {
    v.parameter("weight", weight);
    v.parameter("bias", bias);
  }
};

struct GPT2Attention : CausalModule {
  std::int64_t layer, n_head;
  double attn_pdrop;
  GPT2Linear c_attn, c_proj;
  Dropout resid_dropout;

  GPT2Attention(std::int64_t layer, const GPT2Options& options);
  /// The scores and averages of all heads, masked or not, without a cache.
  std::int64_t multiply_adds(const Tensor& x, const Tensor& y) const override {
    return 2 * y.numel() * x.size(1);
  }
  void visit(Visitor& v) override;

 protected:
  Tensor run(const Tensor& x, KeyValueCache* cache) override;
};

struct GPT2Mlp : Module {
  GPT2Linear c_fc, c_proj;
  Dropout dropout;

  explicit GPT2Mlp(const GPT2Options& options);
  Tensor forward(const Tensor& x) override;
  void visit(Visitor& v) override;
};

/// x = x + attn(ln_1(x)); x = x + mlp(ln_2(x)).
struct GPT2Block : CausalModule {
  LayerNorm ln_1;
  GPT2Attention attn;
  LayerNorm ln_2;
  GPT2Mlp mlp;

  GPT2Block(std::int64_t layer, const GPT2Options& options);
  void visit(Visitor& v) override;

 protected:
  Tensor run(const Tensor& x, KeyValueCache* cache) override;
};

/// tokens (N, L) to features (N, L, n_embd).
struct GPT2Model : CausalModule {
  Embedding wte, wpe;
  Dropout drop;
  ModuleList h;
  LayerNorm ln_f;

  explicit GPT2Model(const GPT2Options& options);
  void visit(Visitor& v) override;

 protected:
  Tensor run(const Tensor& tokens, KeyValueCache* cache) override;
};

/// tokens i64 (N, L) to logits (N, L, vocab_size) of the tokens that follow each of them.
/// lm_head.weight is the same tensor as transformer.wte.weight. Throws ShapeError for more tokens
/// than n_positions, with those of the cache, and unless n_head divides n_embd.
struct GPT2 : CausalModule {
  GPT2Model transformer;
  Linear lm_head;

  explicit GPT2(const GPT2Options& options = {});
  void visit(Visitor& v) override;

 protected:
  Tensor run(const Tensor& tokens, KeyValueCache* cache) override;
};

}  // namespace rondo::nn
