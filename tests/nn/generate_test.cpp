#include "nn/generate.h"

#include <gtest/gtest.h>

#include <limits>

#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/composed.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "nn/models/gpt2.h"
#include "support/errors.h"
#include "support/fill.h"
#include "support/language_case.h"
#include "support/support.h"

namespace rondo::test {
namespace {

/// The logits of the next token are row x of a table, where x is the last token.
struct Bigrams : nn::CausalModule {
  nn::Embedding table;
  explicit Bigrams(const Tensor& logits) : table(logits.size(0), logits.size(1)) {
    table.weight = logits;
  }
  void visit(nn::Visitor& v) override { v.child("table", table); }

 protected:
  Tensor run(const Tensor& tokens, nn::KeyValueCache*) override { return table(tokens); }
};

Tensor tokens_of(std::initializer_list<std::int64_t> first) {
  return tensor<std::int64_t>(first).unsqueeze(1);
}

constexpr double never = -std::numeric_limits<double>::infinity();

TEST(FilterLogits, KeepsTheSetsOfHuggingFace) {
  const Tensor logits = fill({4, 12}, 3, 3);
  const auto expect_kept = [](const std::string& name, const Tensor& x, std::int64_t k, double p) {
    const Tensor filtered = nn::filter_logits(x, k, p);
    const Tensor kept = language_golden()["kept." + name];
    EXPECT_TRUE(identical(gt(filtered, never), kept)) << name << ": " << filtered;
    EXPECT_TRUE(identical(filtered, where(kept, x, scalar(never, {.dtype = f64})))) << name;
  };
  expect_kept("top_k", logits, 3, 1);
  expect_kept("top_k_ties", rondo::round(logits), 4, 1);
  expect_kept("top_p", logits, 0, 0.7);
  expect_kept("top_p_small", logits, 0, 1e-3);
  expect_kept("both", logits, 5, 0.6);
  EXPECT_TRUE(identical(nn::filter_logits(logits, 0, 1), logits));
  EXPECT_TRUE(identical(nn::filter_logits(logits, 12, 1), logits));
  EXPECT_TRUE(identical(nn::filter_logits(logits, 100, 1), logits));
}

TEST(Generate, DrawsAsTheFilteredProbabilitiesSay) {
  const Tensor logits = tensor<float>({0, 1, 2, 3}).unsqueeze(0).expand({4, 4}).clone();
  Bigrams model(logits);
  const std::int64_t n = 4000;
  const auto frequencies = [&](const nn::GenerateOptions& options) {
    Generator generator(5);
    const Tensor text = nn::generate(model, zeros({n, 1}, {.dtype = i64}), options, generator);
    std::vector<double> counts(4);
    for (const std::int64_t token : text.select(1, 1).to_vector<std::int64_t>())
      counts[static_cast<std::size_t>(token)] += 1.0 / static_cast<double>(n);
    return counts;
  };
  const auto expect_frequencies = [&](const nn::GenerateOptions& options, const Tensor& kept) {
    const std::vector<float> expected = softmax(kept / options.temperature, 0).to_vector();
    const std::vector<double> found = frequencies(options);
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_NEAR(found[i], expected[i], 0.035) << i;  // more than four standard deviations
      EXPECT_EQ(found[i] == 0, expected[i] == 0) << i;
    }
  };
  const auto minus = static_cast<float>(never);
  expect_frequencies({.max_new_tokens = 1}, logits[0]);
  expect_frequencies({.max_new_tokens = 1, .temperature = 2}, logits[0]);
  expect_frequencies({.max_new_tokens = 1, .top_k = 2}, tensor<float>({minus, minus, 2, 3}));
  expect_frequencies({.max_new_tokens = 1, .top_p = 0.9}, tensor<float>({minus, 1, 2, 3}));
}

TEST(Generate, WritesTheSameWithAndWithoutTheCache) {
  nn::GPT2 model({.vocab_size = 40, .n_positions = 16, .n_embd = 16, .n_layer = 2, .n_head = 2});
  fill_language_model(model, f64);
  model.to(Device::cpu());
  const auto text = [&](std::uint64_t seed, bool use_cache) {
    Generator generator(seed);
    return nn::generate(model, language_tokens().to(Device::cpu()),
                        {.max_new_tokens = 9,
                         .temperature = 1.5,
                         .top_k = 20,
                         .top_p = 0.95,
                         .use_cache = use_cache},
                        generator);
  };
  EXPECT_EQ(text(1, true).shape(), (Dims{2, 16}));
  EXPECT_TRUE(identical(text(1, true), text(1, false)));
  EXPECT_TRUE(identical(text(1, true), text(1, true)));
  EXPECT_FALSE(identical(text(1, true), text(2, true)));
  EXPECT_TRUE(model.is_training());
}

TEST(Generate, EndsTextsAtEos) {
  // The likeliest token after i is i + 1.
  Bigrams model(roll(eye(6), {1}, {1}).contiguous());
  const nn::GenerateOptions greedy = {.max_new_tokens = 5, .temperature = 0, .eos = 4};
  EXPECT_TRUE(identical(
      nn::generate(model, tokens_of({3, 1}), greedy),
      tensor<std::int64_t>({3, 4, 4, 4, 1, 2, 3, 4}, {2, 4})));  // ends with the last text
  EXPECT_TRUE(identical(nn::generate(model, tokens_of({4}), greedy),
                        tensor<std::int64_t>({4, 5, 0, 1, 2, 3}, {1, 6})));
  EXPECT_TRUE(
      identical(nn::generate(model, tokens_of({2}), {.max_new_tokens = 0}), tokens_of({2})));
}

TEST(Generate, RunsInEvalModeWithoutGradients) {
  struct Observed : Bigrams {
    using Bigrams::Bigrams;
    bool was_training = false, had_gradients = false;

   protected:
    Tensor run(const Tensor& tokens, nn::KeyValueCache* cache) override {
      const Tensor y = Bigrams::run(tokens, cache);
      was_training |= is_training();
      had_gradients |= y.requires_grad();
      return y;
    }
  } model(zeros({3, 3}).requires_grad_());
  nn::generate(model, tokens_of({0}));
  EXPECT_FALSE(model.was_training);
  EXPECT_FALSE(model.had_gradients);
  EXPECT_TRUE(model.is_training());
}

TEST(Generate, TakesTokensOf32Bits) {
  Bigrams model(eye(3));
  const Tensor tokens = tokens_of({1});
  EXPECT_TRUE(test::identical(nn::generate(model, tokens.to(i32), {.temperature = 0}),
                              nn::generate(model, tokens, {.temperature = 0})));
}

TEST(GenerateErrors, NameOptions) {
  Bigrams model(zeros({3, 3}));
  const Tensor tokens = tokens_of({0});
  const auto run = [&](const nn::GenerateOptions& options) {
    return nn::generate(model, tokens, options);
  };
  EXPECT_ERROR(run({.max_new_tokens = -1}), Error, "generate: max_new_tokens -1 is negative");
  EXPECT_ERROR(run({.temperature = -0.5}), Error, "the temperature -0.5 is negative");
  EXPECT_ERROR(run({.top_k = -2}), Error, "generate: top_k -2 is negative");
  EXPECT_ERROR(run({.top_p = 0}), Error, "generate: top_p 0 is not in (0, 1]");
  EXPECT_THROW(run({.temperature = 0, .top_p = 1.5}), Error);
  EXPECT_ERROR(nn::generate(model, zeros({3}, {.dtype = i64})), ShapeError,
               "tokens [3] are not (N, L)");
  EXPECT_THROW(nn::generate(model, zeros({3, 0}, {.dtype = i64})), ShapeError);
  EXPECT_ERROR(nn::generate(model, zeros({3, 1})), DTypeError, "tokens are of f32, not i64");
  EXPECT_ERROR(nn::filter_logits(zeros({3}), 1, 1), ShapeError, "logits [3] are not (N, V)");
  EXPECT_ERROR(nn::filter_logits(zeros({1, 3}), -1, 1), Error, "filter_logits: top_k -1");
}

}  // namespace
}  // namespace rondo::test
