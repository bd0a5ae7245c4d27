#pragma once
// The CUDA runtime in rondo: whether there is a GPU, and the errors of failed calls.
//
// cudart is linked statically, and the driver is located at run time: a rondo that was built with
// CUDA starts on every machine. Without a GPU, device_count() is 0 and why_unavailable() gives one
// of the three usual reasons.

#include <source_location>
#include <string>

#include "tensor/cuda.h"
#include "tensor/cuda/cudart.h"
#include "tensor/error.h"

namespace rondo {

/// A CUDA call that failed, or a device that is out of memory.
struct CudaError : Error {
  using Error::Error;
};
/// A device does not have enough free memory.
struct OutOfMemoryError : CudaError {
  using CudaError::CudaError;
};

namespace cuda {

/// Throws CudaError with the error and the source line. Also clears the error, so that the next
/// call does not report it again.
void check(cudaError_t status, std::source_location where = std::source_location::current());

/// why_unavailable() from the runtime's answers: the status of cudaGetDeviceCount, the number of
/// devices, and the versions (1000 major + 10 minor; 0: none) of the driver and of this build.
std::string why_unavailable(cudaError_t status, int devices, int driver, int built_for);

/// Makes a device current for the calling thread, and restores the previous one at the end. The
/// first device that a thread uses stays current: restoring device 0, which the thread never used,
/// would initialise that device and take half a gigabyte on a GPU that belongs to another rank.
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
