// A profile of steps on a GPU, or on a simulated one. It changes no results, does not make the host
// wait, and has the device's times.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/gpu_training.h"
#include "support/simulated_gpu.h"
#include "tensor/cuda.h"
#include "train/profiler.h"

namespace rondo::train {
namespace {

class GpuProfile : public ::testing::TestWithParam<bool> {
 protected:
  GpuProfile() {
    if (cuda::device_count() == 0) simulated_.emplace(test::SimulatedGpus::Memory::caching);
    cuda::set_deterministic(true);
  }
  ~GpuProfile() override { cuda::set_deterministic(false); }

 private:
  std::optional<test::SimulatedGpus> simulated_;
};

TEST_P(GpuProfile, KnowsTheDevicesTimeAndChangesNothing) {
  const bool is_graph = GetParam();
  const test::Trained plain = test::trained(Device::cuda(0), 0, is_graph);
  Profiler profiler;
  std::uint64_t waits = 99;
  test::Trained profiled;
  {
    const auto recording = profiler.start();
    profiled = test::trained(Device::cuda(0), 0, is_graph, 0.3, nullptr, &waits);
  }
  test::expect_same(plain, profiled, 0);
  EXPECT_EQ(waits, 0u);
  double device_ms = 0;
  std::int64_t convolutions = 0;
  for (const KeyAverage& row : profiler.key_averages()) {
    device_ms += row.device_ms;
    EXPECT_GE(row.device_ms, 0) << row.name;
    if (row.name != "conv2d") continue;
    convolutions = row.calls;
    EXPECT_GT(row.device_ms, 0);
    EXPECT_GT(row.gflops_per_s(), 0);
  }
  // Two layers. Of the graph's steps, those that were not launched as one, and the capture.
  if (!is_graph) {
    EXPECT_EQ(convolutions, 24);
  }
  EXPECT_GT(convolutions, 0);
  EXPECT_GT(device_ms, 0);
  EXPECT_THAT(profiler.table(), ::testing::HasSubstr("device ms"));
}
INSTANTIATE_TEST_SUITE_P(EagerAndGraph, GpuProfile, ::testing::Bool());

}  // namespace
}  // namespace rondo::train
