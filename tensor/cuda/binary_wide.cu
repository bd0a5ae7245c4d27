// y = op(a, b), element by element, of doubles and integers: see binary.cu.

#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/elementwise.cuh"
#include "tensor/functors.h"

namespace rondo::cuda {

void CudaBackend::binary_wide(BinaryOp op, const Tensor& a, const Tensor& b, const Tensor& y,
                              OpParams params) {
  if (a.dtype() == f64)
    return visit_binary<double>(op, params, LaunchMap<2, double>{device_, {&a, &b, &y}});
  visit_binary<std::int64_t>(op, params, LaunchMap<2, std::int64_t>{device_, {&a, &b, &y}});
}

}  // namespace rondo::cuda
