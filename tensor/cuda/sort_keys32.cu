// Keys of 32 bits: see sort_keys.h.
#include "tensor/cuda/sort_keys.cuh"

namespace rondo::cuda {

void sort_segments(int device, const Segments<std::uint32_t>& s) { sort_anywhere(device, s); }

}  // namespace rondo::cuda
