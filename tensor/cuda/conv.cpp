// Convolution's three primitives with cuDNN, on channels_last tensors, as the tensor cores need
// them (f64, and f32 without TF32: contiguous).
//
// A plan (conv_plan.h) is created once for each problem. A bias and an activation are kernels of
// their own, unless measure_plans found an engine that does all in less time. Weights are dense (K,
// C, R, S). They are copied to channels_last for the kernel, and their gradient is copied back.
// This costs one pass over the weights only.

#include <algorithm>
#include <memory>
#include <string>

#include "tensor/cuda/conv_plan.h"
#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/stream.h"
#include "tensor/scratch.h"

namespace rondo::cuda {
namespace {

bool uses_tf32() { return allowed_tf32() != Tf32::none; }
MemoryFormat current_format(DType dtype) { return conv_format(dtype, uses_tf32()); }

void execute(const CudnnPlan& plan, const Tensor& x, const Tensor& w, const Tensor& y) {
  execute(plan, x.device().index,
          {{uid_x, x.data_ptr()}, {uid_w, w.data_ptr()}, {uid_y, y.data_ptr()}});
}

/// The fastest of the engines that cuDNN proposes, measured on these tensors.
CudnnPlan measured_plan(const ConvProblem& p, const Tensor& x, const Tensor& w, const Tensor& y) {
  constexpr std::size_t most_tried = 8;
  std::vector<CudnnPlan> plans = conv_plans(p, {.handle = cudnn_handle(p.device)}, most_tried);
  std::string failure;
  const auto best = fastest_of(
      plans, p.device, [&](const CudnnPlan& plan) { execute(plan, x, w, y); }, &failure);
  require<CudaError>(best.has_value(),
                     "every cuDNN engine for a convolution failed; the last error is: ", failure);
  return std::move(plans[best->index]);
}

/// The engine with the smallest workspace.
CudnnPlan smallest_plan(const ConvProblem& p) {
  constexpr std::size_t all = 100;
  std::vector<CudnnPlan> plans = conv_plans(p, {.handle = cudnn_handle(p.device)}, all);
  return std::move(*std::ranges::min_element(plans, {}, &CudnnPlan::workspace));
}

ConvProblem problem_of(ConvPass pass, const Tensor& x, const Tensor& w, const Tensor& y,
                       const Conv2dParams& params, bool bias = false) {
  return {.device = x.device().index,
          .pass = pass,
          .dtype = x.dtype(),
          .tf32 = uses_tf32(),
          .deterministic = is_deterministic(),
          .measured = measures_plans(),
          .x = x.shape(),
          .w = w.shape(),
          .y = y.shape(),
          .params = params,
          .bias = bias};
}

void run(ConvPass pass, const Tensor& x, const Tensor& w, const Tensor& y,
         const Conv2dParams& params) {
  const int device = x.device().index;
  DeviceGuard guard(device);
  const ConvProblem p = problem_of(pass, x, w, y, params);
  static auto* plans = new PlanCache;
  const auto plan = plans->get(p.key(), [&] {
    return std::make_shared<CudnnPlan>(
        p.measured ? measured_plan(p, x, w, y)
                   : std::move(conv_plans(p, {.handle = cudnn_handle(device)}, 1)[0]));
  });
  try {
    execute(*plan, x, w, y);
  } catch (const OutOfMemoryError&) {
    // Its workspace may be what does not fit. Slower engines often need no workspace.
    if (plan->workspace == 0) throw;
    const auto smaller = std::make_shared<CudnnPlan>(smallest_plan(p));
    if (smaller->workspace >= plan->workspace) throw;
    plans->put(p.key(), smaller);
    execute(*smaller, x, w, y);
  }
}

/// Whether a plan, which requires dense channels_last and 16-byte alignment, can use x directly. A
/// dimension of size 1 may have any stride: cuDNN was told the regular strides, which are also
/// correct, since nothing ever steps along such a dimension.
bool is_usable(const Tensor& x, MemoryFormat format) {
  return x.is_contiguous(format) && reinterpret_cast<std::uintptr_t>(x.data_ptr()) % 16 == 0;
}
Tensor prepared(const Tensor& x) {
  const MemoryFormat format = current_format(x.dtype());
  return is_usable(x, format) ? x : dense_copy(x, format);
}
Tensor prepared_output(const Tensor& y) {
  const MemoryFormat format = current_format(y.dtype());
  return is_usable(y, format) ? y : empty_in(y, format);
}

/// A vector of channels (K) as (1, K, 1, 1).
Tensor as_channels(const Tensor& v) {
  return v.as_view({1, v.size(0), 1, 1}, {0, v.stride(0), 0, 0}, v.storage_offset());
}

}  // namespace

MemoryFormat CudaBackend::conv2d_format(DType dtype) const { return current_format(dtype); }

void CudaBackend::do_conv2d(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
                            const Conv2dParams& params) {
  if (y.numel() == 0) return;
  if (x.numel() == 0 || w.numel() == 0) {  // there is only padding to sum over
    if (bias.defined()) {
      do_copy(as_channels(bias).broadcast_view(y.shape()), y);
    } else {
      do_fill(y, 0);
    }
    return apply_activation(params.activation, y);
  }
  const Tensor in = prepared(x), weight = prepared(w), out = prepared_output(y);
  const auto one_by_one = [&] {
    run(ConvPass::forward, in, weight, out, without_activation(params));
    if (bias.defined())
      do_binary(BinaryOp::add, out, as_channels(bias).broadcast_view(y.shape()), out, {});
    apply_activation(params.activation, out);
  };
  const auto at_once = [&](const CudnnPlan& plan) {
    std::vector<NamedPointer> pointers = {
        {uid_x, in.data_ptr()}, {uid_w, weight.data_ptr()}, {uid_y, out.data_ptr()}};
    if (bias.defined()) pointers.emplace_back(uid_bias, bias.data_ptr());
    execute(plan, device_, pointers);
  };
  std::shared_ptr<const CudnnPlan> plan;
  const bool is_more = bias.defined() || params.activation != Activation::none;
  const bool is_bias_usable =
      !bias.defined() || (bias.dtype() == x.dtype() && is_usable(bias, MemoryFormat::contiguous));
  if (is_more && measures_plans() && !is_deterministic() && is_bias_usable) {
    constexpr std::size_t most_tried = 4;
    static auto* plans = new PlanCache;
    const ConvProblem p = problem_of(ConvPass::forward, in, weight, out, params, bias.defined());
    const auto make = [&] { return conv_plans(p, {.handle = cudnn_handle(device_)}, most_tried); };
    plan = faster_plan(*plans, p.key(), device_, make, one_by_one, at_once);
  }
  if (plan == nullptr || !fits_in_memory([&] { at_once(*plan); })) one_by_one();
  if (!out.is_same(y)) do_copy(out, y);
}

void CudaBackend::do_conv2d_backward_input(const Tensor& dy, const Tensor& w, const Tensor& dx,
                                           const Conv2dParams& params) {
  if (dx.numel() == 0) return;
  if (dy.numel() == 0 || w.numel() == 0) return do_fill(dx, 0);
  const Tensor out = prepared_output(dx);
  run(ConvPass::backward_input, out, prepared(w), prepared(dy), params);
  if (!out.is_same(dx)) do_copy(out, dx);
}

void CudaBackend::do_conv2d_backward_weight(const Tensor& dy, const Tensor& x, const Tensor& dw,
                                            const Tensor& dbias, const Conv2dParams& params) {
  if (dbias.defined()) do_reduce(ReductionOp::sum, dy, as_channels(dbias));
  if (dw.numel() == 0) return;
  if (dy.numel() == 0 || x.numel() == 0) return do_fill(dw, 0);
  const Tensor out = prepared_output(dw);
  run(ConvPass::backward_weight, prepared(x), out, prepared(dy), params);
  if (!out.is_same(dw)) do_copy(out, dw);
}

}  // namespace rondo::cuda
