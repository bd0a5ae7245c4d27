// Memory of several simulated GPUs: copies between them, and the memory of a captured graph.

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <utility>

#include "support/host_cudart.h"
#include "support/simulated_gpu.h"
#include "tensor/creation.h"
#include "tensor/cuda.h"
#include "tensor/cuda/runtime.h"
#include "tensor/cuda_graph.h"

namespace rondo::cuda {
namespace {

using test::SimulatedGpus;

TEST(SeveralGpus, CopiesReachAPeerDirectlyWhereTheHardwareCan) {
  const SimulatedGpus gpus;
  const Tensor x = arange(6, {.device = Device::cuda(1)});
  for (int again = 0; again < 2; ++again) {
    for (const int other : {0, 2})
      EXPECT_EQ(x.to(Device::cuda(other)).to(Device::cpu()).sum().item<int>(), 15);
  }
  const std::set<std::pair<int, int>> enabled = test::enabled_peers();
  EXPECT_TRUE(enabled.contains({1, 0}));
  EXPECT_FALSE(enabled.contains({1, 2}));
}

// The kernels of the first tensor write to its address in every replay.
TEST(SeveralGpus, AGraphKeepsWhatItsKernelsUse) {
  constexpr std::size_t MiB = std::size_t{1} << 20;
  const SimulatedGpus gpus(SimulatedGpus::Memory::caching);
  empty_cache(0);
  test::set_memory_of_gpus(memory_stats(0).reserved + 100 * MiB);
  const TensorOptions bytes{.dtype = u8, .device = Device::cuda(0)};
  Graph graph(Device::cuda(0));
  graph.capture([&] {
    const std::size_t before = memory_stats(0).graphs;
    std::optional<Tensor> first = zeros({60 << 20}, bytes);
    first.reset();
    EXPECT_THROW(zeros({70 << 20}, bytes), OutOfMemoryError);
    EXPECT_EQ(memory_stats(0).graphs, before + 60 * MiB);
  });
  graph.replay();
  test::set_memory_of_gpus(std::size_t{1} << 40);
}

}  // namespace
}  // namespace rondo::cuda
