#pragma once
// CastHook: gradients are sent as bf16 or f16, half the bytes of f32.
//
// Each rank divides by N before the sum, so that an f16 sum overflows only if the average does (as
// in PyTorch's fp16_compress_hook).

#include "dist/data_parallel/comm_hook.h"

namespace rondo::dist {

class CastHook final : public CommHook {
 public:
  /// dtype: f16 or bf16.
  explicit CastHook(DType dtype);
  const char* name() const override { return dtype_ == f16 ? "fp16" : "bf16"; }
  void prepare(const std::vector<GradBucket>& buckets, Communicator& comm) override;
  std::vector<Work> start(int round, const GradBucket& bucket, Communicator& comm) override;
  void finish(const GradBucket& bucket, Communicator& comm) override;

 private:
  DType dtype_;
  Tensors small_;  // for each bucket
};

}  // namespace rondo::dist
