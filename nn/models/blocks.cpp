// Blocks of the models (see blocks.h).

#include "nn/models/blocks.h"

#include <algorithm>

#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/pool.h"
#include "autograd/ops/sampling.h"
#include "autograd/ops/shape.h"
#include "tensor/creation.h"

namespace rondo::nn {

Sequential conv_norm_activation(std::int64_t in_channels, std::int64_t out_channels,
                                ConvNormActivationOptions options) {
  Sequential block(Conv2d(in_channels, out_channels, options.kernel_size,
                          {.stride = options.stride,
                           .padding = (options.kernel_size - 1) / 2,
                           .groups = options.groups,
                           .bias = false}),
                   BatchNorm2d(out_channels));
  if (options.activation.has_value()) block.push_back(std::move(options.activation));
  return block;
}

SqueezeExcitation::SqueezeExcitation(std::int64_t channels, std::int64_t squeezed)
    : fc1(channels, squeezed, 1), fc2(squeezed, channels, 1) {}

Tensor SqueezeExcitation::forward(const Tensor& x) {
  return x * sigmoid(fc2(silu(fc1(adaptive_avg_pool2d(x, 1)))));
}

void SqueezeExcitation::visit(Visitor& v) {
  v.child("fc1", fc1);
  v.child("fc2", fc2);
}

Tensor StochasticDepth::forward(const Tensor& x) {
  if (!is_training() || p == 0) return x;
  Dims rows(x.shape());
  for (std::int64_t d = 1; d < rows.size(); ++d) rows[d] = 1;
  const Tensor kept = bernoulli(full(rows, 1 - p, {.dtype = x.dtype(), .device = x.device()}));
  return p < 1 ? x * (kept / (1 - p)) : x * kept;
}

Tensor LayerNorm2d::forward(const Tensor& x) {
  return permute(LayerNorm::forward(permute(x, {0, 2, 3, 1})), {0, 3, 1, 2});
}

std::int64_t scaled_channels(std::int64_t channels, double factor, std::int64_t divisor) {
  const double exact = static_cast<double>(channels) * factor;
  const std::int64_t nearest =
      static_cast<std::int64_t>(exact + static_cast<double>(divisor) / 2) / divisor * divisor;
  const std::int64_t rounded = std::max(divisor, nearest);
  return static_cast<double>(rounded) < 0.9 * exact ? rounded + divisor : rounded;
}

}  // namespace rondo::nn
