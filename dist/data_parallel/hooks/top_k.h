#pragma once
// TopKHook: sends only the largest gradients; the others accumulate until they are large enough.
//
//   a = g + e;   (v, i) = the k elements of a with the largest |a|;   e = a without them
//   g = (1 / N) Σ over ranks of v at i
//
// with k = ratio × elements of a bucket, at least 1 (Aji & Heafield 2017; Stich et al. 2018). A
// rank sends 8 k bytes to each other rank, so it saves bytes if ratio is well below 1 / N.

#include "dist/data_parallel/comm_hook.h"

namespace rondo::dist {

class TopKHook final : public CommHook {
 public:
  /// 0 < ratio ≤ 1.
  explicit TopKHook(double ratio = 0.01);
  const char* name() const override { return "topk"; }
  void prepare(const std::vector<GradBucket>& buckets, Communicator& comm) override;
  std::vector<Work> start(int round, const GradBucket& bucket, Communicator& comm) override;
  void finish(const GradBucket& bucket, Communicator& comm) override;

 private:
  struct Bucket {
    Tensor residual;                 // e
    Tensor values, indices;          // of this rank
    Tensor all_values, all_indices;  // of all ranks, one after another
  };
  double ratio_;
  std::vector<Bucket> buckets_;
};

}  // namespace rondo::dist
