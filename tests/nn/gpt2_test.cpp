#include "nn/models/gpt2.h"

#include <gtest/gtest.h>

#include "nn/summary.h"
#include "support/errors.h"
#include "support/language_case.h"
#include "support/sequence_case.h"
#include "support/support.h"

namespace rondo::test {
namespace {

constexpr nn::GPT2Options tiny_gpt2 = {
    .vocab_size = 40, .n_positions = 16, .n_embd = 16, .n_layer = 2, .n_head = 2};

TEST(GPT2, AgreesWithHuggingFace) {
  nn::GPT2 model(tiny_gpt2);
  expect_language_model("gpt2", model);
}

TEST(GPT2, HasHuggingFacesKeys) {
  nn::GPT2 model(tiny_gpt2);
  const std::vector<std::string> names = parameter_names(model);
  ASSERT_EQ(names.size(), 28u);
  EXPECT_EQ(
      std::vector<std::string>(names.begin(), names.begin() + 14),
      (std::vector<std::string>{
          "transformer.wte.weight[40, 16]", "transformer.wpe.weight[16, 16]",
          "transformer.h.0.ln_1.weight[16]", "transformer.h.0.ln_1.bias[16]",
          "transformer.h.0.attn.c_attn.weight[16, 48]", "transformer.h.0.attn.c_attn.bias[48]",
          "transformer.h.0.attn.c_proj.weight[16, 16]", "transformer.h.0.attn.c_proj.bias[16]",
          "transformer.h.0.ln_2.weight[16]", "transformer.h.0.ln_2.bias[16]",
          "transformer.h.0.mlp.c_fc.weight[16, 64]", "transformer.h.0.mlp.c_fc.bias[64]",
          "transformer.h.0.mlp.c_proj.weight[64, 16]", "transformer.h.0.mlp.c_proj.bias[16]"}));
  EXPECT_EQ(names[27], "transformer.ln_f.bias[16]");
  EXPECT_EQ(model.state_dict().back().name, "lm_head.weight");
}

TEST(GPT2, LoadsFilesWithAndWithoutTheTiedWeight) {
  nn::GPT2 from(tiny_gpt2), to(tiny_gpt2);
  nn::StateDict state = from.state_dict();
  to.load_state_dict(state);
  EXPECT_TRUE(identical(to.lm_head.weight.detach(), from.transformer.wte.weight.detach()));
  state.pop_back();  // lm_head.weight, which files of safetensors lack
  state[0].tensor.fill_(0.5);
  to.load_state_dict(state);
  EXPECT_TRUE(identical(to.lm_head.weight.detach(), from.transformer.wte.weight.detach()));
  EXPECT_TRUE(to.lm_head.weight.is_same(to.transformer.wte.weight));
  state.erase(state.begin());
  EXPECT_ERROR(to.load_state_dict(state), Error,
               "missing keys: transformer.wte.weight, lm_head.weight");
}

TEST(GPT2, StartsAsInThePaper) {
  manual_seed(1);
  nn::GPT2 model({.vocab_size = 100, .n_positions = 100, .n_embd = 100, .n_layer = 8, .n_head = 4});
  for (const auto& [name, p] : model.named_parameters()) {
    if (p.dim() == 1) continue;
    const double expected = name.ends_with("c_proj.weight") ? 0.005 : 0.02;
    EXPECT_NEAR(p.detach().std().item(), expected, 0.05 * expected) << name;
  }
}

TEST(GPT2, DropsInTrainingAlone) {
  nn::GPT2Options options = tiny_gpt2;
  options.resid_pdrop = options.embd_pdrop = options.attn_pdrop = 0.5;
  nn::GPT2 model(options);
  const Tensor tokens = language_tokens().to(Device::cpu());
  EXPECT_FALSE(identical(model(tokens).detach(), model(tokens).detach()));
  model.eval();
  EXPECT_TRUE(identical(model(tokens).detach(), model(tokens).detach()));
  options = tiny_gpt2;
  options.resid_pdrop = options.embd_pdrop = 0;
  options.attn_pdrop = 0.5;
  nn::GPT2 other(options);
  EXPECT_FALSE(identical(other(tokens).detach(), other(tokens).detach()));
}

TEST(GPT2, IsSummarized) {
  nn::GPT2 model(tiny_gpt2);
  const std::int64_t tokens = 2 * 7;
  const std::int64_t each = 16 * 48 + 16 * 16 + 2 * 16 * 64 + 2 * 16 * 7;
  const nn::ModelSummary found = nn::summarize(model, language_tokens().to(Device::cpu()));
  EXPECT_EQ(found.multiply_adds, tokens * (2 * each + 16 * 40));
}

TEST(GPT2Errors, NameWhatDoesNotFit) {
  nn::GPT2Options options = tiny_gpt2;
  options.n_head = 3;
  EXPECT_ERROR(nn::GPT2(options), ShapeError, "GPT2: 3 heads do not divide n_embd 16");
  nn::GPT2 model(tiny_gpt2);
  EXPECT_ERROR(model(zeros({7}, {.dtype = i64})), ShapeError, "GPT2: tokens [7] are not (N, L)");
  EXPECT_ERROR(model(zeros({1, 17}, {.dtype = i64})), ShapeError,
               "GPT2: 17 tokens, but n_positions is 16");
  nn::KeyValueCache cache;
  const NoGradGuard no_grad;
  model(zeros({1, 16}, {.dtype = i64}), &cache);
  EXPECT_ERROR(model(zeros({1, 1}, {.dtype = i64}), &cache), ShapeError, "GPT2: 17 tokens");
}

}  // namespace
}  // namespace rondo::test
