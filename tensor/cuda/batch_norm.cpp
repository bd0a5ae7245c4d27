// Batch norm in training. Uses rondo's own kernels (batch_norm.cu), or one of cuDNN's engines
// (norm_plan.h) if measure_plans allows trying them and the engine is faster.

#include <functional>
#include <initializer_list>
#include <memory>

#include "tensor/cuda.h"
#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/norm_plan.h"
#include "tensor/cuda/runtime.h"
#include "tensor/scratch.h"

namespace rondo::cuda {
namespace {

/// rondo's kernels are bit-identical in every run; a choice by timing would not be.
bool tries_plans() { return measures_plans() && !is_deterministic(); }

/// Whether a plan can use these tensors directly: it requires 16-byte alignment.
bool are_aligned(std::initializer_list<Tensor> tensors) {
  for (const Tensor& x : tensors) {
    if (x.defined() && reinterpret_cast<std::uintptr_t>(x.data_ptr()) % 16 != 0) return false;
  }
  return true;
}
/// Whether these images (some may be undefined) meet the requirements of a plan.
bool are_alike(std::initializer_list<Tensor> images) {
  for (const Tensor& x : images) {
    if (x.defined() && (x.dim() != 4 || !x.is_contiguous(MemoryFormat::channels_last) ||
                        x.dtype() != images.begin()->dtype()))
      return false;
  }
  return are_aligned(images);
}
bool suits(const NormForward& n) {
  return n.gamma.defined() && n.beta.defined() && are_alike({n.x, n.y, n.residual}) &&
         are_aligned({n.gamma, n.beta, n.running_mean, n.running_var, n.mean, n.invstd});
}
bool suits(const NormBackward& n) {
  return n.gamma.defined() && n.dgamma.defined() && n.dbeta.defined() &&
         are_alike({n.x, n.dy, n.y, n.dx, n.dresidual}) &&
         are_aligned({n.gamma, n.beta, n.mean, n.invstd, n.dgamma, n.dbeta});
}

/// The fastest plan if it is faster than rondo's kernels, otherwise null.
std::shared_ptr<const CudnnPlan> plan_for(const NormProblem& p, const std::function<void()>& own,
                                          const std::function<void(const CudnnPlan&)>& run) {
  constexpr std::size_t most_tried = 4;
  static auto* cache = new PlanCache;
  const auto make = [&] { return norm_plans(p, {.handle = cudnn_handle(p.device)}, most_tried); };
  return faster_plan(*cache, p.key(), p.device, make, own, run);
}

Tensor trial_copy(const Tensor& v) { return v.defined() ? Tensor::empty_like(v) : v; }

}  // namespace

void CudaBackend::do_batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                                const Tensor& running_mean, const Tensor& running_var,
                                double momentum, double eps, const BatchNormFusion& fusion,
                                const Tensor& y, const Tensor& mean, const Tensor& invstd) {
  auto own = [&](const Tensor& mean_to_update, const Tensor& var_to_update) {
    batch_norm_kernels(x, gamma, beta, mean_to_update, var_to_update, momentum, eps, fusion, y,
                       mean, invstd);
  };
  if (!tries_plans()) return own(running_mean, running_var);
  const NormForward norm{.x = x,
                         .gamma = gamma,
                         .beta = beta,
                         .running_mean = running_mean,
                         .running_var = running_var,
                         .residual = fusion.residual,
                         .momentum = momentum,
                         .eps = eps,
                         .relu = fusion.relu,
                         .y = y,
                         .mean = mean,
                         .invstd = invstd};
  if (!suits(norm)) return own(running_mean, running_var);
  const auto plan = plan_for(
      norm.problem(), [&] { own(trial_copy(running_mean), trial_copy(running_var)); },
      [&](const CudnnPlan& tried) {  // trials must not change the running statistics
        NormForward trial = norm;
        trial.running_mean = trial_copy(running_mean);
        trial.running_var = trial_copy(running_var);
        execute(tried, trial);
      });
  if (plan != nullptr) return execute(*plan, norm);
  own(running_mean, running_var);
}

void CudaBackend::do_batch_norm_backward(const Tensor& dy_, const Tensor& x, const Tensor& y,
                                         bool relu, const Tensor& gamma, const Tensor& beta,
                                         const Tensor& mean, const Tensor& invstd, const Tensor& dx,
                                         const Tensor& dgamma, const Tensor& dbeta,
                                         const Tensor& dresidual) {
  const Tensor dy = dense(dy_, x.suggested_format());
  auto own = [&] {
    batch_norm_backward_kernels(dy, x, y, relu, gamma, beta, mean, invstd, dx, dgamma, dbeta,
                                dresidual);
  };
  if (!tries_plans()) return own();
  const bool mask_from_x = relu && !y.defined();
  const NormBackward norm{.dy = dy,
                          .x = x,
                          .y = relu ? y : Tensor(),
                          .gamma = gamma,
                          .beta = mask_from_x ? beta : Tensor(),
                          .mean = mean,
                          .invstd = invstd,
                          .dx = dx,
                          .dgamma = dgamma,
                          .dbeta = dbeta,
                          .dresidual = dresidual};
  if (!suits(norm) || (mask_from_x && !beta.defined())) return own();
  const auto plan =
      plan_for(norm.problem(), own, [&](const CudnnPlan& tried) { execute(tried, norm); });
  if (plan != nullptr) return execute(*plan, norm);
  own();
}

}  // namespace rondo::cuda
