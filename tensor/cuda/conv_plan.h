#pragma once
// Plans for convolutions: which of cuDNN's engines computes a problem, and what it needs for that
// (cudnn_plan.h). Tests make one for every layer of the ResNets, without a GPU.

#include <cstdint>
#include <vector>

#include "tensor/backend.h"
#include "tensor/cuda/cudnn_plan.h"

namespace rondo::cuda {

enum class ConvPass { forward, backward_input, backward_weight };

/// What a plan is made for. Shapes, since layouts follow from the dtype (conv_format).
struct ConvProblem {
  int device = 0;
  ConvPass pass;
  DType dtype;
  bool tf32 = false, deterministic = false, measured = false;
  Dims x, w, y;
  Conv2dParams params = {};

  /// Equal for equal problems.
  std::vector<std::int64_t> key() const;
};

/// channels_last, but for f64: contiguous.
MemoryFormat conv_format(DType dtype);

/// The names under which a plan knows its tensors.
enum ConvUid : std::int64_t { uid_x = 1, uid_w = 2, uid_y = 3 };

/// Plans for a problem, the one that promises most first; at least one and at most `limit`. Throws
/// CudaError naming the problem when no engine can do it.
std::vector<CudnnPlan> conv_plans(const ConvProblem& problem, const PlanTarget& target,
                                  std::size_t limit);

}  // namespace rondo::cuda
