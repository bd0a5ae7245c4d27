// The ring over threads, against exactly known sums.

#include "dist/collectives/algorithms/ring_all_reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>
#include <vector>

#include "dist/transports/thread/thread_transport.h"
#include "support/operations.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

using test::drive;
using test::expected;
using test::value;

template <class T>
void check(int ranks, std::int64_t count, ReduceOp op, RingOptions options) {
  run_on_threads(ranks, [&](std::shared_ptr<Transport> transport) {
    std::vector<T> data;
    for (std::int64_t i = 0; i < count; ++i) data.push_back(value<T>(transport->rank(), i, op));
    ChunkBuffer scratch;
    auto ring = ring_all_reduce(*transport, scratch, data.data(), count, dtype_of<T>, op, options);
    drive(*ring);
    for (std::int64_t i = 0; i < count; ++i) {
      // The average is rounded once, to T; everything else is exact.
      double want = expected<T>(ranks, i, op);
      want = static_cast<double>(T(static_cast<float>(want)));
      if constexpr (std::is_same_v<T, double>) want = expected<T>(ranks, i, op);
      ASSERT_EQ(static_cast<double>(data[i]), want)
          << "element " << i << " of " << count << ", rank " << transport->rank() << " of " << ranks
          << ", " << op;
    }
  });
}

class RingAllReduceTest : public ::testing::TestWithParam<int> {};

// Sizes around one element per rank, primes, and sizes of several blocks of chunks.
std::vector<std::int64_t> sizes(int n) { return {0, 1, n - 1, n, n + 1, 7, 97, 1009, 10007}; }

TEST_P(RingAllReduceTest, AllDtypesAllSizes) {
  int n = GetParam();
  RingOptions small{.tag = 3, .chunk_bytes = 256, .chunks_per_segment = 3, .window = 2};
  for (std::int64_t count : sizes(n)) {
    check<float>(n, count, ReduceOp::sum, small);
    check<double>(n, count, ReduceOp::sum, small);
    check<BFloat16>(n, count, ReduceOp::sum, small);
    check<Half>(n, count, ReduceOp::sum, small);
    check<std::int64_t>(n, count, ReduceOp::sum, small);
    check<std::int32_t>(n, count, ReduceOp::sum, small);
    check<std::uint8_t>(n, count, ReduceOp::sum, small);
    check<std::int8_t>(n, count, ReduceOp::sum, small);
  }
}

TEST_P(RingAllReduceTest, AllOps) {
  int n = GetParam();
  RingOptions small{.tag = 0, .chunk_bytes = 100, .chunks_per_segment = 2, .window = 3};
  for (ReduceOp op : {ReduceOp::avg, ReduceOp::min, ReduceOp::max, ReduceOp::prod}) {
    for (std::int64_t count : sizes(n)) {
      check<float>(n, count, op, small);
      check<double>(n, count, op, small);
      check<BFloat16>(n, count, op, small);
      check<Half>(n, count, op, small);
      if (op != ReduceOp::avg) check<std::int64_t>(n, count, op, small);
    }
  }
}

TEST_P(RingAllReduceTest, DefaultOptionsOverManyBlocks) {
  check<float>(GetParam(), 3'000'017, ReduceOp::sum, {});
}

