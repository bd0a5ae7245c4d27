#include "tensor/backend.h"

#include <array>
#include <utility>

#include "tensor/cpu/cpu_backend.h"
#include "tensor/observed_backend.h"
#include "tensor/record_function.h"
#ifdef RONDO_HAS_CUDA
#include "tensor/cuda/cuda_backend.h"
#endif

namespace rondo {
namespace {

constexpr std::size_t most_gpus = 64;

Backend*& installed(Device device) {
  static Backend* cpu = &cpu::CpuBackend::instance();
  static std::array<Backend*, most_gpus> gpus{};
  if (device.is_cpu()) return cpu;
  const auto index = static_cast<std::size_t>(device.index);
  require<DeviceError>(index < most_gpus, "device ", device, " does not exist");
  return gpus[index];
}

[[noreturn]] void no_kernel(const char* op, const Tensor& x) {
  throw DeviceError(concat(op, ": ", x.device(), " has no kernel for ", x.dtype()));
}

}  // namespace

void Backend::layer_norm(const Tensor& x, const Tensor&, const Tensor&, double, const Tensor&,
                         const Tensor&, const Tensor&) {
  no_kernel("layer_norm", x);
}
void Backend::layer_norm_backward(const Tensor&, const Tensor& x, const Tensor&, const Tensor&,
                                  const Tensor&, const Tensor&, const Tensor&, const Tensor&) {
  no_kernel("layer_norm", x);
}
void Backend::group_norm(const Tensor& x, std::int64_t, const Tensor&, const Tensor&, double,
                         const Tensor&, const Tensor&, const Tensor&) {
  no_kernel("group_norm", x);
}
void Backend::group_norm_backward(const Tensor&, const Tensor& x, std::int64_t, const Tensor&,
                                  const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                  const Tensor&) {
  no_kernel("group_norm", x);
}

Backend& unobserved_backend(Device device) {
  if (Backend* found = installed(device)) return *found;
#ifdef RONDO_HAS_CUDA
  return cuda::backend_of(device.index);
#else
  throw DeviceError(
      concat("device ", device, " is not available: this rondo was built without CUDA"));
#endif
}

Backend& backend(Device device) {
  return is_recording() ? observed_backend(device) : unobserved_backend(device);
}

Backend* set_backend(Device device, Backend* replacement) {
  return std::exchange(installed(device), replacement);
}

Allocator& allocator_of(Device device) { return backend(device).allocator(); }

void require_one_device(const char* op, std::initializer_list<Tensor> tensors) {
  const Tensor* first = nullptr;
  for (const Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    if (first == nullptr) first = &tensor;
    require<DeviceError>(tensor.device() == first->device(), op,
                         ": tensors are on different devices, ", first->device(), " and ",
                         tensor.device());
  }
}

void apply_activation(Activation activation, const Tensor& x) {
  switch (activation) {
    case Activation::none:
      return;
    case Activation::relu:
      return backend(x).unary(UnaryOp::relu, x, x);
    case Activation::gelu_tanh:
      return backend(x).unary(UnaryOp::gelu_tanh, x, x);
  }
}

Tensor apply_unary(UnaryOp op, const Tensor& x, OpParams params) {
  Tensor y = Tensor::empty_like(x);
  backend(x).unary(op, x, y, params);
  return y;
}

}  // namespace rondo
