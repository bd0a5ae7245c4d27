// Rotations of points (a, b), for rotary embeddings: one thread for each point, or for eight whose
// numbers are in one piece.

#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/packed.cuh"

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

/// Call i rotates points 8 i … 8 i + 7.
struct RotateEight {
  OctetOperands<6> operands;
  RONDO_HD void operator()(std::int64_t i) const {
    const std::int64_t first = 8 * i;
    const auto at = operands.locate(first);
    const Octet<float> a = operands.load(at, 0, first), b = operands.load(at, 1, first),
                       cosine = operands.load(at, 2, first), sine = operands.load(at, 3, first);
    Octet<float> ya, yb;
    for (int k = 0; k < 8; ++k) {
      ya.values[k] = a.values[k] * cosine.values[k] - b.values[k] * sine.values[k];
      yb.values[k] = b.values[k] * cosine.values[k] + a.values[k] * sine.values[k];
    }
    operands.store(at, 4, first, ya);
    operands.store(at, 5, first, yb);
  }
};

}  // namespace

void CudaBackend::do_rotate(const Tensor& a, const Tensor& b, const Tensor& cosine,
                            const Tensor& sine, const Tensor& ya, const Tensor& yb) {
  const std::array<const Tensor*, 6> tensors = {&a, &b, &cosine, &sine, &ya, &yb};
  const Collapsed<6> shape(tensors);
  if (const auto eight = octets(shape, tensors, 2))
    return for_each(device_, (shape.numel + 7) / 8, RotateEight{*eight});
  const Operands<6> operands(shape, tensors);
  visit_float_compute(ya.dtype(), "rotate",
                      [&]<class C>() { for_each(device_, shape.numel, Rotate<C>{operands}); });
}

}  // namespace rondo::cuda
