// The CUDA runtime: its errors, and the reason if it finds no device.

#include "tensor/cuda/runtime.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/errors.h"
#include "tensor/cuda.h"

namespace rondo::test {
namespace {

using ::testing::HasSubstr;

TEST(CudaRuntime, WhyThereIsNoDevice) {
  using cuda::why_unavailable;
  EXPECT_EQ(why_unavailable(cudaSuccess, 1, 13000, 13000), "");
  EXPECT_EQ(why_unavailable(cudaErrorInsufficientDriver, 0, 0, 13000),
            "there is no NVIDIA driver on this machine");
  EXPECT_EQ(
      why_unavailable(cudaErrorInsufficientDriver, 0, 12020, 13000),
      "the NVIDIA driver is too old: it supports CUDA 12.2, but this rondo was built for 13.0");
  EXPECT_THAT(why_unavailable(cudaErrorNoDevice, 0, 13000, 13000), HasSubstr("no CUDA device"));
  EXPECT_THAT(why_unavailable(cudaSuccess, 0, 13000, 13000), HasSubstr("no CUDA device"));
  if (cuda::device_count() == 0) {
    EXPECT_ERROR(cuda::require_device(0), DeviceError, "device cuda:0 is not available: ");
    EXPECT_NE(why_unavailable(), "");
  } else {
    EXPECT_ERROR(cuda::require_device(99), DeviceError, "device cuda:99 does not exist: there ");
  }
  EXPECT_ERROR(cuda::check(cudaErrorInvalidValue), CudaError,
               "invalid argument (cudaErrorInvalidValue) at ");
}

}  // namespace
}  // namespace rondo::test
