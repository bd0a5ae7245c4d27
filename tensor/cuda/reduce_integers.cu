// Reductions of integers and bool: see reduce.cu.

#include "tensor/cuda/reduce.cuh"

namespace rondo::cuda {

void CudaBackend::reduce_integers(ReductionOp op, const Tensor& x, const Tensor& y) {
  visit_reduce(op, [&]<ReductionOp o>() { reduce_with<o, std::int64_t>(device_, x, y); });
}

}  // namespace rondo::cuda
