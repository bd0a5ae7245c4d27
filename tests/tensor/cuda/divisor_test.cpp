// Divisor: the quotients are those of the processor's division.

#include "tensor/cuda/divisor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace rondo::test {
namespace {

TEST(Divisor, DividesAsTheProcessorDoes) {
  constexpr std::int64_t limit = std::int64_t{1} << 31;
  for (std::int64_t d :
       {std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, std::int64_t{7}, std::int64_t{64},
        std::int64_t{641}, std::int64_t{65537}, limit - 1, limit, 3 * limit}) {
    const cuda::Divisor divisor(d);
    for (std::int64_t n : {std::int64_t{0}, std::int64_t{1}, d - 1, d, d + 1, 5 * d - 1, limit - 1,
                           limit, 7 * limit + 3})
      EXPECT_EQ(divisor.divide(n), n / d) << n << " / " << d;
  }
  std::uint32_t state = 1;
  for (int i = 0; i < 100000; ++i) {
    auto next = [&] {
      return static_cast<std::int64_t>((state = state * 1664525 + 1013904223) >> 1);
    };
    const std::int64_t n = next(), d = std::max<std::int64_t>(next() >> (state >> 27), 1);
    ASSERT_EQ(cuda::Divisor(d).divide(n), n / d) << n << " / " << d;
  }
}

}  // namespace
}  // namespace rondo::test
