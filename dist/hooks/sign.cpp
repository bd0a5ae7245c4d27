#include "dist/hooks/sign.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tensor/creation.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

std::int64_t sign_bytes(std::int64_t numel) { return (numel + 7) / 8; }

/// Writes scale and signs of a to `message`, and leaves in a what they do not say.
void encode(float* a, std::int64_t numel, std::uint8_t* message) {
  double sum = 0;
  for (std::int64_t i = 0; i < numel; ++i) sum += std::abs(a[i]);
  const auto scale =
      static_cast<float>(sum / static_cast<double>(std::max<std::int64_t>(numel, 1)));
  std::memcpy(message, &scale, sizeof scale);
  std::uint8_t* bits = message + sizeof scale;
  std::fill_n(bits, sign_bytes(numel), std::uint8_t{0});
  for (std::int64_t i = 0; i < numel; ++i) {
    const bool is_negative = a[i] < 0;
    bits[i / 8] = static_cast<std::uint8_t>(bits[i / 8] | (is_negative << (i % 8)));
    a[i] -= is_negative ? -scale : scale;
  }
}

/// g += what a message says, times `factor`.
void add_decoded(const std::uint8_t* message, float factor, float* g, std::int64_t numel) {
  float scale;
  std::memcpy(&scale, message, sizeof scale);
  scale *= factor;
  const std::uint8_t* bits = message + sizeof scale;
  for (std::int64_t i = 0; i < numel; ++i) g[i] += (bits[i / 8] >> (i % 8)) & 1 ? -scale : scale;
}

}  // namespace

void SignHook::prepare(const std::vector<GradBucket>& buckets, Communicator& comm) {
  buckets_.clear();
  for (const GradBucket& bucket : buckets) {
    require<DeviceError>(bucket.flat.device().is_cpu(), "sign: the gradients are on ",
                         bucket.flat.device(),
                         "; on a GPU there are fp16, bf16, topk and powersgd");
    require<DTypeError>(bucket.flat.dtype() == f32, "sign: gradients of ", bucket.flat.dtype(),
                        "; it is for f32");
    std::int64_t bytes = 0;
    for (const auto& slice : bucket.slices) bytes += 4 + sign_bytes(numel_of(slice.shape));
    buckets_.push_back({.residual = zeros({bucket.flat.numel()}),
                        .message = Tensor::empty({bytes}, {.dtype = u8}),
                        .all_messages = Tensor::empty({comm.world_size() * bytes}, {.dtype = u8})});
  }
}

std::vector<Work> SignHook::start(int, const GradBucket& bucket, Communicator& comm) {
  Bucket& b = buckets_[bucket.index];
  b.residual.add_(bucket.flat);
  std::uint8_t* message = b.message.data_ptr<std::uint8_t>();
  for (const auto& slice : bucket.slices) {
    const std::int64_t numel = numel_of(slice.shape);
    encode(b.residual.data_ptr<float>() + slice.offset, numel, message);
    message += 4 + sign_bytes(numel);
  }
  return {all_gather(comm, b.all_messages, b.message)};
}

void SignHook::finish(const GradBucket& bucket, Communicator& comm) {
  const Bucket& b = buckets_[bucket.index];
  const int n = comm.world_size();
  bucket.flat.zero_();
  const std::uint8_t* message = b.all_messages.data_ptr<std::uint8_t>();
  for (int r = 0; r < n; ++r) {
    for (const auto& slice : bucket.slices) {
      const std::int64_t numel = numel_of(slice.shape);
      add_decoded(message, 1.0f / static_cast<float>(n),
                  bucket.flat.data_ptr<float>() + slice.offset, numel);
      message += 4 + sign_bytes(numel);
    }
  }
}

std::vector<nn::NamedTensor> SignHook::state() const {
  std::vector<nn::NamedTensor> all;
  for (std::size_t i = 0; i < buckets_.size(); ++i)
    all.push_back({concat("residual.", i), buckets_[i].residual});
  return all;
}

}  // namespace rondo::dist
