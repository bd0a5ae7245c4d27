// Batch norm in training: rondo's own kernels (batch_norm.cu), or an engine of cuDNN's
// (norm_plan.h) where measure_plans says that they are to be tried and it is the faster one.

#include <initializer_list>
#include <memory>

#include "tensor/cuda.h"
#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/norm_plan.h"
#include "tensor/scratch.h"

namespace rondo::cuda {
namespace {

/// Whether a plan can use these (some may be undefined) where they lie: it counts on 16 bytes.
bool are_aligned(std::initializer_list<Tensor> tensors) {
  for (const Tensor& x : tensors) {
    if (x.defined() && reinterpret_cast<std::uintptr_t>(x.data_ptr()) % 16 != 0) return false;
  }
  return true;
}
bool are_channels_last(std::initializer_list<Tensor> images) {
  for (const Tensor& x : images) {
    if (x.defined() && (x.dim() != 4 || !x.is_contiguous(MemoryFormat::channels_last)))
      return false;
  }
  return are_aligned(images);
}

/// The plan that is faster than rondo's kernels; null: none is. Tried once for each problem.
template <class Own, class Run>
std::shared_ptr<const CudnnPlan> faster_plan(const NormProblem& p, Own own, Run run) {
  constexpr std::size_t most_tried = 4;
  static auto* cache = new PlanCache;
  return cache->get(p.key(), [&]() -> std::shared_ptr<const CudnnPlan> {
    std::vector<CudnnPlan> plans = norm_plans(p, {.handle = cudnn_handle(p.device)}, most_tried);
    const auto best = fastest_of(plans, p.device, run);
    if (!best || milliseconds(p.device, own) <= best->ms) return nullptr;
    return std::make_shared<CudnnPlan>(std::move(plans[best->index]));
  });
}

}  // namespace

void CudaBackend::batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                             const Tensor& running_mean, const Tensor& running_var, double momentum,
                             double eps, const BatchNormFusion& fusion, const Tensor& y,
                             const Tensor& mean, const Tensor& invstd) {
  auto own = [&](const Tensor& running_mean_, const Tensor& running_var_) {
    batch_norm_kernels(x, gamma, beta, running_mean_, running_var_, momentum, eps, fusion, y, mean,
                       invstd);
  };
  if (!measures_plans() || !gamma.defined() || !beta.defined() ||
      !are_channels_last({x, y, fusion.residual}) ||
      !are_aligned({gamma, beta, running_mean, running_var, mean, invstd}))
    return own(running_mean, running_var);
  const NormProblem p{.device = device_,
                      .dtype = x.dtype(),
                      .x = x.shape(),
                      .deterministic = is_deterministic(),
                      .residual = fusion.residual.defined(),
                      .relu = fusion.relu,
                      .running = running_mean.defined()};
  const auto eps_f32 = static_cast<float>(eps), momentum_f32 = static_cast<float>(momentum);
  auto run = [&](const CudnnPlan& plan, const Tensor& running_mean_, const Tensor& running_var_) {
    std::vector<NamedPointer> pointers = {{norm_x, x.data_ptr()},
                                          {norm_y, y.data_ptr()},
                                          {norm_mean, mean.data_ptr()},
                                          {norm_invstd, invstd.data_ptr()},
                                          {norm_gamma, gamma.data_ptr()},
                                          {norm_beta, beta.data_ptr()},
                                          {norm_eps, &eps_f32}};
    if (p.residual) pointers.emplace_back(norm_residual, fusion.residual.data_ptr());
    if (p.running) {
      pointers.emplace_back(norm_momentum, &momentum_f32);
      pointers.emplace_back(norm_running_mean, running_mean_.data_ptr());
      pointers.emplace_back(norm_running_var, running_var_.data_ptr());
      pointers.emplace_back(norm_new_running_mean, running_mean_.data_ptr());
      pointers.emplace_back(norm_new_running_var, running_var_.data_ptr());
    }
    execute(plan, device_, pointers);
  };
  // Trials must not move the running statistics.
  auto somewhere = [](const Tensor& v) { return v.defined() ? Tensor::empty_like(v) : v; };
  const auto plan = faster_plan(
      p, [&] { own(somewhere(running_mean), somewhere(running_var)); },
      [&](const CudnnPlan& tried) { run(tried, somewhere(running_mean), somewhere(running_var)); });
  if (plan != nullptr) return run(*plan, running_mean, running_var);
  own(running_mean, running_var);
}

void CudaBackend::batch_norm_backward(const Tensor& dy_, const Tensor& x, const Tensor& y,
                                      bool relu, const Tensor& gamma, const Tensor& beta,
                                      const Tensor& mean, const Tensor& invstd, const Tensor& dx,
                                      const Tensor& dgamma, const Tensor& dbeta,
                                      const Tensor& dresidual) {
  const Tensor dy = dense(dy_, x.suggested_format());
  auto own = [&] {
    batch_norm_backward_kernels(dy, x, y, relu, gamma, beta, mean, invstd, dx, dgamma, dbeta,
                                dresidual);
  };
  const ReluMask mask = !relu ? ReluMask::none : y.defined() ? ReluMask::from_y : ReluMask::from_x;
  if (!measures_plans() || !gamma.defined() || !dgamma.defined() || !dbeta.defined() ||
      (mask == ReluMask::from_x && !beta.defined()) ||
      !are_channels_last({dy, x, y, dx, dresidual}) ||
      !are_aligned({gamma, beta, mean, invstd, dgamma, dbeta}))
    return own();
  const NormProblem p{.device = device_,
                      .dtype = x.dtype(),
                      .x = x.shape(),
                      .backward = true,
                      .deterministic = is_deterministic(),
                      .residual = dresidual.defined(),
                      .mask = mask};
  auto run = [&](const CudnnPlan& plan) {
    std::vector<NamedPointer> pointers = {
        {norm_dy, dy.data_ptr()},         {norm_x, x.data_ptr()},
        {norm_gamma, gamma.data_ptr()},   {norm_mean, mean.data_ptr()},
        {norm_invstd, invstd.data_ptr()}, {norm_dx, dx.data_ptr()},
        {norm_dgamma, dgamma.data_ptr()}, {norm_dbeta, dbeta.data_ptr()}};
    if (p.mask == ReluMask::from_y) pointers.emplace_back(norm_y, y.data_ptr());
    if (p.mask == ReluMask::from_x) pointers.emplace_back(norm_beta, beta.data_ptr());
    if (p.residual) pointers.emplace_back(norm_dresidual, dresidual.data_ptr());
    execute(plan, device_, pointers);
  };
  const auto plan = faster_plan(p, own, run);
  if (plan != nullptr) return run(*plan);
  own();
}

}  // namespace rondo::cuda
