#include "tensor/backend.h"

#include <array>
#include <utility>

#include "tensor/cpu/cpu_backend.h"
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
  detail::fail<DeviceError>({op, ": ", x.device(), " has no kernel for ", x.dtype()});
}

}  // namespace

void Backend::do_layer_norm(const Tensor& x, const Tensor&, const Tensor&, double, const Tensor&,
                            const Tensor&, const Tensor&) {
  no_kernel("layer_norm", x);
}
void Backend::do_layer_norm_backward(const Tensor&, const Tensor& x, const Tensor&, const Tensor&,
                                     const Tensor&, const Tensor&, const Tensor&, const Tensor&) {
  no_kernel("layer_norm", x);
}
void Backend::do_lstm(const Tensor& of_x, const Tensor&, bool, const Tensor&, const Tensor&,
                      const Tensor&) {
  no_kernel("lstm", of_x);
}
void Backend::do_lstm_backward(const Tensor& w, const Tensor&, const Tensor&, bool, const Tensor&,
                               const Tensor&, const Tensor&, const Tensor&) {
  no_kernel("lstm", w);
}
void Backend::do_group_norm(const Tensor& x, std::int64_t, const Tensor&, const Tensor&, double,
                            const Tensor&, const Tensor&, const Tensor&) {
  no_kernel("group_norm", x);
}
void Backend::do_group_norm_backward(const Tensor&, const Tensor& x, std::int64_t, const Tensor&,
                                     const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                     const Tensor&) {
  no_kernel("group_norm", x);
}

void Backend::do_attention(const Tensor& q, const Tensor&, const Tensor&, const AttentionParams&,
                           const Tensor&, const Tensor&) {
  no_kernel("attention", q);
}
void Backend::do_attention_backward(const Tensor&, const Tensor& q, const Tensor&, const Tensor&,
                                    const AttentionParams&, const Tensor&, const Tensor&,
                                    const Tensor&, const Tensor&, const Tensor&) {
  no_kernel("attention", q);
}

void Backend::sgd_steps(std::span<const SgdTensors> all, const Tensor& rates,
                        const SgdParams& params, const Tensor& found_inf) {
  double bytes = 0;
  if (is_recording())
    for (const SgdTensors& t : all)
      bytes += 2 * transfer_bytes(t.p) + transfer_bytes(t.g) + 2 * transfer_bytes(t.buffer);
  const KernelCall call("sgd_steps", {.bytes = bytes}, rates);
  do_sgd_steps(all, rates, params, found_inf);
}

void Backend::adam_steps(std::span<const AdamTensors> all, const Tensor& rates,
                         const AdamParams& params, const Tensor& found_inf) {
  double bytes = 0;
  if (is_recording())
    for (const AdamTensors& t : all)
      bytes += transfer_bytes(t.g) + 2 * (transfer_bytes(t.p) + transfer_bytes(t.m) +
                                          transfer_bytes(t.v) + transfer_bytes(t.max_v));
  const KernelCall call("adam_steps", {.bytes = bytes}, rates);
  do_adam_steps(all, rates, params, found_inf);
}

void Backend::unscale(std::span<const Tensor> gradients, const Tensor& scale,
                      const Tensor& found_inf) {
  double bytes = 0;
  if (is_recording())
    for (const Tensor& g : gradients) bytes += 2 * transfer_bytes(g);
  const KernelCall call("unscale", {.bytes = bytes}, scale);
  do_unscale(gradients, scale, found_inf);
}

void Backend::do_sgd_steps(std::span<const SgdTensors> all, const Tensor& rates,
                           const SgdParams& params, const Tensor& found_inf) {
  if (found_inf.defined() && found_inf.item<float>() != 0) return;
  for (const SgdTensors& t : all) do_sgd_step(t.p, t.g, t.buffer, rates, params);
}

void Backend::do_adam_steps(std::span<const AdamTensors> all, const Tensor& rates,
                            const AdamParams& params, const Tensor& found_inf) {
  if (found_inf.defined() && found_inf.item<float>() != 0) return;
  for (const AdamTensors& t : all) do_adam_step(t.p, t.g, t.m, t.v, t.max_v, rates, t.step, params);
}

Backend& backend(Device device) {
  if (Backend* found = installed(device)) return *found;
#ifdef RONDO_HAS_CUDA
  return cuda::backend_of(device.index);
#else
  throw DeviceError(
      concat("device ", device, " is not available: this rondo was built without CUDA"));
#endif
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
  x.require_defined(name_of(op), "the input");
  Tensor y = Tensor::empty_like(x);
  backend(x).unary(op, x, y, params);
  return y;
}

}  // namespace rondo
