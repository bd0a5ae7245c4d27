// InstanceNorm (see instance_norm.h).

#include "nn/instance_norm.h"

#include "autograd/checkpoint.h"
#include "autograd/ops/norm.h"
#include "autograd/ops/shape.h"
#include "tensor/creation.h"

namespace rondo::nn {

InstanceNorm::InstanceNorm(std::int64_t image_dims, std::int64_t num_features,
                           const InstanceNormOptions& options)
    : num_features(num_features), options(options), image_dims_(image_dims) {
  require<ShapeError>(num_features > 0, "InstanceNorm: ", num_features,
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

Tensor InstanceNorm::forward(const Tensor& x) {
  x.require_defined("InstanceNorm", "the input");
  const std::int64_t rank = image_dims_ + 2;
  require<ShapeError>(
      (x.dim() == rank || x.dim() == rank - 1) && x.size(x.dim() - image_dims_ - 1) == num_features,
      "InstanceNorm", image_dims_, "d: input ", x.shape(), " is not (N, C, ...) with ", rank,
      " dimensions or (C, ...), where C is ", num_features);
  if (x.dim() < rank) return squeeze(forward(unsqueeze(x, 0)), 0);
  const bool counted =
      is_recomputing();  // the first run of a checkpoint has updated the statistics
  return instance_norm(x, weight, bias, counted && is_training() ? Tensor() : running_mean,
                       counted && is_training() ? Tensor() : running_var,
                       {.use_input_stats = is_training() || !running_mean.defined(),
                        .momentum = options.momentum,
                        .eps = options.eps});
}

}  // namespace rondo::nn
