#include "tensor/cuda/runtime.h"

#include "tensor/cuda/cublaslt.h"
#include "tensor/cuda/cudnn.h"
#include "tensor/cuda/simulation.h"

namespace rondo::cuda {
namespace {

std::string version_text(int version) { return concat(version / 1000, '.', version % 1000 / 10); }

struct Availability {
  int devices = 0;
  std::string why;

  Availability() {
#if defined(RONDO_HOST_KERNELS)
    why = "this rondo was built with sanitizers, so its kernels run on the host only";
    return;
#endif
    int driver = 0;
    cudaError_t status = cudart().get_device_count(&devices);
    if (cudaDriverGetVersion(&driver) != cudaSuccess) driver = 0;
    cudart().get_last_error();  // clear the error state for the next call
    if (status != cudaSuccess) devices = 0;
    why = why_unavailable(status, devices, driver, CUDART_VERSION);
  }
};

const Availability& availability() {
  static const Availability found;
  return found;
}

}  // namespace

void check(cudaError_t status, std::source_location where) {
  if (status == cudaSuccess) [[likely]]
    return;
  cudart().get_last_error();
  throw CudaError(concat("CUDA: ", cudaGetErrorString(status), " (", cudaGetErrorName(status),
                         ") at ", where.file_name(), ":", where.line()));
}

int device_count() {
  if (!is_simulated()) return availability().devices;
  int devices = 0;
  check(cudart().get_device_count(&devices));
  return devices;
}

std::string why_unavailable() { return availability().why; }

std::string why_unavailable(cudaError_t status, int devices, int driver, int built_for) {
  if (status == cudaSuccess && devices > 0) return "";
  if (driver == 0) return "there is no NVIDIA driver on this machine";
  if (status == cudaErrorInsufficientDriver) {
    return concat("the NVIDIA driver is too old: it supports CUDA ", version_text(driver),
                  ", but this rondo was built for ", version_text(built_for));
  }
  if (status == cudaSuccess || status == cudaErrorNoDevice)
    return "there is a driver but no CUDA device (CUDA_VISIBLE_DEVICES may hide it)";
  return concat("CUDA cannot be initialised: ", cudaGetErrorString(status));
}

void require_device(int index) {
  const int devices = device_count();
  if (0 <= index && index < devices) return;
  if (devices == 0)
    throw DeviceError(concat("device cuda:", index, " is not available: ", why_unavailable()));
  throw DeviceError(concat(
      "device cuda:", index, " does not exist: there ",
      devices == 1 ? "is only cuda:0" : concat("are ", devices, ", cuda:0 to cuda:", devices - 1)));
}

std::string description(int device) {
  require_device(device);
  cudaDeviceProp card{};
  int driver = 0;
  check(cudart().get_device_properties(&card, device));
  check(cudart().driver_get_version(&driver));
  // ", NAME VERSION" of a library, or ", no NAME" if it cannot be loaded.
  auto version_of = [](const char* name, auto ask) {
    try {
      return concat(", ", name, ' ', ask());
    } catch (const CudaError&) {
      return concat(", no ", name);
    }
  };
  return concat(card.name, ", compute capability ", card.major, '.', card.minor, ", ",
                card.multiProcessorCount, " multiprocessors, ", card.totalGlobalMem >> 30,
                " GiB; driver for CUDA ", version_text(driver), ", runtime ",
                version_text(CUDART_VERSION),
                version_of("cuDNN",
                           [] {
                             const std::size_t v = cudnn().version();
                             return concat(v / 10000, '.', v % 10000 / 100, '.', v % 100);
                           }),
                version_of("cuBLASLt", [] {
                  const std::size_t v = cublaslt().version();
                  return concat(v / 10000, '.', v % 10000 / 100);
                }));
}

DeviceGuard::DeviceGuard(int index) : before_(index), index_(index) {
  thread_local bool has_used_one = false;
  if (!has_used_one) {
    check(cudart().set_device(index_));
    has_used_one = true;
    return;
  }
  check(cudart().get_device(&before_));
  if (before_ != index_) check(cudart().set_device(index_));
}

DeviceGuard::~DeviceGuard() {
  if (before_ != index_) cudart().set_device(before_);
}

}  // namespace rondo::cuda
