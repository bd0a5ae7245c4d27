// Kernels with faults that a loop on the host cannot have: each must be found, and the message must
// name what is wrong, the thread, the block and the kernel.

#include "ptx/faults.h"

#include <gtest/gtest.h>

#include <numeric>
#include <type_traits>

#include "ptx/launch.h"
#include "ptx/races.h"
#include "ptx/requests.h"
#include "support/device_memory.h"
#include "support/simulated_gpu.h"
#include "tensor/creation.h"
#include "tensor/cuda/stream.h"

namespace rondo::test {
namespace {

class Faults : public ::testing::Test {
 protected:
  Faults() {
    std::iota(x, x + 256, 0.0f);
    ptx::look_for_races(false);
    GTEST_FLAG_SET(death_test_style, "fast");
  }
  /// Launches a kernel and waits for it.
  template <class... Args>
  static void run(void (*launch)(Args...), std::type_identity_t<Args>... args) {
    launch(args...);
    cuda::synchronize(0);
  }
  SimulatedGpus gpus;
  alignas(16) float x[256];
};

TEST_F(Faults, AKernelWithoutFaultsRuns) {
  run(launch_sum, x, 10);
  EXPECT_EQ(x[0], 45);
  run(launch, 2, 3, 256, 1024);
}

TEST_F(Faults, MisalignedVectorsAreFound) {
  EXPECT_DEATH(run(launch_misaligned, x),
               "misaligned access: 16 bytes at an address 4 after a multiple of that: thread 0 of "
               "block 0 of .*misaligned\\(float\\*\\)");
}

TEST_F(Faults, BarriersThatNotAllThreadsReachAreFound) {
  EXPECT_DEATH(run(launch_divergent_barrier, x),
               "threads of a block wait at different barriers: thread .*divergent_barrier");
  EXPECT_DEATH(run(launch_early_end, x),
               "a barrier waits for a thread that has ended: thread 8 of block 0 of .*early_end");
}

TEST_F(Faults, ShufflesFromLanesThatAreGoneAreFound) {
  EXPECT_DEATH(run(launch_lost_lane, x),
               "waits for lane 3, which has ended .*: thread .*lost_lane");
  EXPECT_DEATH(run(launch_wrong_mask, x),
               "a lane is not in the mask of its own shuffle.*wrong_mask");
}

TEST_F(Faults, SharedMemoryHasAnEnd) {
  EXPECT_DEATH(run(launch_small_shared, x),
               "access outside of shared memory: 4 bytes at 252 of 252: thread 63 of block 0 of "
               ".*small_shared");
}

TEST_F(Faults, BlocksOfMemoryHaveAnEnd) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a forked process shares a GPU's memory
  const Tensor y = zeros({32}, {.device = Device::cuda(0)});
  run(launch_beyond, y.data_ptr<float>(), 0);
  EXPECT_DEATH(run(launch_beyond, y.data_ptr<float>(), 1),
               "access outside of a block of memory: 4 bytes, which reach 4 beyond its end: thread "
               "31 of block "
               "0 of .*beyond");
  auto* freed = static_cast<float*>(allocate_device_memory(128));
  free_device_memory(freed);
  EXPECT_DEATH(run(launch_beyond, freed, 0), "access outside of a block of memory: 4 bytes: thr");
}

TEST_F(Faults, RacesAreFound) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Tensor y = zeros({256}, {.device = Device::cuda(0)});
  auto* data = y.data_ptr<float>();
  ptx::look_for_races(true);
  run(launch_with_barrier, data);
  run(launch_in_warps, data);
  EXPECT_EQ(y.to(Device::cpu()).data_ptr<float>()[64], 191 + 64);
  EXPECT_DEATH(run(launch_neighbours, data),
               "a race: it (reads|writes) what .* ha(s|ve) (written|read), and nothing orders "
               "the two: thread 0 of block 1 of .*neighbours");
  EXPECT_DEATH(run(launch_without_barrier, data), "a race: .*without_barrier");
}

TEST_F(Faults, SectorsAreCounted) {
  const Tensor y = zeros({256}, {.device = Device::cuda(0)});
  const auto counted = [] {
    for (const auto& [kernel, r] : ptx::requests())
      if (kernel.find("every_eighth") != std::string::npos) return r;
    return ptx::Requests();
  };
  const ptx::Requests before = counted();
  run(launch_every_eighth, y.data_ptr<float>());
  EXPECT_EQ(counted().bytes - before.bytes, 2 * 32 * 4);
  EXPECT_EQ(counted().sectors - before.sectors, 4 + 32);
}

TEST_F(Faults, AMissingBarrierGivesWrongNumbers) {
  run(launch_without_barrier, x);
  int wrong = 0;
  for (int i = 0; i < 256; ++i) wrong += x[i] != static_cast<float>(255 - i);
  EXPECT_GT(wrong, 0);
}

TEST_F(Faults, LaunchesThatNoGpuAcceptsAreRefused) {
  EXPECT_DEATH(run(launch, 1, 1, 257, 2048),
               "no GPU launches .*bounded\\(\\): a block of 257 x 1 x 1 threads; at most 256");
  EXPECT_DEATH(run(launch, 1, 65536, 32, 1024), "a grid of 1 x 65536 x 1 blocks; at most");
  EXPECT_DEATH(run(launch, 0, 1, 32, 1024), "a grid of 0 x 1 x 1 blocks; at most");
  EXPECT_DEATH(run(launch, 1, 1, 32, 49153), "49153 bytes of shared memory; at most 49152");
}

TEST_F(Faults, LongLoopsOfFewThreadsAreNoted) {
  const std::size_t before = ptx::long_loops().size();
  run(launch_lone_loop, x, 400);
  ASSERT_EQ(ptx::long_loops().size(), before);
  run(launch_lone_loop, x, 500);
  ASSERT_EQ(ptx::long_loops().size(), before + 1);
  const ptx::LongLoop& noted = ptx::long_loops().back();
  EXPECT_NE(noted.kernel.find("lone_loop"), std::string::npos);
  EXPECT_EQ(noted.threads, 32);
  EXPECT_EQ(noted.steps, 499);
  EXPECT_EQ(noted.bytes, 32 * (500 + 1) * 4);
}

}  // namespace
}  // namespace rondo::test
