#pragma once
// Buckets: which gradients are reduced together.
//
// One all-reduce for each parameter would pay the latency a hundred times. One all-reduce for all
// of them could start only after backward. Therefore gradients are packed into buckets, in the
// reverse order of the parameters, which is nearly the order in which backward completes them. The
// first bucket is small, so that communication starts early. The others have at most
//
//   capacity = clamp(bytes of all gradients / 8, 64 KiB, 25 MiB)
//
// bytes, or `least_bytes` if that is more. A parameter larger than that has its own bucket. A
// bucket is dense, without padding, and each gradient is a view of it; see
// Note [Gradients live in buckets] in autograd/autograd_meta.h. Gradients that fill whole cache
// lines come first: behind the 40 bytes of a bias of 10 elements they would all be misaligned, and
// kernels that load 16 bytes at a time would have to copy them. Every rank computes the same plan
// from the same parameters.

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/dtype.h"

namespace rondo::dist {

inline constexpr std::int64_t cache_line = 64;  // bytes

struct GradientSize {
  std::int64_t numel;
  DType dtype;
};

struct BucketSlice {
  std::size_t parameter;    // index into the parameters
  std::int64_t offset = 0;  // first element
};

struct BucketPlan {
  DType dtype;
  std::int64_t numel = 0;
  std::vector<BucketSlice> slices;  // in the order in which backward completes them
};

struct BucketOptions {
  std::int64_t bucket_bytes = 0;        // 0: the capacity above
  std::int64_t first_bucket_bytes = 0;  // 0: capacity / 8, at least 16 KiB
  std::int64_t least_bytes = 0;         // lower limit of both, where they are 0
};

/// The buckets in the order in which they will be launched. Gradients in a bucket have one dtype.
std::vector<BucketPlan> plan_buckets(std::span<const GradientSize> gradients,
                                     BucketOptions options = {});

}  // namespace rondo::dist
