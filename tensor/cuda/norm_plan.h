#pragma once
// Plans for batch norms in training: cuDNN engines that fuse the residual addition and the relu of
// a ResNet's block into the normalisation, on channels_last images of f32, bf16 or f16.
//
//   forward    norm, add residual?, relu?
//   backward   relu's mask?, norm's gradient; the mask comes from the output y, or from a norm
//              that is computed again
//
// Which of these graphs an engine supports depends on the dtype, the card and cuDNN's release.
// Possibly none does; rondo's own kernels (batch_norm.cuh) support all of them.

#include <cstdint>
#include <vector>

#include "tensor/cuda/cudnn_plan.h"
#include "tensor/tensor.h"

namespace rondo::cuda {

enum class ReluMaskSource { none, from_y, from_x };

struct NormProblem {
  int device = 0;
  DType dtype;
  Dims x;  // (N, C, H, W)
  bool backward = false, deterministic = false;
  bool residual = false;                       // added; backward: its gradient is computed
  bool relu = false, running = false;          // forward; running: running statistics are updated
  ReluMaskSource mask = ReluMaskSource::none;  // backward

  /// Equal for equal problems only.
  std::vector<std::int64_t> key() const;
};

/// The uids of a plan's tensors. Those per channel are f32, (1, C, 1, 1).
enum NormUid : std::int64_t {
  norm_x = 1,
  norm_y,
  norm_residual,
  norm_gamma,
  norm_beta,
  norm_mean,
  norm_invstd,
  norm_eps,       // a float on the host
  norm_momentum,  // also a float on the host
  norm_running_mean,
  norm_running_var,
  norm_new_running_mean,
  norm_new_running_var,
  norm_dy,
  norm_dx,
  norm_dgamma,
  norm_dbeta,
  norm_dresidual,
  norm_between,  // this and larger numbers: never stored in memory
};

/// The tensors of a forward: x, residual, y (N, C, H, W) in channels_last, the others (C) in f32.
/// running_mean, running_var and residual may be undefined.
struct NormForward {
  Tensor x, gamma, beta, running_mean, running_var, residual;
  double momentum = 0, eps = 0;
  bool relu = false;
  Tensor y, mean, invstd;

  NormProblem problem() const;
};
/// The tensors of a backward. If the relu's mask comes from the output, y is defined; if it comes
/// from x, beta is defined; without a relu neither is. If dresidual is undefined, it is not
/// computed.
struct NormBackward {
  Tensor dy, x, y, gamma, beta, mean, invstd;
  Tensor dx, dgamma, dbeta, dresidual;

  NormProblem problem() const;
};
void execute(const CudnnPlan& plan, const NormForward& norm);
void execute(const CudnnPlan& plan, const NormBackward& norm);

/// Plans for a problem, the most promising first, at most `limit`; none if no engine supports it.
/// Throws CudaError if cuDNN rejects the graph itself.
std::vector<CudnnPlan> norm_plans(const NormProblem& problem, const PlanTarget& target,
                                  std::size_t limit);

}  // namespace rondo::cuda
