// y = op(x), element by element: the wide kernels of elementwise.cuh with the functors for all
// devices. The strided kernels are in unary_strided.cu, so that neither file takes long to compile.

#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/elementwise.cuh"

namespace rondo::cuda {

void CudaBackend::do_unary(UnaryOp op, const Tensor& x, const Tensor& y, OpParams params) {
  if (!map_packed<2>(device_, op, params, {&x, &y})) unary_strided(op, x, y, params);
}

}  // namespace rondo::cuda
