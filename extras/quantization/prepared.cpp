#include "extras/quantization/prepared.h"

#include "autograd/grad_mode.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/conv.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "extras/quantization/quantize.h"
#include "tensor/creation.h"

namespace rondo::nn {
namespace {

Tensor rounded(const Tensor& w) {
  return fake_quantize_per_channel_symmetric(w, symmetric_scales(w), -127, 127);
}

/// gamma / sqrt(running_var + eps).
Tensor factor_of(const BatchNorm& bn) {
  const Tensor inverse = rsqrt(bn.running_var + bn.options.eps);
  return bn.weight.defined() ? bn.weight * inverse : inverse;
}

Tensor run(const Conv2d& conv, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Conv2dOptions& o = conv.options;
  return conv2d(
      conv.padded(x), weight, bias,
      {.stride = o.stride, .padding = o.padding, .dilation = o.dilation, .groups = o.groups});
}

}  // namespace

Conv2d fold_batch_norm(const Conv2d& conv, const BatchNorm2d& bn) {
  NoGradGuard no_grad;
  require(bn.running_mean.defined(),
          "fold_batch_norm: a batch norm without running statistics cannot be folded");
  Conv2d folded = conv;
  const Tensor factor = factor_of(bn);
  folded.weight = conv.weight.detach() * reshape(factor, {conv.out_channels, 1, 1, 1});
  const Tensor bias =
      conv.bias.defined() ? conv.bias.detach() - bn.running_mean : neg(bn.running_mean);
  folded.bias = bias * factor;
  if (bn.bias.defined()) folded.bias = folded.bias + bn.bias.detach();
  folded.options.bias = true;
  return folded;
}

Tensor PreparedLinear::forward(const Tensor& x) {
  const Tensor in = input(x);
  return rondo::linear(in, input.fake_quant_enabled ? rounded(linear.weight) : linear.weight,
                       linear.bias);
}

PreparedConv2d::PreparedConv2d(const Conv2d& conv, const BatchNorm2d* norm, std::string bn_path,
                               const ObserverOptions& observer)
    : conv(conv), bn_path(std::move(bn_path)), input(observer) {
  train(conv.is_training());
  if (norm == nullptr) return;
  bn = *norm;
}

Tensor PreparedConv2d::forward(const Tensor& x) {
  const Tensor in = input(x);
  if (!input.fake_quant_enabled) {
    const Tensor y = run(conv, in, conv.weight, conv.bias);
    return bn ? (*bn)(y) : y;
  }
  if (!bn) return run(conv, in, rounded(conv.weight), conv.bias);
  const Tensor factor = factor_of(*bn);
  const Tensor weight = rounded(conv.weight * reshape(factor, {conv.out_channels, 1, 1, 1}));
  Tensor y = run(conv, in, weight, {}) / reshape(factor, {1, conv.out_channels, 1, 1});
  if (conv.bias.defined()) y = y + reshape(conv.bias, {1, conv.out_channels, 1, 1});
  return (*bn)(y);
}

Conv2d PreparedConv2d::folded() const { return bn ? fold_batch_norm(conv, *bn) : conv; }

}  // namespace rondo::nn
