#include "dist/data_parallel/hooks/cast.h"

#include "dist/collectives/dense.h"
#include "tensor/creation.h"
#include "tensor/error.h"

namespace rondo::dist {

CastHook::CastHook(DType dtype) : dtype_(dtype) {
  require<DTypeError>(dtype == f16 || dtype == bf16, "CastHook: to f16 or bf16, not to ", dtype);
}

void CastHook::prepare(const std::vector<GradBucket>& buckets, Communicator& comm) {
  small_.clear();
  for (const GradBucket& bucket : buckets) {
    const std::int64_t numel = bucket.flat.numel();
    auto memory =
        comm.allocate(static_cast<std::size_t>(numel * size_of(dtype_)), bucket.flat.device());
    small_.push_back(Tensor::over(memory, 0, {numel}, {1}, dtype_));
  }
}

std::vector<Work> CastHook::start(int, const GradBucket& bucket, Communicator& comm) {
  const Tensor& small = small_[bucket.index];
  // Scales before the cast: 1 / n rounded to 16 bits would make every gradient wrong by up to 0.2
  // %, for example for n = 3 and n = 6. flat will be overwritten anyway.
  scale(bucket.flat, 1.0 / comm.world_size());
  small.copy_(bucket.flat);
  return {all_reduce(comm, small)};
}

void CastHook::finish(const GradBucket& bucket, Communicator&) {
  bucket.flat.copy_(small_[bucket.index]);
}

}  // namespace rondo::dist
