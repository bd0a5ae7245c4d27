#include "nn/models/bert.h"

#include <gtest/gtest.h>

#include "autograd/engine.h"
#include "autograd/ops/arithmetic.h"
#include "support/errors.h"
#include "support/fill.h"
#include "support/language_case.h"
#include "support/sequence_case.h"
#include "support/support.h"
#include "support/test_device.h"

namespace rondo::test {
namespace {

constexpr nn::BertOptions tiny_bert = {.vocab_size = 40,
                                       .hidden_size = 16,
                                       .num_hidden_layers = 2,
                                       .num_attention_heads = 4,
                                       .intermediate_size = 24,
                                       .max_position_embeddings = 10};

TEST(Bert, AgreesWithHuggingFace) {
  nn::Bert model(tiny_bert);
  model.eval();
  const Tensor tokens = language_tokens().clone();
  tokens[1].narrow(0, 5, 2).fill_(0);
  const Tensor types = gt(arange(7), 2).to(i64).unsqueeze(0).expand({2, 7}).to(test_device());
  for (DType dtype : {f64, f32}) {
    fill_language_model(model, dtype);
    model.zero_grad();
    const double rounding = tolerance(dtype, 500);
    const auto [hidden, pooled] =
        model(tokens, {.token_type_ids = types, .attention_mask = ne(tokens, 0)});
    expect_language("bert.hidden", hidden, rounding);
    expect_language("bert.pooled", pooled, rounding);
    const auto weights = [&](const Tensor& y, std::uint32_t key) {
      return fill(y.shape(), key).to(dtype).to(test_device());
    };
    ((hidden * weights(hidden, 100)).sum() + (pooled * weights(pooled, 101)).sum()).backward();
    expect_language_gradients("bert", model, 20 * rounding);
    expect_language("bert.plain", model(language_tokens()), rounding);
  }
}

TEST(Bert, HasHuggingFacesKeys) {
  nn::BertOptions options = tiny_bert;
  options.num_hidden_layers = 1;
  nn::Bert model(options);
  EXPECT_EQ(parameter_names(model),
            (std::vector<std::string>{"embeddings.word_embeddings.weight[40, 16]",
                                      "embeddings.position_embeddings.weight[10, 16]",
                                      "embeddings.token_type_embeddings.weight[2, 16]",
                                      "embeddings.LayerNorm.weight[16]",
                                      "embeddings.LayerNorm.bias[16]",
                                      "encoder.layer.0.attention.self.query.weight[16, 16]",
                                      "encoder.layer.0.attention.self.query.bias[16]",
                                      "encoder.layer.0.attention.self.key.weight[16, 16]",
                                      "encoder.layer.0.attention.self.key.bias[16]",
                                      "encoder.layer.0.attention.self.value.weight[16, 16]",
                                      "encoder.layer.0.attention.self.value.bias[16]",
                                      "encoder.layer.0.attention.output.dense.weight[16, 16]",
                                      "encoder.layer.0.attention.output.dense.bias[16]",
                                      "encoder.layer.0.attention.output.LayerNorm.weight[16]",
                                      "encoder.layer.0.attention.output.LayerNorm.bias[16]",
                                      "encoder.layer.0.intermediate.dense.weight[24, 16]",
                                      "encoder.layer.0.intermediate.dense.bias[24]",
                                      "encoder.layer.0.output.dense.weight[16, 24]",
                                      "encoder.layer.0.output.dense.bias[16]",
                                      "encoder.layer.0.output.LayerNorm.weight[16]",
                                      "encoder.layer.0.output.LayerNorm.bias[16]",
                                      "pooler.dense.weight[16, 16]",
                                      "pooler.dense.bias[16]"}));
  EXPECT_TRUE(identical(model.embeddings.word_embeddings.weight.detach()[0], zeros({16})));
}

TEST(Bert, DoesNotReadPadding) {
  nn::Bert model(tiny_bert);
  model.eval();
  const NoGradGuard no_grad;
  const Tensor tokens = language_tokens().to(Device::cpu()), changed = tokens.clone();
  changed[0].narrow(0, 5, 2).fill_(3);
  const Tensor mask = ones({2, 7}, {.dtype = i64});
  mask[0].narrow(0, 5, 2).fill_(0);
  const auto hidden = [&](const Tensor& x, const nn::BertCall& call) {
    return model(x, call).last_hidden_state.narrow(1, 0, 5).clone();
  };
  EXPECT_TRUE(identical(hidden(tokens, {.attention_mask = mask}),
                        hidden(changed, {.attention_mask = mask})));
  EXPECT_FALSE(identical(hidden(tokens, {}), hidden(changed, {})));
}

TEST(Bert, DropsInTrainingAlone) {
  const Tensor tokens = language_tokens().to(Device::cpu());
  for (const bool of_attention : {false, true}) {
    nn::BertOptions options = tiny_bert;
    options.hidden_dropout_prob = of_attention ? 0 : 0.5;
    options.attention_probs_dropout_prob = of_attention ? 0.5 : 0;
    nn::Bert model(options);
    EXPECT_FALSE(identical(model(tokens).detach(), model(tokens).detach()));
    model.eval();
    EXPECT_TRUE(identical(model(tokens).detach(), model(tokens).detach()));
  }
}

TEST(BertErrors, NameWhatDoesNotFit) {
  nn::BertOptions options = tiny_bert;
  options.num_attention_heads = 3;
  EXPECT_ERROR(nn::Bert(options), ShapeError, "Bert: 3 heads do not divide hidden_size 16");
  nn::Bert model(tiny_bert);
  const auto tokens = [](const Dims& shape) { return ones(shape, {.dtype = i64}); };
  EXPECT_ERROR(model(tokens({7})), ShapeError, "Bert: tokens [7] are not (N, L)");
  EXPECT_ERROR(model(tokens({1, 11})), ShapeError,
               "Bert: 11 tokens, but max_position_embeddings is 10");
  EXPECT_ERROR(model(tokens({2, 7}), {.attention_mask = tokens({7})}), ShapeError,
               "Bert: attention_mask [7] for tokens [2, 7]");
  EXPECT_ERROR(model(tokens({2, 7}), {.token_type_ids = tokens({2, 6})}), ShapeError,
               "Bert: token_type_ids [2, 6] for tokens [2, 7]");
  EXPECT_ERROR(model.encoder.layer[0].as<nn::BertLayer>().output(zeros({2, 24})), Error,
               "BertBranchEnd: has no forward");
}

}  // namespace
}  // namespace rondo::test
