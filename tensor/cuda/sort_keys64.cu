// Keys of 64 bits: see sort_keys.h.
#include "tensor/cuda/sort_keys.cuh"

namespace rondo::cuda {

void sort_segments(int device, const Segments<std::uint64_t>& s) { sort_anywhere(device, s); }

}  // namespace rondo::cuda
