// generate, filter_logits (see generate.h).

#include "nn/generate.h"

#include <limits>

#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/sampling.h"
#include "autograd/ops/scatter.h"
#include "autograd/ops/shape.h"
#include "nn/eval_mode.h"
#include "tensor/creation.h"

namespace rondo::nn {
namespace {

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

void check_filter(const char* name, std::int64_t top_k, double top_p) {
  require(top_k >= 0, name, ": top_k ", top_k, " is negative");
  require(top_p > 0 && top_p <= 1, name, ": top_p ", top_p, " is not in (0, 1]");
}

/// The next token of each text, (N, 1), from logits (N, V).
Tensor chosen_tokens(const Tensor& logits, const GenerateOptions& options, Generator& generator) {
  if (options.temperature == 0) return argmax(logits, -1, true);
  const Tensor wide = size_of(logits.dtype()) == 2 ? logits.to(f32) : logits;
  const Tensor kept = filter_logits(wide / options.temperature, options.top_k, options.top_p);
  return multinomial(softmax(kept, -1), 1, false, generator);
}

}  // namespace

Tensor filter_logits(const Tensor& logits, std::int64_t top_k, double top_p) {
  require<ShapeError>(logits.dim() == 2, "filter_logits: logits ", logits.shape(),
                      " are not (N, V)");
  check_filter("filter_logits", top_k, top_p);
  Tensor kept = logits;
  if (top_k > 0 && top_k < logits.size(1)) {
    const Tensor least = topk(logits, top_k).values.narrow(1, top_k - 1, 1);
    kept = masked_fill(kept, lt(logits, least), minus_infinity);
  }
  if (top_p < 1) {
    const auto [sorted, order] = sort(kept, -1, true);
    const Tensor p = softmax(sorted, -1);
    const Tensor excluded = ge(cumsum(p, -1) - p, top_p);
    kept = masked_fill(kept, scatter(zeros_like(excluded), 1, order, excluded), minus_infinity);
  }
  return kept;
}

Tensor generate(CausalModule& model, const Tensor& tokens, const GenerateOptions& options,
                Generator& generator) {
  require<ShapeError>(tokens.dim() == 2 && tokens.numel() > 0, "generate: tokens ", tokens.shape(),
                      " are not (N, L), with at least one token each");
  require<DTypeError>(tokens.dtype() == i64 || tokens.dtype() == i32, "generate: tokens are of ",
                      tokens.dtype(), ", not i64 or i32");
  require(options.max_new_tokens >= 0, "generate: max_new_tokens ", options.max_new_tokens,
          " is negative");
  require(options.temperature >= 0, "generate: the temperature ", options.temperature,
          " is negative");
  check_filter("generate", options.top_k, options.top_p);
  const NoGradGuard no_grad;
  const EvalMode eval_mode(model);
  KeyValueCache cache;
  Tensor text = tokens.to(i64), next = text;
  Tensor ended = zeros({tokens.size(0), 1}, {.dtype = boolean, .device = tokens.device()});
  for (std::int64_t i = 0; i < options.max_new_tokens; ++i) {
    const Tensor logits = options.use_cache ? model(next, &cache) : model(text);
    require<ShapeError>(logits.dim() == 3, "generate: the model's logits ", logits.shape(),
                        " are not (N, L, V)");
    next = chosen_tokens(logits.select(1, logits.size(1) - 1), options, generator);
    if (options.eos) {
      next = masked_fill(next, ended, *options.eos);
      ended = logical_or(ended, eq(next, *options.eos));
    }
    text = cat({text, next}, 1);
    if (options.eos && all(ended).item<bool>()) break;
  }
  return text;
}

}  // namespace rondo::nn
