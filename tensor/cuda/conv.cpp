// Convolution's three primitives through cuDNN, on channels_last tensors (f64: contiguous), where
// the tensor cores want them.
//
// A plan (conv_plan.h) is made once for each problem. Weights are dense (K, C, R, S) masters; they
// are copied to channels_last for the kernel, and their gradient back, which costs a pass over the
// weights alone.

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "tensor/cuda/conv_plan.h"
#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/stream.h"
#include "tensor/scratch.h"

namespace rondo::cuda {
namespace {

void execute(const ConvPlan& plan, const Tensor& x, const Tensor& w, const Tensor& y) {
  const AllocationTag tag("workspaces");
  const Tensor workspace = Tensor::empty({plan.workspace}, {.dtype = u8, .device = x.device()});
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, std::vector<std::int64_t>{uid_x, uid_w, uid_y});
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
           std::vector<void*>{x.data_ptr(), w.data_ptr(), y.data_ptr()});
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, std::vector<void*>{workspace.data_ptr()});
  pack.finalize("a variant pack");
  check_cudnn(cudnn().execute(cudnn_handle(x.device().index), plan.plan.get(), pack.get()),
              "a convolution");
}

/// Milliseconds of a plan on these tensors: the least of three, after one that loads the kernel.
float measure(const ConvPlan& plan, const Tensor& x, const Tensor& w, const Tensor& y) {
  const int device = x.device().index;
  const Stream stream = current_stream(device);
  const Event begin(device, true), end(device, true);
  float least = 0;
  for (int round = 0; round < 4; ++round) {
    begin.record(stream);
    execute(plan, x, w, y);
    end.record(stream);
    end.synchronize();
    const float ms = end.ms_since(begin);
    least = round <= 1 ? ms : std::min(least, ms);
  }
  return least;
}

/// The fastest of the engines that cuDNN names, tried on the tensors at hand.
ConvPlan measured_plan(const ConvProblem& p, const Tensor& x, const Tensor& w, const Tensor& y) {
  constexpr std::size_t most_tried = 8;
  std::vector<ConvPlan> plans = conv_plans(p, {.handle = cudnn_handle(p.device)}, most_tried);
  std::optional<std::size_t> best;
  float least = 0;
  std::string failure;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    try {
      const float ms = measure(plans[i], x, w, y);
      if (best && ms >= least) continue;
      least = ms;
      best = i;
    } catch (const CudaError& error) {  // no memory for its workspace, say; others need less
      failure = error.what();
    }
  }
  require<CudaError>(best.has_value(),
                     "no engine for a convolution could run; the last said: ", failure);
  return std::move(plans[*best]);
}

/// Plans are kept as long as the process: a training step has some dozens.
class Plans {
 public:
  static Plans& instance() {
    static auto* plans = new Plans;
    return *plans;
  }
  template <class Make>
  std::shared_ptr<const ConvPlan> get(const ConvProblem& p, Make make) {
    std::lock_guard lock(mutex_);
    std::shared_ptr<ConvPlan>& plan = known_[{&cudnn(), p.key()}];
    if (plan == nullptr) plan = std::make_shared<ConvPlan>(make());
    return plan;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<const Cudnn*, std::vector<std::int64_t>>, std::shared_ptr<ConvPlan>> known_;
};

void run(ConvPass pass, const Tensor& x, const Tensor& w, const Tensor& y,
         const Conv2dParams& params) {
  const int device = x.device().index;
  DeviceGuard guard(device);
  const ConvProblem p{.device = device,
                      .pass = pass,
                      .dtype = x.dtype(),
                      .tf32 = allows_tf32(),
                      .deterministic = is_deterministic(),
                      .measured = measures_plans(),
                      .x = x.shape(),
                      .w = w.shape(),
                      .y = y.shape(),
                      .params = params};
  const auto plan = Plans::instance().get(p, [&] {
    if (p.measured) return measured_plan(p, x, w, y);
    return std::move(conv_plans(p, {.handle = cudnn_handle(device)}, 1)[0]);
  });
  execute(*plan, x, w, y);
}

/// Whether a plan, which counts on dense channels_last and on 16 bytes, can use x where it lies.
/// Sizes of 1 let strides be what they like; cuDNN was told the regular ones, which fit all the
/// same, since nothing is ever taken along such a dimension.
bool is_usable(const Tensor& x) {
  return x.is_contiguous(conv_format(x.dtype())) &&
         reinterpret_cast<std::uintptr_t>(x.data_ptr()) % 16 == 0;
}
Tensor prepared(const Tensor& x) {
  return is_usable(x) ? x : dense_copy(x, conv_format(x.dtype()));
}
Tensor prepared_output(const Tensor& y) {
  return is_usable(y) ? y : empty_in(y, conv_format(y.dtype()));
}

/// A vector of channels (K) as (1, K, 1, 1).
Tensor as_channels(const Tensor& v) {
  return v.as_view({1, v.size(0), 1, 1}, {0, v.stride(0), 0, 0}, v.storage_offset());
}

}  // namespace

MemoryFormat CudaBackend::conv2d_format(DType dtype) const { return conv_format(dtype); }

void CudaBackend::conv2d(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
                         const Conv2dParams& params) {
  if (y.numel() == 0) return;
  if (x.numel() == 0 || w.numel() == 0)  // nothing but padding to sum over
    return bias.defined() ? copy(as_channels(bias).broadcast_view(y.shape()), y) : fill(y, 0);
  const Tensor out = prepared_output(y);
  run(ConvPass::forward, prepared(x), prepared(w), out, params);
  if (bias.defined())
    binary(BinaryOp::add, out, as_channels(bias).broadcast_view(y.shape()), out, {});
  if (!out.is_same(y)) copy(out, y);
}

void CudaBackend::conv2d_backward_input(const Tensor& dy, const Tensor& w, const Tensor& dx,
                                        const Conv2dParams& params) {
  if (dx.numel() == 0) return;
  if (dy.numel() == 0 || w.numel() == 0) return fill(dx, 0);
  const Tensor out = prepared_output(dx);
  run(ConvPass::backward_input, out, prepared(w), prepared(dy), params);
  if (!out.is_same(dx)) copy(out, dx);
}

void CudaBackend::conv2d_backward_weight(const Tensor& dy, const Tensor& x, const Tensor& dw,
                                         const Tensor& dbias, const Conv2dParams& params) {
  if (dbias.defined()) reduce(ReduceOp::sum, dy, as_channels(dbias));
  if (dw.numel() == 0) return;
  if (dy.numel() == 0 || x.numel() == 0) return fill(dw, 0);
  const Tensor out = prepared_output(dw);
  run(ConvPass::backward_weight, prepared(x), out, prepared(dy), params);
  if (!out.is_same(dw)) copy(out, dw);
}

}  // namespace rondo::cuda
