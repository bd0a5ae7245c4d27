#pragma once
// Random draws whose probabilities are tensors. They use the generator's next numbers, so
// manual_seed repeats them; the numbers differ from PyTorch's.

#include "tensor/random.h"
#include "tensor/tensor.h"

namespace rondo {

/// 1 with probability p, else 0, for each element of p, in its dtype; no gradient. Throws Error for
/// a p outside 0 … 1. Waits for the device.
Tensor bernoulli(const Tensor& p, Generator& generator = default_generator());

/// n indices (i64) for each row of weights (categories) or (rows, categories), each drawn with the
/// probability weight / Σ weights. Without replacement, an index is drawn at most once. Throws
/// Error for weights that are negative, not finite, or 0 for too many categories. Waits for the
/// device.
Tensor multinomial(const Tensor& weights, std::int64_t n, bool replacement = false,
                   Generator& generator = default_generator());

struct GumbelSoftmaxOptions {
  double tau = 1;
  bool hard = false;  // one-hot vectors with the gradient of the soft ones
  std::int64_t dim = -1;
};
/// softmax((logits + g) / tau) with g from the Gumbel distribution: a differentiable draw.
Tensor gumbel_softmax(const Tensor& logits, const GumbelSoftmaxOptions& options = {},
                      Generator& generator = default_generator());

}  // namespace rondo
