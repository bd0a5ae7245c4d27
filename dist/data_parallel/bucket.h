#pragma once
// Buckets: which gradients travel together.
//
// One all-reduce a parameter would pay its latency a hundred times; one for all of them could only
// start when backward has ended. So gradients are packed into buckets, in the reverse order of the
// parameters, which is nearly the order in which backward completes them. The first bucket is
// small, so that communication starts early; the others have at most
//
//   capacity = clamp(bytes of all gradients / 8, 64 KiB, 25 MiB)
//
// or `least_bytes` where that is more, and a parameter larger than that has a bucket of its own. No
// padding: a bucket is dense, and each gradient a view of it (Note [Gradients live in buckets] in
// autograd/variable.h). Every rank computes the same plan from the same parameters.

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/dtype.h"

namespace rondo::dist {

struct GradientSize {
  std::int64_t numel;
  DType dtype;
};

struct BucketSlice {
  std::size_t parameter;  // index into the parameters
  std::int64_t offset;    // first element
};

struct BucketPlan {
  DType dtype;
  std::int64_t numel = 0;
  std::vector<BucketSlice> slices;
};

struct BucketOptions {
  std::int64_t bucket_bytes = 0;        // 0: the capacity above
  std::int64_t first_bucket_bytes = 0;  // 0: capacity / 8, at least 16 KiB
  std::int64_t least_bytes = 0;         // of both, where they are 0
};

/// The buckets in the order in which they will be launched. Gradients of different dtypes never
/// share one.
std::vector<BucketPlan> plan_buckets(std::span<const GradientSize> gradients,
                                     BucketOptions options = {});

}  // namespace rondo::dist
