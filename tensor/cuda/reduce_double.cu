// Reductions of doubles: see reduce.cu.

#include "tensor/cuda/reduce.cuh"

namespace rondo::cuda {

void CudaBackend::reduce_double(ReductionOp op, const Tensor& x, const Tensor& y) {
  visit_reduce(op, [&]<ReductionOp o>() { reduce_with<o, double>(device_, x, y); });
}

}  // namespace rondo::cuda
