// Reductions of doubles: see reduce.cu.

#include "tensor/cuda/reduce.cuh"

namespace rondo::cuda {

void CudaBackend::reduce_double(FoldOp op, const Tensor& x, const Tensor& y) {
  visit_reduce(op, [&]<FoldOp o>() { reduce_with<o, double>(device_, x, y); });
}

}  // namespace rondo::cuda
