// GroupNorm, LayerNorm, RMSNorm (see norm.h).

#include "nn/norm.h"

#include <algorithm>

#include "tensor/creation.h"

namespace rondo::nn {

GroupNorm::GroupNorm(std::int64_t num_groups, std::int64_t num_channels, GroupNormOptions options)
    : num_groups(num_groups), num_channels(num_channels), eps(options.eps) {
  require<ShapeError>(num_groups > 0 && num_channels > 0 && num_channels % num_groups == 0,
                      "GroupNorm: ", num_channels, " channels cannot be split into ", num_groups,
                      " groups: both must be positive, and the second divide the first");
  if (options.affine) {
    weight = ones({num_channels}).requires_grad_();
    bias = zeros({num_channels}).requires_grad_();
  }
}

Tensor GroupNorm::forward(const Tensor& x) {
  x.require_defined("GroupNorm", "the input");
  require<ShapeError>(x.dim() >= 2 && x.size(1) == num_channels, "GroupNorm: input ", x.shape(),
                      " is not (N, ", num_channels, ", ...)");
  return group_norm(x, num_groups, weight, bias, eps);
}

LayerNorm::LayerNorm(const Dims& normalized_shape, LayerNormOptions options)
    : normalized_shape(normalized_shape), eps(options.eps) {
  require<ShapeError>(!normalized_shape.empty(), "LayerNorm: the normalized shape is empty");
  require<ShapeError>(std::ranges::min(normalized_shape) >= 0, "LayerNorm: the normalized shape ",
                      normalized_shape, " has a negative size");
  if (options.elementwise_affine) {
    weight = ones(normalized_shape).requires_grad_();
    if (options.bias) bias = zeros(normalized_shape).requires_grad_();
  }
}

Tensor LayerNorm::forward(const Tensor& x) {
  return layer_norm(x, normalized_shape, weight, bias, eps);
}

RMSNorm::RMSNorm(const Dims& normalized_shape, RMSNormOptions options)
    : normalized_shape(normalized_shape), eps(options.eps) {
  require<ShapeError>(!normalized_shape.empty(), "RMSNorm: the normalized shape is empty");
  require<ShapeError>(std::ranges::min(normalized_shape) >= 0, "RMSNorm: the normalized shape ",
                      normalized_shape, " has a negative size");
  if (options.elementwise_affine) weight = ones(normalized_shape).requires_grad_();
}

Tensor RMSNorm::forward(const Tensor& x) { return rms_norm(x, normalized_shape, weight, eps); }

}  // namespace rondo::nn
