#pragma once
// MeasuredPlans: simulated GPUs on which cuDNN's engines are faster than rondo's kernels, or
// slower.

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "support/host_cudart.h"
#include "support/host_cudnn.h"
#include "support/host_cudnn_node.h"
#include "support/simulated_gpu.h"
#include "tensor/cuda.h"
#include "tensor/cuda/cudart.h"
#include "tensor/cuda/cudnn.h"

namespace rondo::test {

/// GPUs on which each measurement is slower than the one before it, or faster. cuDNN's engines are
/// tried before rondo's kernels.
class MeasuredPlans : public ::testing::Test {
 protected:
  void favour_cudnn(bool yes) {
    direction = yes ? 1 : -1;
    auto* runtime = new cuda::Cudart(host_cudart());
    runtime->event_elapsed_time = [](float* ms, cudaEvent_t, cudaEvent_t) {
      *ms = static_cast<float>(1000000 + direction * ++calls);
      return cudaSuccess;
    };
    cuda::set_cudart(runtime);
    // Choices are keyed by the table's address, so the table is never freed.
    auto* library = new cuda::Cudnn(host_cudnn());
    library->execute = [](cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                          cudnnBackendDescriptor_t pack) {
      ++executed;
      uids = of(pack).all<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
      return fails ? CUDNN_STATUS_EXECUTION_FAILED : host_cudnn().execute(handle, plan, pack);
    };
    cuda::set_cudnn(library);
    tables_.push_back({runtime, library});
    cuda::measure_plans(true);
    executed = 0;
  }
  ~MeasuredPlans() override {
    cuda::measure_plans(false);
    cuda::set_deterministic(false);
    fails = false;
  }

  static inline int direction = 1, calls = 0, executed = 0;
  static inline bool fails = false;
  static inline std::vector<std::int64_t> uids;  // of the tensors of the last execution
  SimulatedGpus gpus_;

 private:
  static inline std::vector<std::pair<cuda::Cudart*, cuda::Cudnn*>> tables_;
};

}  // namespace rondo::test
