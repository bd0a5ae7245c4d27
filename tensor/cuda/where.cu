// y = condition ? a : b, element by element. Elements are moved without being interpreted.

#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/strided.cuh"

namespace rondo::cuda {
namespace {

template <class Word>
struct Where {
  Operands<4> operands;
  RONDO_HD void operator()(std::int64_t i) const {
    const auto at = operands.locate(i);
    const char* from = *reinterpret_cast<const bool*>(at.at[0]) ? at.at[1] : at.at[2];
    *reinterpret_cast<Word*>(at.at[3]) = *reinterpret_cast<const Word*>(from);
  }
};

}  // namespace

void CudaBackend::do_where(const Tensor& condition, const Tensor& a, const Tensor& b,
                           const Tensor& y) {
  const std::array<const Tensor*, 4> tensors = {&condition, &a, &b, &y};
  const Collapsed<4> shape(tensors);
  const Operands<4> operands(shape, tensors);
  visit_word(y.dtype(),
             [&]<class Word>() { for_each(device_, shape.numel, Where<Word>{operands}); });
}

}  // namespace rondo::cuda
