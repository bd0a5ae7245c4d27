// Top-k compression with error feedback: what is not sent is added to the next step's gradients.
#include <rondo/rondo.h>

#include "exercise.h"

namespace rd = rondo;
namespace dist = rondo::dist;
using rondo::Tensor;

namespace {

class TopK final : public dist::CommHook {
 public:
  explicit TopK(std::int64_t k) : k_(k) {}
  const char* name() const override { return "top k"; }

  void prepare(const std::vector<dist::GradBucket>& buckets, dist::Communicator& comm) override {
    const std::int64_t n = comm.world_size();
    for (std::size_t b = 0; b < buckets.size(); ++b)
      buckets_.push_back({.residual = zeros_like(buckets[b].flat),
                          .values = Tensor::empty({k_}, {}),
                          .indices = Tensor::empty({k_}, {.dtype = rd::i64}),
                          .all_values = Tensor::empty({n * k_}, {}),
                          .all_indices = Tensor::empty({n * k_}, {.dtype = rd::i64})});
  }

  std::vector<dist::Work> start(int, const dist::GradBucket& bucket,
                                dist::Communicator& comm) override {
    const Bucket& b = buckets_[bucket.index];
    b.residual.add_(bucket.flat);
    const Tensor largest = topk(abs(b.residual), k_).indices;
    b.values.copy_(gather(b.residual, 0, largest));
    b.indices.copy_(largest);
    b.residual.copy_(scatter_add(b.residual, 0, largest, neg(b.values)));  // x - x = 0
    return {all_gather(comm, b.all_values, b.values), all_gather(comm, b.all_indices, b.indices)};
  }

  void finish(const dist::GradBucket& bucket, dist::Communicator& comm) override {
    const Bucket& b = buckets_[bucket.index];
    const Tensor sum = scatter_add(zeros_like(bucket.flat), 0, b.all_indices, b.all_values);
    bucket.flat.copy_(sum * (1.0 / comm.world_size()));
  }

 private:
  struct Bucket {
    Tensor residual;                 // what this rank has not sent
    Tensor values, indices;          // of this rank
    Tensor all_values, all_indices;  // of all ranks
  };
  std::int64_t k_;
  std::vector<Bucket> buckets_;
};

}  // namespace

std::shared_ptr<dist::CommHook> top_k(std::int64_t k) { return std::make_shared<TopK>(k); }
