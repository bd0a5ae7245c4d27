#include "dist/data_parallel/hooks/top_k.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/scatter.h"
#include "autograd/ops/unary.h"
#include "tensor/creation.h"
#include "tensor/error.h"

namespace rondo::dist {

TopKHook::TopKHook(double ratio) : ratio_(ratio) {
  require<CommError>(ratio > 0 && ratio <= 1, "topk: ratio ", ratio,
                     ", but it must be above 0 and at most 1");
}

void TopKHook::prepare(const std::vector<GradBucket>& buckets, Communicator& comm) {
  buckets_.clear();
  for (const GradBucket& bucket : buckets) {
    const Tensor& flat = bucket.flat;
    const auto k = std::max<std::int64_t>(
        1, static_cast<std::int64_t>(ratio_ * static_cast<double>(flat.numel())));
    const std::int64_t n = comm.world_size();
    const TensorOptions values{.dtype = flat.dtype(), .device = flat.device()};
    const bool fits = flat.numel() <= std::numeric_limits<std::int32_t>::max();
    const TensorOptions indices{.dtype = fits ? i32 : i64, .device = flat.device()};
    buckets_.push_back({.residual = zeros({flat.numel()}, values),
                        .values = Tensor::empty({k}, values),
                        .indices = Tensor::empty({k}, indices),
                        .all_values = Tensor::empty({n * k}, values),
                        .all_indices = Tensor::empty({n * k}, indices)});
    remember("residual", bucket, buckets_.back().residual);
  }
}

std::vector<Work> TopKHook::start(int, const GradBucket& bucket, Communicator& comm) {
  Bucket& b = buckets_[bucket.index];
  b.residual.add_(bucket.flat);
  const Tensor largest = topk(abs(b.residual), b.values.numel()).indices;
  b.values.copy_(gather(b.residual, 0, largest));
  b.indices.copy_(largest);
  // The residual is 0 for elements that are sent. All ranks see NaN and inf in this step; they are
  // not kept for the next steps, even if there are more than k of them.
  b.residual.copy_(scatter_add(b.residual, 0, largest, neg(b.values)));  // x - x = 0
  b.residual.copy_(masked_fill(b.residual, logical_not(isfinite(b.residual)), 0.0));
  return {all_gather(comm, b.all_values, b.values), all_gather(comm, b.all_indices, b.indices)};
}

void TopKHook::finish(const GradBucket& bucket, Communicator& comm) {
  const Bucket& b = buckets_[bucket.index];
  const Tensor sum = scatter_add(zeros_like(bucket.flat), 0, b.all_indices.to(i64), b.all_values);
  bucket.flat.copy_(sum * (1.0 / comm.world_size()));
}

}  // namespace rondo::dist
