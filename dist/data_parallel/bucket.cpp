#include "dist/data_parallel/bucket.h"

#include <algorithm>
#include <map>

namespace rondo::dist {
namespace {

/// Gives each slice its place: first the gradients of whole cache lines, so that they are aligned,
/// then the others.
void place_slices(BucketPlan& bucket, std::span<const GradientSize> gradients) {
  const std::int64_t line = cache_line / size_of(bucket.dtype);
  std::int64_t next = 0;
  for (const bool whole_lines : {true, false}) {
    for (BucketSlice& slice : bucket.slices) {
      const std::int64_t numel = gradients[slice.parameter].numel;
      if ((numel % line == 0) != whole_lines) continue;
      slice.offset = next;
      next += numel;
    }
  }
}

}  // namespace

std::vector<BucketPlan> plan_buckets(std::span<const GradientSize> gradients,
                                     BucketOptions options) {
  std::int64_t total = 0;
  for (const GradientSize& g : gradients) total += g.numel * size_of(g.dtype);
  std::int64_t capacity = options.bucket_bytes;
  if (capacity <= 0)
    capacity =
        std::max(std::clamp<std::int64_t>(total / 8, 64 << 10, 25 << 20), options.least_bytes);
  std::int64_t first = options.first_bucket_bytes;
  if (first <= 0)
    first =
        std::min(capacity, std::max<std::int64_t>({capacity / 8, 16 << 10, options.least_bytes}));

  std::vector<BucketPlan> closed;
  std::map<DType, BucketPlan> open;
  for (std::size_t i = gradients.size(); i-- > 0;) {
    const GradientSize& g = gradients[i];
    BucketPlan& bucket = open.try_emplace(g.dtype, BucketPlan{g.dtype, 0, {}}).first->second;
    std::int64_t limit = closed.empty() ? first : capacity;
    if (!bucket.slices.empty() && (bucket.numel + g.numel) * size_of(g.dtype) > limit) {
      closed.push_back(std::move(bucket));
      bucket = {g.dtype, 0, {}};
    }
    bucket.slices.push_back({i});
    bucket.numel += g.numel;
  }
  // The buckets that are still open, in the order in which their last gradient will be complete.
  std::vector<BucketPlan> rest;
  for (auto& [dtype, bucket] : open) rest.push_back(std::move(bucket));
  std::sort(rest.begin(), rest.end(), [](const BucketPlan& a, const BucketPlan& b) {
    return a.slices.back().parameter > b.slices.back().parameter;
  });
  for (BucketPlan& bucket : rest) closed.push_back(std::move(bucket));
  for (BucketPlan& bucket : closed) place_slices(bucket, gradients);
  return closed;
}

}  // namespace rondo::dist
