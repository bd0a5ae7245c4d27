#pragma once
// Normalisation: over the batch, over groups of channels, over the last dimensions. Inputs must be
// floating-point (DTypeError), and the result has the input's dtype. 16-bit floats are computed in
// f32 and rounded once; their gamma, beta and statistics may be f32. Shapes that do not match throw
// ShapeError.

#include <functional>

#include "tensor/tensor.h"

namespace rondo {

struct BatchNormOptions {
  bool training = true;   // true: use batch statistics and update the running ones; false: use the
                          // running ones
  double momentum = 0.1;  // running = (1 - momentum) running + momentum batch
  double eps = 1e-5;
  /// A tensor of x's shape, added after the normalisation. If its dtype differs from x's, y has the
  /// dtype that both promote to.
  Tensor residual = {};
  bool relu = false;  // apply relu last
  /// A recorded sum over several processes (dist/collectives/functional.h). If given, the
  /// statistics are those of all processes' images, and batch_norm is composed of ops instead of
  /// using the kernel. As torch.nn.SyncBatchNorm.
  std::function<Tensor(const Tensor&)> sum_over_ranks = {};
};

/// y = relu?((x - mean) / sqrt(var + eps) gamma + beta + residual), with mean, var, gamma and beta
/// per channel of x (N, C, ...). Fusing the three into one op saves two passes over memory in
/// forward and two in backward. running_mean and running_var (C) may both be undefined; then batch
/// statistics are always used. The running variance is the unbiased one. An empty batch does not
/// change the statistics. In training, a single value per channel throws ShapeError. Agrees with
/// torch.nn.functional.batch_norm.
Tensor batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                  const Tensor& running_mean, const Tensor& running_var,
                  const BatchNormOptions& options = {});
/// (x - mean) / sqrt(var + eps) gamma + beta over the last dimensions of x, which must equal
/// `normalized_shape`. gamma and beta have that shape, too. Agrees with
/// torch.nn.functional.layer_norm.
Tensor layer_norm(const Tensor& x, const Dims& normalized_shape, const Tensor& gamma = {},
                  const Tensor& beta = {}, double eps = 1e-5);
/// The same over each of `groups` groups of channels of x (N, C, ...). gamma and beta are (C).
/// Agrees with torch.nn.functional.group_norm.
Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& gamma = {},
                  const Tensor& beta = {}, double eps = 1e-5);

}  // namespace rondo
