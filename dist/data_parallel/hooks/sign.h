#pragma once
// SignHook: one bit for each gradient (Seide et al. 2014; Karimireddy et al. 2019, "EF-SignSGD").
//
//   a = g + e;   s = mean |a| of each block of 128 elements;   e = a - s sign(a)
//   g = (1 / N) Σ over ranks of s sign(a)
//
// One scale for a whole parameter would be too coarse: if gradients differ in size by a factor of
// hundreds, the large ones would take hundreds of steps to arrive, and the small ones would be lost
// in noise. A rank sends 20 bytes a block to each other rank, 1.25 bits an element. For f32 on the
// CPU only.

#include "dist/data_parallel/comm_hook.h"

namespace rondo::dist {

class SignHook final : public CommHook {
 public:
  const char* name() const override { return "sign"; }
  void prepare(const std::vector<GradBucket>& buckets, Communicator& comm) override;
  std::vector<Work> start(int round, const GradBucket& bucket, Communicator& comm) override;
  void finish(const GradBucket& bucket, Communicator& comm) override;

 private:
  struct Bucket {
    Tensor residual;
    Tensor message, all_messages;  // u8: the scale and then the signs of each block
  };
  std::vector<Bucket> buckets_;
};

}  // namespace rondo::dist
