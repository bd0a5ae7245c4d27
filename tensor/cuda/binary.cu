// y = op(a, b), element by element, of floats of 32 and 16 bits; binary_wide.cu does the rest, so
// that neither file takes long to compile.

#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/elementwise.cuh"
#include "tensor/functors.h"

namespace rondo::cuda {

void CudaBackend::binary(BinaryOp op, const Tensor& a, const Tensor& b, const Tensor& y,
                         OpParams params) {
  if (a.dtype() == f64 || !is_floating(a.dtype())) return binary_wide(op, a, b, y, params);
  visit_binary<float>(op, params, LaunchMap<2, float>{device_, {&a, &b, &y}});
}

}  // namespace rondo::cuda
