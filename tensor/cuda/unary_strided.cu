// y = op(x), element by element, for any strides and dtypes: see unary.cu.

#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/elementwise.cuh"

namespace rondo::cuda {

void CudaBackend::unary_strided(UnaryOp op, const Tensor& x, const Tensor& y, OpParams params) {
  map_strided<2>(device_, op, params, {&x, &y});
}

}  // namespace rondo::cuda
