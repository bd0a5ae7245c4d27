#pragma once
// Normalisation: over the batch, over groups of channels, over the last dimensions. Inputs must be
// floating-point (DTypeError), and the result has the input's dtype. 16-bit floats are computed in
// f32 and rounded once; their gamma, beta and statistics may be f32. Shapes that do not match throw
// ShapeError.

#include <functional>
#include <optional>

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

// The following are composed of other ops (composed_norm.cpp), except rms_norm (layer_norm.cpp).

/// x / sqrt(mean(x^2) + eps) gamma over the last dimensions of x, which must equal
/// `normalized_shape`; gamma has that shape. eps, if not given, is the spacing at 1 of the dtype in
/// which it is computed: f32 for 16-bit floats. Agrees with torch.nn.functional.rms_norm.
Tensor rms_norm(const Tensor& x, const Dims& normalized_shape, const Tensor& gamma = {},
                std::optional<double> eps = {});

struct InstanceNormOptions {
  bool use_input_stats = true;  // false: use the running statistics
  double momentum = 0.1;
  double eps = 1e-5;
};
/// batch_norm with statistics of each image and channel of x (N, C, ...). running_mean and
/// running_var (C), which may both be undefined, follow the mean over the images of these
/// statistics. With use_input_stats, a single value per channel throws ShapeError; without it,
/// missing running statistics throw Error. Agrees with torch.nn.functional.instance_norm.
Tensor instance_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                     const Tensor& running_mean, const Tensor& running_var,
                     const InstanceNormOptions& options = {});

struct LocalResponseNormOptions {
  double alpha = 1e-4, beta = 0.75, k = 1;
};
/// x / (k + alpha mean)^beta, where mean is that of x^2 over a window of `size` channels around
/// each channel of x (N, C, ...), zeros beyond the first and the last. x has at least 3 dimensions.
/// Agrees with torch.nn.functional.local_response_norm.
Tensor local_response_norm(const Tensor& x, std::int64_t size,
                           const LocalResponseNormOptions& options = {});

}  // namespace rondo
