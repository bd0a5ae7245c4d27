#pragma once
// Plans for attention: cuDNN engines that compute it on tensor cores without a matrix of scores,
// for bf16 and f16.
//
//   forward    s = scale q kᵀ, causal?, y = softmax(s) v, lse
//   backward   p = exp(s - lse), dv = pᵀ dy, ds = p (dy vᵀ - Σ dy y), dq = scale ds k,
//              dk = scale dsᵀ q
//
// cuDNN has no operation for this. It recognises graphs of products, reductions and pointwise
// operations, in the form that NVIDIA's cudnn-frontend gives them, and runs each as one kernel.

#include <cstdint>
#include <vector>

#include "tensor/cuda/cudnn_plan.h"
#include "tensor/tensor.h"

namespace rondo::cuda {

/// One call of attention or, if dy is defined, of its backward. q (N, H, L, E), k (N, G, S, E), v
/// (N, G, S, Ev), y and dy (N, H, L, Ev), lse (N, H, L); the gradients have the shapes of their
/// tensors.
struct AttentionCall {
  Tensor q, k, v, y, lse;
  float scale = 1;
  bool is_causal = false;
  Tensor dy = {}, dq = {}, dk = {}, dv = {};

  bool is_backward() const { return dy.defined(); }
  /// Whether cuDNN's engines compute this, as far as is known, without faults: bf16 or f16, as many
  /// heads of keys as of queries, heads of a multiple of 8 and at most 128 features, rows that
  /// start at multiples of 16 bytes. In backward, cuDNN 9.19 to 9.30 make NaN of keys that do not
  /// fill their last tile of 128, unless is_causal leaves the rest of the tile out
  /// (NVIDIA/cudnn-frontend#628).
  bool suits_cudnn() const;
  /// Equal for equal dtypes, sizes, strides and graphs only.
  std::vector<std::int64_t> key() const;
};

/// Plans for a call, the most promising first, at most `limit`; none if no engine supports it.
/// Throws CudaError if cuDNN rejects the graph itself.
std::vector<CudnnPlan> attention_plans(const AttentionCall& call, const PlanTarget& target,
                                       std::size_t limit);
void execute(const CudnnPlan& plan, const AttentionCall& call);

}  // namespace rondo::cuda
