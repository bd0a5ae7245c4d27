// The doubles are as strict as a GPU: the host cannot touch its memory, and no kernel may write
// behind a block.

#include "support/device_memory.h"

#include <gtest/gtest.h>

#include "support/host_cudart.h"
#include "support/simulated_gpu.h"
#include "tensor/creation.h"
#include "tensor/cuda/stream.h"

namespace rondo::test {
namespace {

const Device gpu = Device::cuda(0);

class DeviceMemoryDeathTest : public ::testing::Test {
 protected:
  DeviceMemoryDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(DeviceMemoryDeathTest, TheHostCannotTouchIt) {
  const SimulatedGpus gpus;
  const Tensor x = ones({4}, {.device = gpu});
  auto* data = static_cast<volatile float*>(x.data_ptr());
  EXPECT_DEATH((void)data[0], "the host touched a GPU's memory outside of a kernel or copy");
  EXPECT_DEATH(data[3] = 2, "the host touched a GPU's memory outside of a kernel or copy");
  EXPECT_EQ(x.to(Device::cpu()).to_vector(), std::vector<float>(4, 1));  // a copy can
}

TEST_F(DeviceMemoryDeathTest, AWriteBehindABlockIsFound) {
  const SimulatedGpus gpus;
  auto write_behind = [] {
    const Tensor x = ones({5}, {.device = gpu});
    submit(nullptr, [data = x.data_ptr<float>()] {
      data[5] = 1;
      return true;
    });
    cuda::synchronize(0);
  };
  EXPECT_DEATH(write_behind(), "wrote behind a block of 20 bytes|use-after-poison");
}

TEST_F(DeviceMemoryDeathTest, ABlockIsFreedOnce) {
  void* data = allocate_device_memory(20);
  free_device_memory(data);
  EXPECT_DEATH(free_device_memory(data), "a block of 20 bytes of a GPU's memory is freed twice");
}

TEST(DeviceMemory, BlocksAreNaN) {
  for (int use = 0; use < 2; ++use) {  // fresh, and used before
    auto* data = static_cast<unsigned char*>(allocate_device_memory(1000));
    const DeviceAccess access;
    EXPECT_EQ(data[0], 0xFF);
    EXPECT_EQ(data[999], 0xFF);
    data[0] = 1;
    free_device_memory(data);
#if !defined(__SANITIZE_ADDRESS__)  // it reports the access
    EXPECT_EQ(data[0], 0xFF) << "a freed block keeps its values";
#endif
  }
}

}  // namespace
}  // namespace rondo::test
