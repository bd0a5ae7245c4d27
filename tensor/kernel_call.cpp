#include "tensor/kernel_call.h"

#include <optional>
#include <string>

#include "tensor/record_function.h"
#ifdef RONDO_HAS_CUDA
#include "tensor/cuda/stream.h"
#include "tensor/cuda_graph.h"
#endif

namespace rondo {
namespace {

using Operands = std::initializer_list<const Tensor*>;

std::string shapes_of(Operands operands) {
  std::string text;
  for (const Tensor* x : operands)
    if (x->defined()) text += concat(text.empty() ? "" : ", ", x->shape(), ' ', x->dtype());
  return text;
}

double transfer_bytes_of(Operands operands) {
  double bytes = 0;
  for (const Tensor* x : operands) bytes += transfer_bytes(*x);
  return bytes;
}

}  // namespace

#ifdef RONDO_HAS_CUDA
/// Events in the current stream, before and after a kernel's launch.
class DeviceTime {
 public:
  explicit DeviceTime(Device device)
      : device_(device), is_timed_(device.is_cuda() && !cuda::is_capturing()) {
    if (is_timed_) start_ = marked();
  }
  void end(RecordKernel& kernel) const {
    if (!is_timed_) return;
    kernel.set_timer([start = *start_, end = marked()]() -> std::int64_t {
      end.synchronize();
      return static_cast<std::int64_t>(1e6 * static_cast<double>(end.ms_since(start)));
    });
  }

 private:
  cuda::Event marked() const {
    cuda::Event event(device_.index, /*with_time=*/true);
    event.record(cuda::current_stream(device_.index));
    return event;
  }
  Device device_;
  bool is_timed_;
  std::optional<cuda::Event> start_;
};
#else
struct DeviceTime {
  explicit DeviceTime(Device) {}
  void end(RecordKernel&) const {}
};
#endif

struct KernelCall::Open {
  RecordKernel kernel;
  DeviceTime time;
};

void KernelCall::begin(std::string_view name, const Work& work, Operands operands) {
  const std::string in_place = work.in_place ? concat(name, '_') : std::string();
  const Device device = operands.size() > 0 ? (*operands.begin())->device() : Device::cpu();
  open_ = new Open{
      RecordKernel(work.in_place ? in_place : name,
                   {.flops = work.flops, .bytes = work.bytes + transfer_bytes_of(operands)}),
      DeviceTime(device)};
  if (open_->kernel.wants_shapes() && operands.size() > 0)
    open_->kernel.set_shapes(shapes_of(operands));
}

void KernelCall::end() noexcept {
  try {
    open_->time.end(open_->kernel);
  } catch (const Error&) {  // the device failed, and the kernel itself has reported it
  }
  delete open_;
}

double transfer_bytes(const Tensor& x) {
  if (!x.defined()) return 0;
  double bytes = static_cast<double>(size_of(x.dtype()));
  for (std::int64_t d = 0; d < x.dim(); ++d)
    if (x.strides()[d] != 0 || x.shape()[d] == 0) bytes *= static_cast<double>(x.shape()[d]);
  return bytes;
}

}  // namespace rondo
