// BatchNorm1d, BatchNorm2d, BatchNorm3d (see batch_norm.h).

#include "nn/batch_norm.h"

#include <typeinfo>

#include "autograd/checkpoint.h"
#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/norm.h"
#include "tensor/backend.h"
#include "tensor/creation.h"

namespace rondo::nn {

BatchNorm::BatchNorm(std::int64_t num_features, const BatchNormOptions& options)
    : num_features(num_features), options(options) {
  require<ShapeError>(num_features > 0, "BatchNorm: ", num_features,
                      " features, but there must be at least 1");
  if (options.affine) {
    weight = ones({num_features}).requires_grad_();
    bias = zeros({num_features}).requires_grad_();
  }
  if (options.track_running_stats) {
    running_mean = zeros({num_features});
    running_var = ones({num_features});
    num_batches_tracked = zeros({}, {.dtype = i64});
  }
}

Tensor BatchNorm::operator()(const Tensor& x, const Fusion& fusion) {
  if (auto* folded = dynamic_cast<FoldedBatchNorm*>(&self())) return folded->run(x, fusion);
  // A substitute or a derived class computes with its own forward.
  if (substitute() != nullptr ||
      (typeid(*this) != typeid(BatchNorm1d) && typeid(*this) != typeid(BatchNorm2d) &&
       typeid(*this) != typeid(BatchNorm3d)))
    return FoldedBatchNorm().run(Module::operator()(x), fusion);
  return call(
      [&](const Tensor& in, const Tensor& residual) {
        return run(in, {.residual = residual, .relu = fusion.relu});
      },
      x, fusion.residual);
}

Tensor BatchNorm::run(const Tensor& x, const Fusion& fusion) {
  check(x);
  double momentum = options.momentum.value_or(0);
  const bool counted = is_training() && is_recomputing();  // the first run of a checkpoint has
                                                           // updated the statistics
  if (is_training() && !counted && num_batches_tracked.defined()) {
    backend(x).unary(UnaryOp::add_scalar, num_batches_tracked, num_batches_tracked, {.alpha = 1});
    num_batches_tracked.bump_version();
    if (!options.momentum) momentum = 1.0 / num_batches_tracked.item<double>();
  }
  return batch_norm(x, weight, bias, counted ? Tensor() : running_mean,
                    counted ? Tensor() : running_var,
                    {.training = is_training() || !running_mean.defined(),
                     .momentum = momentum,
                     .eps = options.eps,
                     .residual = fusion.residual,
                     .relu = fusion.relu,
                     .sum_over_ranks = is_training() ? sum_over_ranks : nullptr});
}

Tensor FoldedBatchNorm::run(const Tensor& x, const Fusion& fusion) {
  if (!does_relu) {
    require(fusion.relu && !fusion.residual.defined(),
            "FoldedBatchNorm: the convolution before it applies the relu, because all calls before "
            "convert had only a relu; this call has none, or has a residual");
    return x;
  }
  if (counts) ++(fusion.relu && !fusion.residual.defined() ? relus : others);
  if (!fusion.residual.defined()) return fusion.relu ? relu(x) : x;
  const Tensor sum = x + fusion.residual;
  if (!fusion.relu) return sum;
  if (GradMode::is_enabled()) return relu(sum);
  apply_activation(Activation::relu, sum);
  return sum;
}

void BatchNorm1d::check(const Tensor& x) const {
  x.require_defined("BatchNorm1d", "the input");
  require<ShapeError>((x.dim() == 2 || x.dim() == 3) && x.size(1) == num_features,
                      "BatchNorm1d: input ", x.shape(), " is not (N, ", num_features, ") or (N, ",
                      num_features, ", L)");
}

void BatchNorm2d::check(const Tensor& x) const {
  x.require_defined("BatchNorm2d", "the input");
  require<ShapeError>(x.dim() == 4 && x.size(1) == num_features, "BatchNorm2d: input ", x.shape(),
                      " is not (N, ", num_features, ", H, W)");
}

void BatchNorm3d::check(const Tensor& x) const {
  x.require_defined("BatchNorm3d", "the input");
  require<ShapeError>(x.dim() == 5 && x.size(1) == num_features, "BatchNorm3d: input ", x.shape(),
                      " is not (N, ", num_features, ", D, H, W)");
}

}  // namespace rondo::nn