TEST_P(RingAllReduceTest, AnyWindowAnyChunking) {
  for (int window : {1, 2, 5}) {
    for (int chunks : {1, 2, 7}) {
      for (std::size_t bytes : {4u, 12u, 64u}) {
        check<float>(GetParam(), 101, ReduceOp::sum,
                     {.chunk_bytes = bytes, .chunks_per_segment = chunks, .window = window});
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, RingAllReduceTest, ::testing::Values(1, 2, 3, 4, 5));

// All ranks get bit-identical results even if the sum depends on the order of additions.
TEST(RingAllReduce, EqualBitsOnAllRanks) {
  constexpr int n = 4, count = 1000;
  std::vector<std::vector<float>> results(n);
  run_on_threads(n, [&](std::shared_ptr<Transport> transport) {
    std::vector<float> data;
    for (int i = 0; i < count; ++i)
      data.push_back(1.0f / static_cast<float>(i + 3 * transport->rank() + 1));
    ChunkBuffer scratch;
    drive(*ring_all_reduce(*transport, scratch, data.data(), count, f32, ReduceOp::avg));
    results[transport->rank()] = data;
  });
  for (int r = 1; r < n; ++r) EXPECT_EQ(results[r], results[0]);
}

// bf16: 256 + 1 + 1 + 1 is added in f32 and rounded after each addition, so each 1 is lost (the
// neighbours of 256 are 255 and 258), while 1 + 1 + 1 + 256 keeps the sum of 3.
TEST(RingAllReduce, SmallFloatsRoundOncePerAddition) {
  BFloat16 a(256.0f), one(1.0f);
  combine(&a, &one, 1, bf16, ReduceOp::sum);
  EXPECT_EQ(static_cast<float>(a), 256.0f);
  BFloat16 b(3.0f), c(256.0f);
  combine(&b, &c, 1, bf16, ReduceOp::sum);
  EXPECT_EQ(static_cast<float>(b), 260.0f);
}

TEST(RingAllReduce, NanWinsInMinAndMax) {
  for (ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
    float values[2] = {NAN, 1.0f}, others[2] = {1.0f, NAN};
    combine(values, others, 2, f32, op);
    EXPECT_TRUE(std::isnan(values[0])) << op;
    EXPECT_TRUE(std::isnan(values[1])) << op;
  }
}

TEST(RingAllReduce, IntegersWrapAndBoolsAreLogical) {
  std::int32_t big = INT32_MAX, one = 1;
  combine(&big, &one, 1, i32, ReduceOp::sum);
  EXPECT_EQ(big, INT32_MIN);
  bool a[4] = {false, false, true, true}, b[4] = {false, true, false, true};
  bool either[4] = {false, false, true, true};
  combine(either, b, 4, boolean, ReduceOp::sum);
  combine(a, b, 4, boolean, ReduceOp::prod);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(either[i], i > 0);
    EXPECT_EQ(a[i], i == 3);
  }
}

TEST(RingAllReduce, NoAverageOfIntegers) {
  std::int64_t x = 1;
  Arithmetic host;
  EXPECT_THROW(ring_all_reduce_schedule(0, 2, &x, 1, i64, ReduceOp::avg, host), DTypeError);
}

// Every rank sends 2 (N - 1) / N of the data, up to one element per segment.
TEST(RingAllReduce, SendsTheLeastPossible) {
  constexpr std::int64_t count = 1200;
  for (int n : {2, 3, 4, 5}) {
    std::vector<float> data(count);
    Arithmetic host;
    auto schedule = ring_all_reduce_schedule(1, n, data.data(), count, f32, ReduceOp::sum, host);
    std::size_t sent = 0;
    for (std::int64_t i = 0; i < schedule->hops(); ++i) sent += schedule->hop(i).send_bytes;
    EXPECT_EQ(sent, sizeof(float) * 2 * (n - 1) * count / n);
  }
}

// A transport may read a send's memory until it is complete, and write a receive's memory as soon
// as it is posted. So the schedule itself must order overlapping accesses.
TEST(RingAllReduce, NoTransferReadsWhatAnotherWrites) {
  constexpr std::int64_t count = 47;
  for (int n : {2, 3, 4, 5}) {
    std::vector<float> data(count);
    RingOptions options{.chunk_bytes = 8, .chunks_per_segment = 2};
    Arithmetic host;
    auto ring =
        ring_all_reduce_schedule(0, n, data.data(), count, f32, ReduceOp::sum, host, options);
    int ordered = 0;
    for (std::int64_t i = 0; i < ring->hops(); ++i) {
      Hop in = ring->hop(i);
      if (in.recv == nullptr) continue;  // into scratch memory
      auto* begin = static_cast<const char*>(in.recv);
      for (std::int64_t j = 0; j < ring->hops(); ++j) {
        Hop out = ring->hop(j);
        auto* other = static_cast<const char*>(out.send);
        if (begin + in.recv_bytes <= other || other + out.send_bytes <= begin) continue;
        if (in.recv_bytes == 0 || out.send_bytes == 0) continue;
        EXPECT_TRUE(j <= in.recv_after || out.send_after >= i) << "hops " << i << " and " << j;
        ++ordered;
      }
    }
    EXPECT_GT(ordered, 0);
  }
}

}  // namespace
}  // namespace rondo::dist
