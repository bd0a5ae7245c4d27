#include "dist/data_parallel/hooks/sign.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tensor/creation.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

constexpr std::int64_t sign_block = 128;
constexpr std::int64_t sign_block_bytes = 4 + sign_block / 8;

std::int64_t encoded_bytes(std::int64_t numel) {
  return (numel + sign_block - 1) / sign_block * sign_block_bytes;
}

/// Writes the scale and signs of up to a block to `message`, and leaves the error in a. A NaN or
/// inf makes the scale NaN or inf, so that all ranks see it in this step. It is not left in a,
/// where it would affect all later steps.
void encode_block(float* a, std::int64_t n, std::uint8_t* message) {
  float sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += std::abs(a[i]);
  const float scale = sum / static_cast<float>(n);
  const bool is_finite = std::isfinite(scale);
  std::memcpy(message, &scale, sizeof scale);
  std::uint8_t* bits = message + sizeof scale;
  std::fill_n(bits, sign_block / 8, std::uint8_t{0});
  for (std::int64_t i = 0; i < n; ++i) {
    const bool is_negative = a[i] < 0;
    bits[i / 8] = static_cast<std::uint8_t>(bits[i / 8] | (is_negative << (i % 8)));
    if (is_finite) {
      a[i] -= is_negative ? -scale : scale;
    } else if (!std::isfinite(a[i])) {
      a[i] = 0;
    }
  }
}

/// g += factor * (the values that the message of a block encodes).
void add_block(const std::uint8_t* message, float factor, float* g, std::int64_t n) {
  float scale;
  std::memcpy(&scale, message, sizeof scale);
  scale *= factor;
  const std::uint8_t* bits = message + sizeof scale;
  for (std::int64_t i = 0; i < n; ++i) g[i] += (bits[i / 8] >> (i % 8)) & 1 ? -scale : scale;
}

/// Calls f(first element, count, message) for each block.
template <class Byte, class F>
void for_each_block(std::int64_t numel, Byte* message, F f) {
  for (std::int64_t first = 0; first < numel; first += sign_block, message += sign_block_bytes)
    f(first, std::min(sign_block, numel - first), message);
}

}  // namespace

void SignHook::prepare(const std::vector<GradBucket>& buckets, Communicator& comm) {
  buckets_.clear();
  for (const GradBucket& bucket : buckets) {
    require_f32_on_cpu(bucket);
    const std::int64_t bytes = encoded_bytes(bucket.flat.numel());
    buckets_.push_back({.residual = zeros({bucket.flat.numel()}),
                        .message = Tensor::empty({bytes}, {.dtype = u8}),
                        .all_messages = Tensor::empty({comm.world_size() * bytes}, {.dtype = u8})});
    remember("residual", bucket, buckets_.back().residual);
  }
}

std::vector<Work> SignHook::start(int, const GradBucket& bucket, Communicator& comm) {
  Bucket& b = buckets_[bucket.index];
  b.residual.add_(bucket.flat);
  float* residual = b.residual.data_ptr<float>();
  for_each_block(bucket.flat.numel(), b.message.data_ptr<std::uint8_t>(),
                 [&](std::int64_t first, std::int64_t n, std::uint8_t* message) {
                   encode_block(residual + first, n, message);
                 });
  return {all_gather(comm, b.all_messages, b.message)};
}

void SignHook::finish(const GradBucket& bucket, Communicator& comm) {
  const Bucket& b = buckets_[bucket.index];
  const int n = comm.world_size();
  bucket.flat.zero_();
  float* g = bucket.flat.data_ptr<float>();
  const float factor = 1.0f / static_cast<float>(n);
  for (int r = 0; r < n; ++r) {
    for_each_block(bucket.flat.numel(),
                   b.all_messages.data_ptr<std::uint8_t>() + r * b.message.numel(),
                   [&](std::int64_t first, std::int64_t count, const std::uint8_t* message) {
                     add_block(message, factor, g + first, count);
                   });
  }
}

}  // namespace rondo::dist
