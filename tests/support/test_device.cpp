#include "support/test_device.h"

#include <cstdlib>

#include "tensor/cuda.h"
#include "tensor/error.h"

#ifdef RONDO_HAS_CUDA
#include "support/simulated_gpu.h"
#endif

namespace rondo::test {
namespace {

Device chosen() {
  const char* name = std::getenv("RONDO_TEST_DEVICE");
  const Device device = name != nullptr ? Device::parse(name) : Device::cpu();
#ifdef RONDO_HAS_CUDA
  // Never freed: tensors of static storage outlive every scope.
  [[maybe_unused]] static const SimulatedGpus* simulated = nullptr;
  if (device.is_cuda() && cuda::device_count() == 0) simulated = new SimulatedGpus;
#endif
  return device;
}

}  // namespace

Device test_device() {
  static const Device device = chosen();
  return device;
}

}  // namespace rondo::test
