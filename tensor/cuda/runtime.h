#pragma once
// The CUDA runtime, as rondo sees it: is there a GPU, and what does a failed call say.
//
// cudart is linked statically, and the driver is found at run time: a rondo that was built with
// CUDA starts on every machine. Where there is no GPU, device_count() is 0 and why_unavailable()
// tells which of the three usual reasons it is.

#include <source_location>
#include <string>

#include "tensor/cuda.h"
#include "tensor/cuda/cudart.h"
#include "tensor/error.h"

namespace rondo {

/// A CUDA call that failed, or a device without memory.
struct CudaError : Error {
  using Error::Error;
};
/// A device has not so much memory left.
struct OutOfMemoryError : CudaError {
  using CudaError::CudaError;
};

namespace cuda {

/// Throws CudaError naming the error and the line, and clears it, so that the next call does not
/// report it again.
void check(cudaError_t status, std::source_location where = std::source_location::current());

/// why_unavailable() from what the runtime said: the status of cudaGetDeviceCount, the number of
/// devices, and the versions (1000 major + 10 minor; 0: none) of the driver and of this build.
std::string why_unavailable(cudaError_t status, int devices, int driver, int built_for);

/// Makes a device current for the calling thread, and the one before it again at the end. The first
/// device that a thread uses stays current: to make device 0 current again, where the thread never
/// was, would start it, and take half a gigabyte of a GPU that belongs to another rank.
class DeviceGuard {
 public:
  explicit DeviceGuard(int index);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int before_, index_;
};

}  // namespace cuda
}  // namespace rondo
