// y = op(x), element by element: the kernels of elementwise.cuh with the functors of all devices.

#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/elementwise.cuh"
#include "tensor/functors.h"

namespace rondo::cuda {

void CudaBackend::unary(UnaryOp op, const Tensor& x, const Tensor& y, OpParams params) {
  visit_compute_type(x.dtype(), [&]<class C>() {
    visit_unary<C>(op, params, LaunchMap<1, C>{device_, {&x, &y}});
  });
}

}  // namespace rondo::cuda
