// Int8 inference is the CPU's, as in PyTorch: on a GPU bf16 is there for the purpose.

#include "tensor/cuda/cuda_backend.h"

namespace rondo::cuda {
namespace {

[[noreturn]] void refuse() {
  throw DeviceError(
      "int8 layers run on the CPU alone: move the model there with to(Device::cpu()), or run the "
      "unquantised one under autocast(bf16)");
}

}  // namespace

void CudaBackend::quantize(const Tensor&, const Quantization&, const Tensor&) { refuse(); }
void CudaBackend::quantize_rows(const Tensor&, const Tensor&, const Tensor&, const Tensor&) {
  refuse();
}
void CudaBackend::int8_linear(const Tensor&, const Tensor&, const Tensor&, const Int8Weight&,
                              const Tensor&, const Tensor&, Activation) {
  refuse();
}
void CudaBackend::int8_conv2d(const Tensor&, const Quantization&, const Int8Weight&, const Tensor&,
                              bool, const Tensor&, const Conv2dParams&) {
  refuse();
}

}  // namespace rondo::cuda
