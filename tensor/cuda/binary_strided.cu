// y = op(a, b), element by element, for any strides and dtypes: see binary.cu.

#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/elementwise.cuh"

namespace rondo::cuda {

void CudaBackend::binary_strided(BinaryOp op, const Tensor& a, const Tensor& b, const Tensor& y,
                                 OpParams params) {
  map_strided<3>(device_, op, params, {&a, &b, &y});
}

}  // namespace rondo::cuda
