#pragma once
// Int8Hook: an all-reduce of bytes. Blocks of 256 gradients share a scale, max |g| / 127:
//
//   each rank sends part r of its gradients, quantised, to rank r (all-to-all);
//   rank r adds up what it got in f32, quantises the average, sends it to all (all-gather).
//
// Two roundings, to half a scale each, and no memory of them: gradients are noisier than that.
// A rank sends (1 + 4 / 256) bytes an element, 2 (N - 1) / N times; an all-reduce of bytes alone
// would overflow. On the CPU, of f32.

#include "dist/data_parallel/comm_hook.h"

namespace rondo::dist {

class Int8Hook final : public CommHook {
 public:
  static constexpr std::int64_t block = 256;

  const char* name() const override { return "int8"; }
  void prepare(const std::vector<GradBucket>& buckets, Communicator& comm) override;
  int rounds() const override { return 2; }
  std::vector<Work> start(int round, const GradBucket& bucket, Communicator& comm) override;
  void finish(const GradBucket& bucket, Communicator& comm) override;

 private:
  struct Bucket {
    std::int64_t part = 0;  // elements of a rank's part: whole blocks, the last filled up with 0
    Tensors to, from;       // u8: a part of each rank, quantised
    Tensor average, all;    // u8: this rank's part, and everybody's
  };
  std::vector<Bucket> buckets_;
};

/// Blocks of 256 elements of x, the last filled up with zeros: for each its scale (f32) and its
/// bytes. `bytes` has room for quantized_bytes(numel). A block with an infinity or NaN becomes NaN.
void quantize(const float* x, std::int64_t numel, std::uint8_t* bytes);
/// y[i] += factor * what quantize made of x[i].
void add_dequantized(const std::uint8_t* bytes, float factor, float* y, std::int64_t numel);
std::int64_t quantized_bytes(std::int64_t numel);

}  // namespace rondo::dist
