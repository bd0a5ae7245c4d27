// Attention: one of cuDNN's engines for bf16 and f16 (attention_plan.h), which multiply on tensor
// cores, or rondo's own kernels (attention.cu), which compute every case in f32.

#include <memory>

#include "tensor/cuda.h"
#include "tensor/cuda/attention_plan.h"
#include "tensor/cuda/capture.h"
#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/runtime.h"

namespace rondo::cuda {
namespace {

/// cuDNN's most promising plan, or null if it has none for these tensors.
std::shared_ptr<const CudnnPlan> plan_for(const AttentionCall& call,
                                          const AttentionParams& params) {
  if (params.mask.defined() || params.dropout_p > 0 || !call.suits_cudnn()) return nullptr;
  // cuDNN's engines add to dq atomically, and do not say that they are not deterministic.
  if (call.is_backward() && is_deterministic()) return nullptr;
  static auto* cache = new PlanCache;
  try {
    constexpr std::size_t oldest = 91900;  // whose plans were tried; older ones have known faults
    if (cudnn().version() < oldest) return nullptr;
    constexpr std::size_t most_shapes = 256;  // each takes about a second to compile
    // During a capture no kernel can be loaded.
    if (captures_underway() || cache->size() >= most_shapes) return cache->find(call.key());
    return cache->get(call.key(), [&]() -> std::shared_ptr<const CudnnPlan> {
      const int device = call.q.device().index;
      const DeviceGuard guard(device);
      auto plans = attention_plans(call, {.handle = cudnn_handle(device)}, 1);
      return plans.empty() ? nullptr : std::make_shared<CudnnPlan>(std::move(plans[0]));
    });
  } catch (const CudaError&) {  // no cuDNN, or it rejects the graph
    return nullptr;
  }
}

/// Whether cuDNN computed the call: there is a plan, and its memory fits.
bool computed_by_cudnn(const AttentionCall& call, const AttentionParams& params) {
  const auto plan = plan_for(call, params);
  return plan != nullptr && fits_in_memory([&] { execute(*plan, call); });
}

}  // namespace

bool CudaBackend::has_attention(const Tensor& q) const {
  return is_floating(q.dtype()) && q.dtype() != f64;
}

void CudaBackend::do_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                               const AttentionParams& params, const Tensor& y, const Tensor& lse) {
  const AttentionCall call{q, k, v, y, lse, static_cast<float>(params.scale), params.is_causal};
  if (computed_by_cudnn(call, params)) return;
  attention_kernels(q, k, v, params, y, lse);
}

void CudaBackend::do_attention_backward(const Tensor& dy, const Tensor& q, const Tensor& k,
                                        const Tensor& v, const AttentionParams& params,
                                        const Tensor& y, const Tensor& lse, const Tensor& dq,
                                        const Tensor& dk, const Tensor& dv) {
  const AttentionCall call{q,  k,  v,  y, lse, static_cast<float>(params.scale), params.is_causal,
                           dy, dq, dk, dv};
  if (computed_by_cudnn(call, params)) return;
  attention_backward_kernels(dy, q, k, v, params, y, lse, dq, dk, dv);
}

}  // namespace rondo::cuda
