// Rotations of points (a, b), for rotary embeddings: one thread for each point.

#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/strided.cuh"

namespace rondo::cuda {
namespace {

template <class C>
struct Rotate {
  Operands<6> operands;  // a, b, cosine, sine, ya, yb
  RONDO_HD void operator()(std::int64_t i) const {
    const auto at = operands.locate(i);
    const C a = operands.template read<C>(at, 0), b = operands.template read<C>(at, 1),
            cosine = operands.template read<C>(at, 2), sine = operands.template read<C>(at, 3);
    operands.write(at, 4, a * cosine - b * sine);
    operands.write(at, 5, b * cosine + a * sine);
  }
};

}  // namespace

void CudaBackend::do_rotate(const Tensor& a, const Tensor& b, const Tensor& cosine,
                            const Tensor& sine, const Tensor& ya, const Tensor& yb) {
  const std::array<const Tensor*, 6> tensors = {&a, &b, &cosine, &sine, &ya, &yb};
  const Collapsed<6> shape(tensors);
  const Operands<6> operands(shape, tensors);
  visit_float_compute(ya.dtype(), "rotate",
                      [&]<class C>() { for_each(device_, shape.numel, Rotate<C>{operands}); });
}

}  // namespace rondo::cuda
