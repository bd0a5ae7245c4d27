// Convolution's three passes: what must be copied, cast or padded first, and the choice of an
// algorithm (algorithm.h). f64 and integers go to the reference loops.

#include "tensor/cpu/conv/algorithm.h"
#include "tensor/cpu/conv/padded.h"
#include "tensor/cpu/cpu_backend.h"
#include "tensor/cpu/reference.h"
#include "tensor/scratch.h"

namespace rondo::cpu {
namespace {

constexpr MemoryFormat nhwc = MemoryFormat::channels_last;

/// Whether this dtype must be converted to f32 for the computation.
bool needs_f32(DType dtype) { return is_floating(dtype) && dtype != f64 && !has_dtype(dtype); }

// Some cases that oneDNN computes wrongly with AVX-512 (found by tests/tensor/onednn_scan_test.cpp)
// are computed in other ways, with every version of oneDNN.

/// Gradients that need f32 even for bf16: those of single channels and of images smaller than the
/// filter (wrong in oneDNN 2.6), and those of a one-pixel filter with an odd number of outputs
/// (seldom wrong in 2.6, with a stride in 3.7).
bool gradient_needs_f32(const Tensor& x, const Tensor& w, const Conv2dParams& params) {
  const bool is_small = x.size(2) <= params.dilation_h * (w.size(2) - 1) ||
                        x.size(3) <= params.dilation_w * (w.size(3) - 1);
  return needs_f32(x.dtype()) ||
         (x.dtype() == bf16 && (is_small || x.size(1) == 1 || w.size(0) == 1 ||
                                (w.size(2) == 1 && w.size(3) == 1 && w.size(0) % 2 != 0)));
}

/// A one-pixel filter with a stride reads only some of x's pixels. oneDNN 2.6 gathers them into a
/// buffer that is too small unless the channels fill blocks of 16. In that case conv.cpp gathers
/// them.
bool must_gather(const Tensor& x, const Tensor& w, const Conv2dParams& params) {
  return is_strided_pixel(w, params) && x.size(1) % 16 != 0;
}

/// Runs `compute` on a dense channels_last tensor, and copies the result into y if y is a different
/// tensor.
template <class F>
void into_nhwc(const Tensor& y, F compute) {
  if (y.is_contiguous(nhwc)) return compute(y);
  Tensor result = Tensor::empty(y.shape(), {.dtype = y.dtype(), .format = nhwc});
  compute(result);
  CpuBackend::instance().do_copy(result, y);
}

}  // namespace

MemoryFormat CpuBackend::conv2d_format(DType dtype) const {
  return dtype == f64 || !is_floating(dtype) ? MemoryFormat::contiguous : nhwc;
}

void CpuBackend::do_conv2d(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
                           const Conv2dParams& params) {
  if (y.numel() == 0) return;
  if (params.activation != Activation::none) {
    do_conv2d(x, w, bias, y, without_activation(params));
    return apply_activation(params.activation, y);
  }
  if (x.numel() == 0 || w.numel() == 0)  // there is only padding to sum over
    return bias.defined() ? do_copy(as_channels(bias).broadcast_view(y.shape()), y) : do_fill(y, 0);
  if (needs_f32(y.dtype())) {
    Tensor result = Tensor::empty(y.shape(), {.format = nhwc});
    do_conv2d(as_f32(x), as_f32(w), as_f32(bias), result, params);
    return do_copy(result, y);
  }
  if (!has_dtype(y.dtype())) return reference::conv2d(x, w, bias, y, params);
  // oneDNN 3.7 is also wrong for single channels with a stride if the output is one pixel wide.
  if (sees_only_padding(x, w, params) ||
      (w.size(1) == 1 && y.size(3) == 1 && params.stride_w > 1)) {
    Conv2dParams inner = params;
    inner.pad_h = inner.pad_w = 0;
    if (y.size(3) == 1) inner.stride_w = 1;
    return do_conv2d(padded(x, 0, w, y, params), w, bias, y, inner);
  }
  Tensor source = dense(x, nhwc), dense_w = dense(w);
  Tensor b = bias.defined() ? dense(bias) : bias;
  into_nhwc(y, [&](const Tensor& out) {
    const ConvAlgorithm algorithm =
        choose_conv(describe(Conv2dProblem::Pass::forward, x, w, y, params, bias.defined()));
    algorithm.forward(source, dense_w, b, out, params);
  });
}

void CpuBackend::do_conv2d_backward_input(const Tensor& dy, const Tensor& w, const Tensor& dx,
                                          const Conv2dParams& params) {
  if (dx.numel() == 0) return;
  if (dy.numel() == 0 || w.numel() == 0) return do_fill(dx, 0);
  if (gradient_needs_f32(dx, w, params)) {
    Tensor result = Tensor::empty(dx.shape(), {.format = nhwc});
    do_conv2d_backward_input(as_f32(dy), as_f32(w), result, params);
    return do_copy(result, dx);
  }
  if (!has_dtype(dx.dtype())) return reference::conv2d_backward_input(dy, w, dx, params);
  Tensor gradient = dense(dy, nhwc), dense_w = dense(w);
  into_nhwc(dx, [&](const Tensor& out) {
    const ConvAlgorithm algorithm =
        choose_conv(describe(Conv2dProblem::Pass::backward_input, dx, w, dy, params, false));
    algorithm.backward_input(gradient, dense_w, out, params);
  });
}

void CpuBackend::do_conv2d_backward_weight(const Tensor& dy, const Tensor& x, const Tensor& dw,
                                           const Tensor& dbias, const Conv2dParams& params) {
  if (dy.numel() == 0 || x.numel() == 0 || dw.numel() == 0) {
    if (dw.numel() > 0) do_fill(dw, 0);
    if (dbias.defined()) do_reduce(ReductionOp::sum, dy, as_channels(dbias));
    return;
  }
  if (must_gather(x, dw, params))
    return do_conv2d_backward_weight(dy, dense(pixels_read(x, dy, params), nhwc), dw, dbias,
                                     {.groups = params.groups});
  if (gradient_needs_f32(x, dw, params)) {
    Tensor weight = Tensor::empty(dw.shape());
    Tensor bias = dbias.defined() ? Tensor::empty(dbias.shape()) : dbias;
    do_conv2d_backward_weight(as_f32(dy), as_f32(x), weight, bias, params);
    do_copy(weight, dw);
    if (dbias.defined()) do_copy(bias, dbias);
    return;
  }
  if (!has_dtype(dw.dtype())) return reference::conv2d_backward_weight(dy, x, dw, dbias, params);
  Tensor source = dense(x, nhwc), gradient = dense(dy, nhwc);
  Tensor dense_dw = dw.is_contiguous() ? dw : Tensor::empty(dw.shape(), dw.options());
  const ConvAlgorithm algorithm = choose_conv(
      describe(Conv2dProblem::Pass::backward_weight, x, dw, dy, params, dbias.defined()));
  algorithm.backward_weight(gradient, source, dense_dw, dbias, params);
  if (!dense_dw.is_same(dw)) do_copy(dense_dw, dw);
}

}  // namespace rondo::cpu
