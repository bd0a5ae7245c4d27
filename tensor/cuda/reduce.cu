// Reductions of 32-bit and 16-bit floats. reduce_double.cu and reduce_integers.cu do the others, so
// that no file takes long to compile.

#include "tensor/cuda/reduce.cuh"

namespace rondo::cuda {

void CudaBackend::do_reduce(ReductionOp op, const Tensor& x, const Tensor& y) {
  if (y.numel() == 0) return;
  if (x.dtype() == f64) return reduce_double(op, x, y);
  if (!is_floating(x.dtype())) return reduce_integers(op, x, y);
  visit_reduce(op, [&]<ReductionOp o>() { reduce_with<o, float>(device_, x, y); });
}

}  // namespace rondo::cuda
