#include "nn/models/llama.h"

#include <gtest/gtest.h>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/unary.h"
#include "support/errors.h"
#include "support/fill.h"
#include "support/language_case.h"
#include "support/sequence_case.h"
#include "support/support.h"

namespace rondo::test {
namespace {

nn::LlamaOptions tiny_llama() {
  return {.vocab_size = 40,
          .hidden_size = 16,
          .intermediate_size = 24,
          .num_hidden_layers = 2,
          .num_attention_heads = 4,
          .num_key_value_heads = 2};
}

TEST(Llama, AgreesWithHuggingFace) {
  nn::Llama grouped(tiny_llama());
  expect_language_model("llama", grouped);
  nn::Llama tied({.vocab_size = 40,
                  .hidden_size = 16,
                  .intermediate_size = 24,
                  .num_hidden_layers = 2,
                  .num_attention_heads = 2,
                  .head_dim = 6,
                  .rope_theta = 500,
                  .tie_word_embeddings = true});
  expect_language_model("llama_tied", tied);
}

TEST(Llama, HasHuggingFacesKeys) {
  nn::LlamaOptions options = tiny_llama();
  options.num_hidden_layers = 1;
  nn::Llama model(options);
  EXPECT_EQ(parameter_names(model),
            (std::vector<std::string>{"model.embed_tokens.weight[40, 16]",
                                      "model.layers.0.self_attn.q_proj.weight[16, 16]",
                                      "model.layers.0.self_attn.k_proj.weight[8, 16]",
                                      "model.layers.0.self_attn.v_proj.weight[8, 16]",
                                      "model.layers.0.self_attn.o_proj.weight[16, 16]",
                                      "model.layers.0.mlp.gate_proj.weight[24, 16]",
                                      "model.layers.0.mlp.up_proj.weight[24, 16]",
                                      "model.layers.0.mlp.down_proj.weight[16, 24]",
                                      "model.layers.0.input_layernorm.weight[16]",
                                      "model.layers.0.post_attention_layernorm.weight[16]",
                                      "model.norm.weight[16]", "lm_head.weight[40, 16]"}));
  options.attention_bias = true;
  options.tie_word_embeddings = true;
  nn::Llama other(options);
  EXPECT_EQ(other.parameters().size(), 15u);
  EXPECT_EQ(other.state_dict()[4].name, "model.layers.0.self_attn.k_proj.bias");
  EXPECT_TRUE(identical(other.model.layers[0].as<nn::LlamaDecoderLayer>().self_attn.k_proj.bias,
                        zeros({8})));
}

TEST(Llama, ReadsTheSameWithACacheInAnyPieces) {
  nn::Llama model(tiny_llama());
  fill_language_model(model, f64);
  model.to(Device::cpu());
  const NoGradGuard no_grad;
  const Tensor tokens = language_tokens().to(Device::cpu()), whole = model(tokens);
  for (const std::vector<std::int64_t>& pieces :
       {std::vector<std::int64_t>{7}, {1, 1, 1, 1, 1, 1, 1}, {3, 4}, {1, 5, 1}}) {
    nn::KeyValueCache cache;
    std::int64_t at = 0;
    for (const std::int64_t length : pieces) {
      EXPECT_EQ(cache.length(), at);
      const Tensor part = model(tokens.narrow(1, at, length), &cache);
      EXPECT_TRUE(all_close(part, whole.narrow(1, at, length), tolerance(f64, 500)));
      at += length;
    }
  }
}

TEST(Llama, NormalizesIn32Bits) {
  nn::RMSNorm norm(8, {.eps = 1e-6});
  norm.to(f16);
  const Tensor x = (fill({3, 8}, 1) * 3e4).to(f16);  // the squares overflow in f16
  const NoGradGuard no_grad;
  const Tensor wide = x.to(f32), expected = wide / sqrt(mean(square(wide), {1}, true));
  EXPECT_TRUE(all_close(norm(x).to(f32), expected, tolerance(f16, 1, 2)));
}

TEST(LlamaErrors, NameWhatDoesNotFit) {
  nn::LlamaOptions options = tiny_llama();
  options.num_key_value_heads = 3;
  EXPECT_ERROR(nn::Llama(options), ShapeError,
               "Llama: 3 heads of keys do not divide 4 heads of queries");
  options = tiny_llama();
  options.hidden_size = 18;
  EXPECT_ERROR(nn::Llama(options), ShapeError, "Llama: 4 heads do not divide hidden_size 18");
  nn::Llama model(tiny_llama());
  EXPECT_ERROR(model(zeros({7}, {.dtype = i64})), ShapeError, "Llama: tokens [7] are not (N, L)");
}

}  // namespace
}  // namespace rondo::test
