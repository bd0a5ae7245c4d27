#pragma once
// Int8Hook: gradients are sent as bytes. Blocks of 256 gradients share a scale, max |g| / 127:
//
//   each rank sends part r of its gradients, quantised, to rank r (all-to-all);
//   rank r sums its parts in f32, quantises the average, and sends it to all ranks (all-gather).
//
// Each value is rounded twice, with an error of at most half a scale. Error feedback is not used:
// gradients are noisier than that. A rank sends (1 + 4 / 256) bytes an element, 2 (N - 1) / N
// times. A plain all-reduce of bytes would overflow. For f32 on the CPU only.

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
    std::int64_t part = 0;  // elements of a rank's part: whole blocks, the last one padded with 0
    Tensors to, from;       // u8: a quantised part for each rank
    Tensor average, all;    // u8: this rank's part, and all ranks' parts
  };
  std::vector<Bucket> buckets_;
};

/// Quantises blocks of 256 elements of x, the last one padded with zeros. Each block is its scale
/// (f32) and its bytes. `bytes` must have room for quantized_bytes(numel). A block that contains an
/// infinity or NaN becomes NaN.
void quantize(const float* x, std::int64_t numel, std::uint8_t* bytes);
/// y[i] += factor * x[i], for the x that was quantised.
void add_dequantized(const std::uint8_t* bytes, float factor, float* y, std::int64_t numel);
std::int64_t quantized_bytes(std::int64_t numel);

}  // namespace rondo::dist
