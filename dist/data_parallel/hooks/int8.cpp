#include "dist/data_parallel/hooks/int8.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tensor/creation.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

constexpr std::int64_t block = Int8Hook::block;
constexpr std::int64_t block_bytes = block + 4;

struct Elements {
  std::int64_t first, count;
};
/// The elements of rank r's part. The last parts may be short, or empty.
Elements part_of(std::int64_t part, int r, std::int64_t numel) {
  const std::int64_t first = std::min(r * part, numel);
  return {first, std::min(part, numel - first)};
}

}  // namespace

std::int64_t quantized_bytes(std::int64_t numel) {
  return (numel + block - 1) / block * block_bytes;
}

void quantize(const float* x, std::int64_t numel, std::uint8_t* bytes) {
  for (std::int64_t first = 0; first < numel; first += block, bytes += block_bytes) {
    const std::int64_t n = std::min(block, numel - first);
    const float* v = x + first;
    float largest = 0;
    bool is_finite = true;
    for (std::int64_t i = 0; i < n; ++i) {
      largest = std::max(largest, std::abs(v[i]));
      is_finite &= std::isfinite(v[i]);
    }
    const float scale = is_finite ? largest / 127 : std::numeric_limits<float>::quiet_NaN();
    std::memcpy(bytes, &scale, sizeof scale);
    std::int8_t quantized[block] = {};
    // If the scale is below the smallest normal number, its inverse would be infinite. Such a block
    // becomes all zeros.
    const float inverse = scale >= std::numeric_limits<float>::min() ? 1 / scale : 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const float q = std::nearbyint(is_finite ? v[i] * inverse : 0);
      quantized[i] = static_cast<std::int8_t>(std::clamp(q, -127.0f, 127.0f));
    }
    std::memcpy(bytes + 4, quantized, sizeof quantized);
  }
}

void add_dequantized(const std::uint8_t* bytes, float factor, float* y, std::int64_t numel) {
  for (std::int64_t first = 0; first < numel; first += block, bytes += block_bytes) {
    const std::int64_t n = std::min(block, numel - first);
    float scale;
    std::memcpy(&scale, bytes, sizeof scale);
    scale *= factor;
    const auto* quantized = reinterpret_cast<const std::int8_t*>(bytes + 4);
    for (std::int64_t i = 0; i < n; ++i) y[first + i] += scale * static_cast<float>(quantized[i]);
  }
}

void Int8Hook::prepare(const std::vector<GradBucket>& buckets, Communicator& comm) {
  buckets_.clear();
  const auto n = static_cast<std::size_t>(comm.world_size());
  for (const GradBucket& bucket : buckets) {
    require_f32_on_cpu(bucket);
    Bucket b;
    const std::int64_t blocks = (bucket.flat.numel() + block - 1) / block;
    b.part = (blocks + comm.world_size() - 1) / comm.world_size() * block;
    const std::int64_t bytes = quantized_bytes(b.part);
    for (std::size_t r = 0; r < n; ++r) {
      b.to.push_back(zeros({bytes}, {.dtype = u8}));
      b.from.push_back(zeros({bytes}, {.dtype = u8}));
    }
    b.average = zeros({bytes}, {.dtype = u8});
    b.all = zeros({comm.world_size() * bytes}, {.dtype = u8});
    buckets_.push_back(std::move(b));
  }
}

std::vector<Work> Int8Hook::start(int round, const GradBucket& bucket, Communicator& comm) {
  Bucket& b = buckets_[bucket.index];
  const int n = comm.world_size();
  if (round == 0) {
    for (int r = 0; r < n; ++r) {
      const Elements part = part_of(b.part, r, bucket.flat.numel());
      quantize(bucket.flat.data_ptr<float>() + part.first, part.count,
               b.to[static_cast<std::size_t>(r)].data_ptr<std::uint8_t>());
    }
    return {all_to_all(comm, b.from, b.to)};
  }
  const Elements mine = part_of(b.part, comm.rank(), bucket.flat.numel());
  std::vector<float> average(static_cast<std::size_t>(mine.count));
  for (const Tensor& from : b.from)
    add_dequantized(from.data_ptr<std::uint8_t>(), 1.0f / static_cast<float>(n), average.data(),
                    mine.count);
  quantize(average.data(), mine.count, b.average.data_ptr<std::uint8_t>());
  return {all_gather(comm, b.all, b.average)};
}

void Int8Hook::finish(const GradBucket& bucket, Communicator& comm) {
  const Bucket& b = buckets_[bucket.index];
  bucket.flat.zero_();
  for (int r = 0; r < comm.world_size(); ++r) {
    const Elements part = part_of(b.part, r, bucket.flat.numel());
    add_dequantized(b.all.data_ptr<std::uint8_t>() + r * b.average.numel(), 1.0f,
                    bucket.flat.data_ptr<float>() + part.first, part.count);
  }
}

}  // namespace rondo::dist
