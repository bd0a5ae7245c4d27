#include "dist/collectives/sums.h"

#include <cstring>

#include "dist/collectives/dense.h"
#include "tensor/cpu/convert.h"

namespace rondo::dist {

Sums::Sums(const Tensor& x, ReduceOp op)
    : x_(x), dtype_(are_wide(x.dtype(), op) ? f32 : x.dtype()) {}

void* Sums::take() {
  memory_.resize(static_cast<std::size_t>(x_.numel() * size_of(dtype_)));
  void* into = memory_.data();
  const auto* from = static_cast<const char*>(x_.data_ptr());
  if (dtype_ != x_.dtype())
    cpu::load_row(x_.dtype(), from, size_of(x_.dtype()), x_.numel(), static_cast<float*>(into));
  else if (!memory_.empty())
    std::memcpy(into, from, memory_.size());
  return into;
}

void Sums::give(const Tensor& out, std::int64_t first) const {
  const void* from = memory_.data() + first * size_of(dtype_);
  auto* into = static_cast<char*>(out.data_ptr());
  if (dtype_ != out.dtype())
    cpu::store_row(out.dtype(), static_cast<const float*>(from), out.numel(), into,
                   size_of(out.dtype()));
  else if (out.numel() > 0)
    std::memcpy(into, from, bytes_of(out));
}

}  // namespace rondo::dist
