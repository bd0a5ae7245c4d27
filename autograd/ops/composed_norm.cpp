// The normalisations that are composed of other ops (see norm.h).

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/norm.h"
#include "autograd/ops/normalized.h"
#include "autograd/ops/pad.h"
#include "autograd/ops/pool.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/reduced.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "autograd/record.h"
#include "tensor/record_function.h"

namespace rondo {

namespace {

/// running = (1 - momentum) running + momentum times the mean of `statistics` over the images.
void follow(const Tensor& running, const Tensor& statistics, double momentum) {
  const Tensor average = to(mean(statistics, {0}), running.dtype());
  running.copy_(running * (1 - momentum) + average * momentum);
}

}  // namespace

Tensor instance_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                     const Tensor& running_mean, const Tensor& running_var,
                     const InstanceNormOptions& options) {
  const OpRange op("instance_norm");
  require<ShapeError>(x.dim() >= 3, "instance_norm: input ", x.shape(), " is not (N, C, L, ...)");
  if (!options.use_input_stats) {
    require(running_mean.defined() && running_var.defined(),
            "instance_norm: without use_input_stats it needs running_mean and running_var");
    return batch_norm(x, gamma, beta, running_mean, running_var,
                      {.training = false, .eps = options.eps});
  }
  const std::int64_t n = x.size(0), channels = x.size(1);
  require<ShapeError>(x.numel() > n * channels || x.numel() == 0,
                      "instance_norm: one value per channel of input ", x.shape(),
                      " has no variance");
  if (running_mean.defined() && x.numel() > 0) {
    NoGradGuard no_grad;
    const Tensor values = reshape(widened(x.detach()), {n, channels, -1});
    follow(running_mean, mean(values, {2}), options.momentum);
    follow(running_var, var(values, {2}), options.momentum);
  }
  // The conversion is for autocast, where group_norm returns f32.
  return to(group_norm(x, channels, gamma, beta, options.eps), x.dtype());
}

Tensor local_response_norm(const Tensor& x, std::int64_t size,
                           const LocalResponseNormOptions& options) {
  const OpRange op("local_response_norm");
  require_float(x, "local_response_norm");
  require<ShapeError>(x.dim() >= 3 && size > 0, "local_response_norm: input ", x.shape(),
                      " and size ", size, " are not (N, C, L, ...) and a positive number");
  if (x.numel() == 0) return x;
  const Tensor wide = widened(x);
  const Tensor squares = reshape(square(wide), {x.size(0), 1, x.size(1), -1});
  const Tensor padded = pad(squares, {0, 0, size / 2, (size - 1) / 2});
  const Tensor means = reshape(avg_pool2d(padded, {size, 1}, {.stride = 1}), x.shape());
  return to(wide / pow(means * options.alpha + options.k, options.beta), x.dtype());
}

}  // namespace rondo
