#include "optim/clip.h"

#include <cmath>

#include "autograd/autograd_meta.h"
#include "autograd/grad_mode.h"
#include "autograd/ops/reduce.h"
#include "tensor/backend.h"
#include "tensor/creation.h"
#include "tensor/record_function.h"

namespace rondo::optim {
namespace {

Tensors gradients(const Tensors& parameters) {
  Tensors grads;
  for (const Tensor& p : parameters) {
    if (Tensor g = p.grad(); g.defined()) grads.push_back(g);
  }
  return grads;
}

Tensor as(DType dtype, const Tensor& x) {
  if (x.dtype() == dtype) return x;
  Tensor y = Tensor::empty(x.shape(), {.dtype = dtype, .device = x.device()});
  backend(x).copy(x, y);
  return y;
}

/// Writes the sum of |g|, the sum of g², the largest |g| or, for other types, the norm of g to `y`,
/// a 0-dim view, in y's dtype.
void reduce_into(const Tensor& g, double norm_type, const Tensor& y) {
  Backend& b = backend(g);
  Tensor x = as(y.dtype(), g);
  Tensor out = y.as_view(Dims::filled(x.dim(), 1), Dims::filled(x.dim(), 1), y.storage_offset());
  if (norm_type == 2) {
    b.reduce(ReductionOp::sum_squares, x, out);
    return;
  }
  if (x.numel() == 0) {
    b.fill(y, 0.0);
    return;
  }
  if (norm_type != 1 && norm_type != inf_norm) {
    b.copy(vector_norm(x, norm_type), y);
    return;
  }
  Tensor magnitude = Tensor::empty_like(x);
  b.unary(UnaryOp::abs, x, magnitude);
  b.reduce(norm_type == 1 ? ReductionOp::sum : ReductionOp::max, magnitude, out);
}

Tensor total_norm(const Tensors& grads, double norm_type) {
  const NoGradGuard no_grad;
  DType dtype = f32;
  for (const Tensor& g : grads) {
    if (g.dtype() == f64) dtype = f64;
    require<DeviceError>(g.device() == grads[0].device(), "get_total_norm: tensors are on ",
                         grads[0].device(), " and on ", g.device());
  }
  if (grads.empty()) return zeros({}, {.dtype = dtype});
  TensorOptions options{.dtype = dtype, .device = grads[0].device()};
  auto n = static_cast<std::int64_t>(grads.size());
  Tensor parts = Tensor::empty({n}, options), total = Tensor::empty({1}, options);
  for (std::int64_t i = 0; i < n; ++i) {
    reduce_into(grads[static_cast<std::size_t>(i)], norm_type, parts.as_view({}, {}, i));
  }
  if (norm_type != 1 && norm_type != 2 && norm_type != inf_norm) {
    return vector_norm(parts, norm_type);
  }
  Backend& b = backend(grads[0]);
  b.reduce(norm_type == inf_norm ? ReductionOp::max : ReductionOp::sum, parts, total);
  if (norm_type == 2) b.unary(UnaryOp::sqrt, total, total);
  return total.as_view({}, {}, 0);
}

}  // namespace

Tensor get_total_norm(const Tensors& tensors, ClipOptions options) {
  require(options.norm_type > 0, "get_total_norm: norm_type is ", options.norm_type,
          ", but must be positive");
  Tensor norm = total_norm(tensors, options.norm_type);
  if (options.error_if_nonfinite) {
    auto value = norm.item<double>();
    require(std::isfinite(value), "get_total_norm: the norm is ", value);
  }
  return norm;
}

void clip_grads_with_norm_(const Tensors& parameters, double max_norm, const Tensor& total_norm) {
  constexpr const char* name = "clip_grads_with_norm_";
  require(max_norm >= 0, name, ": max_norm is ", max_norm, ", but must not be negative");
  require<ShapeError>(total_norm.dim() == 0, name, ": the norm has shape ", total_norm.shape(),
                      "; expected one number without dimensions");
  const Tensors grads = gradients(parameters);
  if (grads.empty()) return;
  for (const Tensor& g : grads) require_one_device(name, {total_norm, g});
  // Always multiplies, if need be by 1: a check would make the host wait for the device.
  Backend& b = backend(total_norm);
  Tensor scale = Tensor::empty_like(total_norm);
  b.unary(UnaryOp::add_scalar, total_norm, scale, {.alpha = 1e-6});
  b.unary(UnaryOp::reciprocal, scale, scale);
  b.unary(UnaryOp::mul_scalar, scale, scale, {.alpha = max_norm});
  b.unary(UnaryOp::clamp, scale, scale,
          {.alpha = -std::numeric_limits<double>::infinity(), .beta = 1.0});
  for (const Tensor& g : grads) {
    Tensor factor = as(g.dtype(), scale).as_view(g.shape(), Dims::filled(g.dim(), 0), 0);
    b.binary(BinaryOp::mul, g, factor, g);
    g.bump_version();
  }
}

Tensor clip_grad_norm_(const Tensors& parameters, double max_norm, ClipOptions options) {
  const OpRange op("clip_grad_norm_");
  require(max_norm >= 0, "clip_grad_norm_: max_norm is ", max_norm, ", but must not be negative");
  for (const Tensor& p : parameters)
    require(
        !p.defined() || !autograd_meta(p).is_piece,
        "clip_grad_norm_: a parameter is one of ZeRO's pieces, and the other ranks have the rest; "
        "use ZeroSharding::clip_grad_norm");
  Tensor norm = get_total_norm(gradients(parameters), options);
  clip_grads_with_norm_(parameters, max_norm, norm);
  return norm;
}

void clip_grad_value_(const Tensors& parameters, double clip_value) {
  require(clip_value >= 0, "clip_grad_value_: clip_value is ", clip_value,
          ", but must not be negative");
  for (const Tensor& g : gradients(parameters)) {
    backend(g).unary(UnaryOp::clamp, g, g, {.alpha = -clip_value, .beta = clip_value});
    g.bump_version();
  }
}

}  // namespace rondo::optim
