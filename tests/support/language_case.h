#pragma once
// Compares a causal language model with Hugging Face's: the cases that
// tests/golden/make_language.py wrote to language.txt.

#include <string>

#include "nn/kv_cache.h"
#include "support/golden.h"

namespace rondo::test {

/// tests/golden/language.txt.
const Golden& language_golden();

/// The tokens (2, 7) of the script.
Tensor language_tokens();

/// Fills the model's parameters as the script does, in `dtype`.
void fill_language_model(nn::Module& model, DType dtype);

/// Compares x with the golden NAME, relative to its largest element if that is above 1.
void expect_language(const std::string& name, const Tensor& x, double tolerance);

/// Compares the gradients of all parameters with NAME.d.KEY.
void expect_language_gradients(const std::string& name, nn::Module& model, double tolerance);

/// Fills the model. Compares its logits with NAME.logits, the gradients with NAME.d.KEY, and twelve
/// tokens that it generates greedily with NAME.greedy, in f64 and f32. Fails if the keys differ.
void expect_language_model(const std::string& name, nn::CausalModule& model);

}  // namespace rondo::test
