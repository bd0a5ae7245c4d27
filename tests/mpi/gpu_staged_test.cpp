// Tensors on GPUs over MPI through the host, with 1 to 4 ranks. The GPUs are simulated: each
// process has its own, and its side streams run as late as possible.

#include <gtest/gtest.h>

#include "dist/collectives/device_collectives.h"
#include "dist/launch/device.h"
#include "support/collectives.h"
#include "support/ddp_checks.h"
#include "support/mpi_main.h"
#include "support/simulated_gpu.h"

namespace rondo::dist {
namespace {

class GpuOverMpi : public ::testing::Test {
 protected:
  GpuOverMpi()
      : comm(init(
            {.backend = "mpi",
             .communicator = {.all_reduce = AllReduce::mpi, .timeout = std::chrono::seconds(60)}})),
        device(use_device(*comm, "cuda")) {}
  ~GpuOverMpi() override { comm->barrier(); }

 private:
  test::SimulatedGpus gpus_;

 protected:
  std::shared_ptr<Communicator> comm;
  Device device;
};

TEST_F(GpuOverMpi, EachRankHasTheGpuOfItsNumber) {
  EXPECT_EQ(device, Device::cuda(comm->rank() % 4));
  if (comm->world_size() > 1) {
    EXPECT_STREQ(comm->gpu()->name(), "staged");
  }
}

TEST_F(GpuOverMpi, Collectives) {
  test::check_all_reduce(*comm, AllReduce::mpi, device);
  test::check_all_reduce(*comm, AllReduce::ring, device);
  test::check_broadcast(*comm, device);
  test::check_gather_and_scatter(*comm, device);
}

TEST_F(GpuOverMpi, DdpEqualsOneProcess) {
  const BucketOptions small{.bucket_bytes = 1000, .first_bucket_bytes = 500};
  test::check_equals_one_process<test::TinyMlp>(comm, {20}, f64, 1e-12, small, device);
  test::check_no_sync(comm, device);
  test::check_losses(comm, device);
}

}  // namespace
}  // namespace rondo::dist
