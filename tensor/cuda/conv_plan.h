#pragma once
// Plans for convolutions: which of cuDNN's engines computes a problem, and the workspace it needs
// (cudnn_plan.h). Tests create plans for every layer of the ResNets, without a GPU.

#include <cstdint>
#include <vector>

#include "tensor/backend.h"
#include "tensor/cuda/cudnn_plan.h"

namespace rondo::cuda {

enum class ConvPass { forward, backward_input, backward_weight };

/// The problem for which a plan is created. It has only shapes, since the layouts follow from the
/// dtype and tf32 (conv_format).
struct ConvProblem {
  int device = 0;
  ConvPass pass;
  DType dtype;
  bool tf32 = false, deterministic = false, measured = false;
  Dims x, w, y;
  Conv2dParams params = {};
  bool bias = false;  // forward: the graph adds it

  /// Equal for equal problems only.
  std::vector<std::int64_t> key() const;
};

/// channels_last, which tensor cores need; contiguous where they are not used, for f64 and for f32
/// without TF32: cuDNN's other engines would transpose channels_last tensors in their workspace.
MemoryFormat conv_format(DType dtype, bool tf32);

/// The uids of a plan's tensors.
enum ConvUid : std::int64_t {
  uid_x = 1,
  uid_w,
  uid_y,
  uid_bias,
  uid_before_bias,
  uid_before_activation
};

/// Plans for a problem, the most promising first, at most `limit`. If no engine supports it: no
/// plans for a problem with a bias or an activation, otherwise CudaError, which describes the
/// problem.
std::vector<CudnnPlan> conv_plans(const ConvProblem& problem, const PlanTarget& target,
                                  std::size_t limit);

}  // namespace rondo::cuda
