#include "autograd/ops/sampling.h"

#include <limits>

#include "autograd/grad_mode.h"
#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/reduced.h"
#include "autograd/ops/scatter.h"
#include "autograd/ops/search.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "tensor/creation.h"
#include "tensor/record_function.h"

namespace rondo {
namespace {

/// Uniform in (0, 1]: log is finite.
Tensor positive_uniform(const Dims& sizes, TensorOptions options, Generator& generator) {
  return 1 - rand(sizes, options, generator);
}

}  // namespace

Tensor bernoulli(const Tensor& p, Generator& generator) {
  const OpRange op("bernoulli");
  require_float(p, "bernoulli");
  const NoGradGuard no_grad;
  require(all(logical_and(ge(p, 0), le(p, 1))).item<bool>(),
          "bernoulli: a probability is outside of 0 … 1, or NaN");
  // 24 random bits, also for 16-bit floats: u < p.
  const DType wide = promote(p.dtype(), f32);
  const Tensor u = rand(p.shape(), {.dtype = wide, .device = p.device()}, generator);
  return to(lt(u, to(p, wide)), p.dtype());
}

Tensor multinomial(const Tensor& weights, std::int64_t n, bool replacement, Generator& generator) {
  const OpRange op("multinomial");
  require_float(weights, "multinomial");
  require<ShapeError>(weights.dim() == 1 || weights.dim() == 2,
                      "multinomial: expected weights (categories) or (rows, categories), got ",
                      weights.shape());
  require<ShapeError>(weights.size(-1) > 0,
                      "multinomial: the weights have no category; expected 1 or more");
  require(n > 0, "multinomial: ", n, " draws; expected 1 or more");
  const NoGradGuard no_grad;
  const std::int64_t categories = weights.size(-1);
  const Tensor wide = to(weights, f64);
  require(all(logical_and(ge(wide, 0), isfinite(wide))).item<bool>(),
          "multinomial: a weight is negative or not finite");
  const Tensor possible = sum(to(gt(wide, 0), i64), {-1});
  const std::int64_t needed = replacement ? 1 : n;
  require(weights.numel() == 0 || all(ge(possible, needed)).item<bool>(), "multinomial: ", n,
          replacement ? " draws" : " draws without replacement", " need ", needed,
          " categories of positive weight; a row has fewer");
  if (!replacement) {
    // Exponential clocks with these rates: the first n to ring are the draws, in their order.
    const Tensor time = -log(positive_uniform(wide.shape(), wide.options(), generator)) / wide;
    return topk(where(gt(wide, 0), time, std::numeric_limits<double>::infinity()), n, -1, false)
        .indices;
  }
  Dims sizes = weights.shape();
  sizes[sizes.size() - 1] = n;
  const Tensor ends = cumsum(wide, -1), total = narrow(ends, -1, categories - 1, 1);
  // A draw in [0, total) lies in the interval of one category; those of weight 0 are empty.
  const Tensor at = rand(sizes, wide.options(), generator) * total;
  const Tensor last =
      amax(where(gt(wide, 0), arange(categories, {.dtype = i64, .device = weights.device()}), 0),
           {-1}, true);
  return minimum(searchsorted(ends, at, {.right = true}), last);
}

Tensor gumbel_softmax(const Tensor& logits, const GumbelSoftmaxOptions& options,
                      Generator& generator) {
  const OpRange op("gumbel_softmax");
  require_float(logits, "gumbel_softmax");
  require(options.tau > 0, "gumbel_softmax: tau is ", options.tau, "; expected a positive number");
  // In f64, so that the draws do not depend on the dtype. -log of 1 is 0, whose logarithm is
  // infinite; the next value, -log(1 - 2^-53), is about 2^-53.
  const Tensor exponential =
      -log(positive_uniform(logits.shape(), {.dtype = f64, .device = logits.device()}, generator));
  const Tensor gumbel = -log(maximum(exponential, full_like(exponential, 0x1p-54)));
  const Tensor soft = softmax((logits + to(gumbel, logits.dtype())) / options.tau, options.dim);
  if (!options.hard) return soft;
  const Tensor largest = argmax(soft, options.dim, true);
  const Tensor hard = scatter(zeros_like(soft), options.dim, largest, 1);
  return hard - soft.detach() + soft;
}

}  // namespace rondo
