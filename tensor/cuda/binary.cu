// y = op(a, b), element by element: the wide kernels of elementwise.cuh with the functors for all
// devices. The strided kernels are in binary_strided.cu, so that neither file takes long to
// compile.

#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/elementwise.cuh"

namespace rondo::cuda {

void CudaBackend::do_binary(BinaryOp op, const Tensor& a, const Tensor& b, const Tensor& y,
                            OpParams params) {
  if (!map_packed<3>(device_, op, params, {&a, &b, &y})) binary_strided(op, a, b, y, params);
}

}  // namespace rondo::cuda
