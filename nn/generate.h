#pragma once
// generate: a causal language model continues texts, token by token. Read nn/kv_cache.h first.

#include <optional>

#include "nn/kv_cache.h"
#include "tensor/random.h"

namespace rondo::nn {

struct GenerateOptions {
  std::int64_t max_new_tokens = 20;
  double temperature = 1;                // divides the logits; 0: always the likeliest token
  std::int64_t top_k = 0;                // draw from the k likeliest tokens; 0: from all
  double top_p = 1;                      // and from as many of them as reach this probability
  std::optional<std::int64_t> eos = {};  // ends a text; fills it up if others are longer
  bool use_cache = true;                 // false: the model reads the whole text for each token
};

/// tokens i64 or i32 (N, L) to i64 (N, L + n): each text with its continuation of n tokens. n is
/// max_new_tokens, or less if all texts have ended. The model maps tokens (N, L) to logits (N, L,
/// V). It runs in eval mode, without gradients, and its modes are restored. Throws Error for
/// options out of their ranges. Agrees with Hugging Face's generate with these options; the draws
/// come from rondo's generator.
///
///   Tensor text = nn::generate(gpt2, tokens, {.max_new_tokens = 50, .top_k = 40});
Tensor generate(CausalModule& model, const Tensor& tokens, const GenerateOptions& options = {},
                Generator& generator = default_generator());

/// The logits (N, V) with -inf for the tokens that are not drawn. First, those below the k-th
/// largest logit of their row (top_k > 0). Then those that are not needed to reach the probability
/// top_p (< 1): the likelier tokens have it together already.
Tensor filter_logits(const Tensor& logits, std::int64_t top_k, double top_p);

}  // namespace rondo::nn
