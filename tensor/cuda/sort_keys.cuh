#pragma once
// Shared by the sorts of sort_keys.h.

#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include "tensor/cuda/launch.cuh"
#include "tensor/cuda/sort_keys.h"
#include "tensor/tensor.h"

namespace rondo::cuda {

/// The beginning of segment i.
struct SegmentBegin {
  std::int64_t length;
  RONDO_HD std::int64_t operator()(std::int64_t i) const { return i * length; }
};
inline auto segment_begins(std::int64_t length) {
  return thrust::make_transform_iterator(thrust::make_counting_iterator(std::int64_t{0}),
                                         SegmentBegin{length});
}

/// Calls run(scratch, bytes) twice: with null scratch it sets the number of bytes that it needs,
/// then it does the work.
template <class Run>
void with_scratch(int device, Run run) {
  std::size_t bytes = 0;
  check(run(nullptr, bytes));
  const Tensor scratch = Tensor::empty({static_cast<std::int64_t>(bytes) + 1},
                                       {.dtype = DType::u8, .device = Device::cuda(device)});
  check(run(scratch.data_ptr(), bytes));
}

}  // namespace rondo::cuda
