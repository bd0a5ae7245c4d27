#pragma once
// Normalisation: over the batch, over groups of channels, over the last dimensions. Inputs are
// floats (DTypeError) and give their dtype; 16-bit floats are computed in f32 and rounded once,
// their gamma, beta and statistics may be f32. Shapes that do not fit are ShapeErrors.

#include <functional>

#include "tensor/tensor.h"

namespace rondo {

struct BatchNormOptions {
  bool training = true;  // batch statistics, and update the running ones; else use the running ones
  double momentum = 0.1;  // running = (1 - momentum) running + momentum batch
  double eps = 1e-5;
  /// Of x's shape, added after the normalisation; of another dtype than x, y has the one that both
  /// promote to.
  Tensor residual = {};
  bool relu = false;  // applied last
  /// A recorded sum over several processes (dist/collectives/functional.h): the statistics are then
  /// those of all their images, composed of ops instead of the kernel. As torch.nn.SyncBatchNorm.
  std::function<Tensor(const Tensor&)> sum_over_ranks = {};
};

/// y = relu?((x - mean) / sqrt(var + eps) gamma + beta + residual), the brackets per channel of
/// x (N, C, ...). Fusing the three into one op saves two passes over memory forward and two
/// backward. running_mean and running_var (C) may both be undefined, then batch statistics are
/// always used. The running variance is the unbiased one. An empty batch changes no statistics; one
/// value for each channel is a ShapeError in training. Agrees with torch.nn.functional.batch_norm.
Tensor batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                  const Tensor& running_mean, const Tensor& running_var,
                  const BatchNormOptions& options = {});
/// (x - mean) / sqrt(var + eps) gamma + beta over the last dimensions, those of `normalized_shape`,
/// which is also the shape of gamma and beta. Agrees with torch.nn.functional.layer_norm.
Tensor layer_norm(const Tensor& x, const Dims& normalized_shape, const Tensor& gamma = {},
                  const Tensor& beta = {}, double eps = 1e-5);
/// The same over each of `groups` groups of channels of x (N, C, ...); gamma and beta are (C).
/// Agrees with torch.nn.functional.group_norm.
Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& gamma = {},
                  const Tensor& beta = {}, double eps = 1e-5);

}  // namespace rondo
