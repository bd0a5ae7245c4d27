#pragma once
// fill: numbers that both PyTorch's side of a golden and rondo's can compute, so they need not be
// stored (tests/golden/golden.py has the same function).

#include <cstdint>

#include "tensor/creation.h"

namespace rondo::test {

/// float32(shift + scale u) as f64, where u is a hash of the element's number in [-1, 1).
inline Tensor fill(const Dims& shape, std::uint32_t key, double scale = 1, double shift = 0) {
  Tensor x = empty(shape, {.dtype = f64});
  auto* value = x.data_ptr<double>();
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    std::uint32_t h = static_cast<std::uint32_t>(i + 1) * 2654435761u + (key + 1) * 2246822519u;
    h = (h ^ h >> 15) * 2246822519u;
    h = (h ^ h >> 13) * 2246822519u;
    h ^= h >> 16;
    value[i] = static_cast<float>(shift + scale * ((h >> 8) * 0x1p-23 - 1));
  }
  return x;
}

/// The same in f32.
inline Tensor fill32(const Dims& shape, std::uint32_t key, double scale = 1, double shift = 0) {
  return fill(shape, key, scale, shift).to(f32);
}

}  // namespace rondo::test
