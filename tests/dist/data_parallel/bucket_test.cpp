#include "dist/data_parallel/bucket.h"

#include <gtest/gtest.h>

#include <vector>

namespace rondo::dist {
namespace {

std::vector<GradientSize> sizes(std::initializer_list<std::int64_t> numels, DType dtype = f32) {
  std::vector<GradientSize> result;
  for (std::int64_t n : numels) result.push_back({n, dtype});
  return result;
}

std::vector<std::size_t> parameters_of(const BucketPlan& plan) {
  std::vector<std::size_t> result;
  for (const auto& slice : plan.slices) result.push_back(slice.parameter);
  return result;
}

using Indices = std::vector<std::size_t>;

TEST(Bucket, ReverseOrderSmallFirstNoPadding) {
  auto plan = plan_buckets(sizes({10, 20, 30, 5, 3}),
                           {.bucket_bytes = 50 * 4, .first_bucket_bytes = 10 * 4});
  ASSERT_EQ(plan.size(), 3u);
  EXPECT_EQ(parameters_of(plan[0]), (Indices{4, 3}));
  EXPECT_EQ(parameters_of(plan[1]), (Indices{2, 1}));
  EXPECT_EQ(parameters_of(plan[2]), (Indices{0}));
  EXPECT_EQ(plan[0].numel, 8);
  EXPECT_EQ(plan[1].numel, 50);
  EXPECT_EQ(plan[1].slices[0].offset, 0);
  EXPECT_EQ(plan[1].slices[1].offset, 30);
}

// fc.bias and fc.weight of ten classes, a batch norm of 20 channels, and a convolution's weight.
TEST(Bucket, WholeCacheLinesComeFirst) {
  const auto plan = plan_buckets(sizes({1152, 20, 20, 640, 10}));
  ASSERT_EQ(plan.size(), 1u);
  EXPECT_EQ(parameters_of(plan[0]), (Indices{4, 3, 2, 1, 0}));  // still in backward's order
  std::vector<std::int64_t> offsets;
  for (const auto& slice : plan[0].slices) offsets.push_back(slice.offset);
  EXPECT_EQ(offsets, (std::vector<std::int64_t>{1792, 0, 1802, 1822, 640}));
  EXPECT_EQ(plan[0].numel, 1842);
  // 16 f32 fill a cache line, and so do 32 bf16.
  const std::vector<GradientSize> halves = {{32, bf16}, {16, bf16}};
  EXPECT_EQ(plan_buckets(halves)[0].slices[0].offset, 32);
  EXPECT_EQ(plan_buckets(halves)[0].slices[1].offset, 0);
}

TEST(Bucket, ALargeParameterHasItsOwn) {
  auto plan = plan_buckets(sizes({4, 1000, 4}), {.bucket_bytes = 64, .first_bucket_bytes = 64});
  ASSERT_EQ(plan.size(), 3u);
  EXPECT_EQ(parameters_of(plan[1]), (Indices{1}));
}

TEST(Bucket, CapacityFollowsTheModel) {
  // 64 gradients of 16 KiB are 1 MiB: capacity 128 KiB, first bucket 16 KiB.
  std::vector<GradientSize> many(64, {4096, f32});
  auto plan = plan_buckets(many);
  EXPECT_EQ(plan[0].numel, 4096);
  for (std::size_t b = 1; b + 1 < plan.size(); ++b) EXPECT_EQ(plan[b].numel, 8 * 4096);
  EXPECT_EQ(plan.size(), 9u);
  // A tiny model: still 64 KiB, so one bucket for smaller models.
  EXPECT_EQ(plan_buckets(sizes({100, 100})).size(), 1u);
  // A large one: at most 25 MiB.
  std::vector<GradientSize> large(400, {1 << 20, f32});
  for (const auto& b : plan_buckets(large)) EXPECT_LE(b.numel * 4, 25 << 20);
}

// 64 gradients of 16 KiB: two buckets of half a MiB, including the first; or one of 4 MiB.
TEST(Bucket, AtLeastSoLarge) {
  const std::vector<GradientSize> many(64, {4096, f32});
  const auto plan = plan_buckets(many, {.least_bytes = 512 << 10});
  ASSERT_EQ(plan.size(), 2u);
  for (const auto& b : plan) EXPECT_EQ(b.numel, 32 * 4096);
  EXPECT_EQ(plan_buckets(many, {.least_bytes = 4 << 20}).size(), 1u);
  // Explicit sizes override the minimum.
  EXPECT_EQ(
      plan_buckets(
          many, {.bucket_bytes = 64 << 10, .first_bucket_bytes = 64 << 10, .least_bytes = 4 << 20})
          .size(),
      16u);
}

TEST(Bucket, OneDtypeEach) {
  std::vector<GradientSize> mixed = {{5, f32}, {6, bf16}, {7, f32}, {8, bf16}};
  auto plan = plan_buckets(mixed);
  ASSERT_EQ(plan.size(), 2u);
  EXPECT_EQ(plan[0].dtype, bf16);  // complete once parameter 1 is, before parameter 0
  EXPECT_EQ(parameters_of(plan[0]), (Indices{3, 1}));
  EXPECT_EQ(parameters_of(plan[1]), (Indices{2, 0}));
}

TEST(Bucket, NoGradientsNoBuckets) { EXPECT_TRUE(plan_buckets({}).empty()); }

TEST(Bucket, EveryGradientExactlyOnce) {
  std::vector<GradientSize> primes;
  for (std::int64_t n : {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37}) primes.push_back({n, f64});
  std::vector<int> seen(primes.size(), 0);
  for (const auto& b : plan_buckets(primes, {.bucket_bytes = 300, .first_bucket_bytes = 64})) {
    std::int64_t end = 0;
    for (const auto& slice : b.slices) {
      EXPECT_EQ(slice.offset, end);
      end += primes[slice.parameter].numel;
      ++seen[slice.parameter];
    }
    EXPECT_EQ(b.numel, end);
  }
  for (int count : seen) EXPECT_EQ(count, 1);
}

}  // namespace
}  // namespace rondo::dist
