#pragma once
// Division by a number that is known in advance. Integer division is slow on a GPU, and a kernel on
// strided tensors divides by its sizes again and again. Multiplying and shifting is faster
// (Granlund and Montgomery 1994, "Division by invariant integers using multiplication").

#include <cstdint>

#include "tensor/dtype.h"

namespace rondo::cuda {

/// n / d and n % d for 0 <= n < 2^31 and 1 <= d < 2^31 without a division:
/// n / d = (high 32 bits of n m + n) >> s, with s = ceil(log2 d) and m = 2^32 (2^s - d) / d + 1.
/// Larger numbers use an ordinary division.
class Divisor {
 public:
  Divisor() = default;
  explicit Divisor(std::int64_t d) : divisor_(d) {
    if (d <= 0 || d >= limit) return;  // d = 0: an empty tensor, never divided by
    while ((std::int64_t{1} << shift_) < d) ++shift_;
    const std::uint64_t above = (std::uint64_t{1} << shift_) - static_cast<std::uint64_t>(d);
    magic_ = static_cast<std::uint32_t>((above << 32) / static_cast<std::uint64_t>(d) + 1);
  }

  RONDO_HD std::int64_t divide(std::int64_t n) const {
    if (n >= limit || divisor_ >= limit) return n / divisor_;
    const auto low = static_cast<std::uint32_t>(n);
    const auto high = static_cast<std::uint32_t>(std::uint64_t{low} * magic_ >> 32);
    return (high + low) >> shift_;
  }
  RONDO_HD std::int64_t value() const { return divisor_; }

 private:
  static constexpr std::int64_t limit = std::int64_t{1} << 31;
  std::int64_t divisor_ = 1;
  std::uint32_t magic_ = 1, shift_ = 0;
};

}  // namespace rondo::cuda
