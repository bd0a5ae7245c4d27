// BlockPool with memory that is only addresses and streams that are only counters.

#include "tensor/cuda/block_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace rondo::cuda {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t KiB = 1024, MiB = 1024 * KiB;

/// The state of the simulated source.
struct Machine {
  std::size_t memory = std::size_t{1} << 40, used = 0;
  std::map<char*, std::size_t> segments;
  std::map<void*, int> done;  // by stream: all marks up to this one are complete
  int marks = 0;
  bool can_wait = true;  // false: as during a capture
  char* next = reinterpret_cast<char*>(std::uintptr_t{1} << 44);
};

class FakeSource final : public BlockPool::Source {
 public:
  explicit FakeSource(Machine& machine) : machine_(machine) {}
  void* allocate(std::size_t bytes) override {
    if (machine_.used + bytes > machine_.memory) return nullptr;
    machine_.used += bytes;
    char* data = machine_.next;
    machine_.next += bytes + 4096;  // so that segments are not adjacent
    machine_.segments[data] = bytes;
    return data;
  }
  void free(void* segment) noexcept override {
    auto found = machine_.segments.find(static_cast<char*>(segment));
    ASSERT_NE(found, machine_.segments.end());
    machine_.used -= found->second;
    machine_.segments.erase(found);
  }
  BlockPool::Mark mark(StreamId stream) override {
    return [this, stream, mine = ++machine_.marks](BlockPool::Wait wait) {
      int& done = machine_.done[stream.handle];
      if (wait == BlockPool::Wait::yes && machine_.can_wait) done = std::max(done, mine);
      return done >= mine;
    };
  }

 private:
  Machine& machine_;
};

class GpuPool : public ::testing::Test {
 protected:
  Machine machine;
  BlockPool pool{std::make_unique<FakeSource>(machine)};
  int a = 0, b = 0;
  StreamId first{.handle = &a}, second{.handle = &b};
};

TEST_F(GpuPool, ABlockComesBackToItsStreamAtOnceAndToNoOther) {
  void* block = pool.allocate(3 * MiB, first, "t");
  pool.free(block);
  EXPECT_NE(pool.allocate(3 * MiB, second, "t"), block);
  EXPECT_EQ(pool.allocate(3 * MiB, first, "t"), block);
  EXPECT_EQ(pool.stats().segments, 2u);
}

TEST_F(GpuPool, WhatAnotherStreamUsedWaitsForIt) {
  void* block = pool.allocate(3 * MiB, first, "t");
  pool.record_stream(block, second);
  pool.record_stream(block, first);  // its own stream: it need not wait
  pool.free(block);
  EXPECT_EQ(machine.marks, 1);
  EXPECT_EQ(pool.stats().in_use, 0u);
  EXPECT_NE(pool.allocate(3 * MiB, first, "t"), block);
  machine.done[&b] = 1;
  EXPECT_EQ(pool.allocate(3 * MiB, first, "t"), block);
}

TEST_F(GpuPool, SmallRequestsShareASegmentAndMergeAgain) {
  std::vector<void*> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(pool.allocate(100 * KiB, first, "t"));
  EXPECT_EQ(pool.stats().segments, 1u);
  EXPECT_EQ(pool.stats().reserved, 2 * MiB);
  EXPECT_EQ(pool.stats().in_use, 8 * 100 * KiB);
  for (int i : {1, 3, 5, 7, 0, 2, 6, 4}) pool.free(blocks[static_cast<std::size_t>(i)]);
  EXPECT_EQ(pool.allocate(1 * MiB, first, "t"), blocks[0]);  // no gap is left
  pool.free(blocks[0]);
  pool.empty_cache();
  EXPECT_EQ(machine.used, 0u);
  EXPECT_EQ(pool.stats().reserved, 0u);
}

TEST_F(GpuPool, RoundsUpAndRemembersThePeak) {
  void* tiny = pool.allocate(1, first, "t");
  EXPECT_EQ(pool.stats().in_use, 512u);
  pool.free(tiny);
  void* large = pool.allocate(30 * MiB + 1, first, "t");
  EXPECT_EQ(pool.stats().peak, 30 * MiB + 512);
  EXPECT_EQ(machine.segments.rbegin()->second, 32 * MiB);
  pool.free(large);
  pool.reset_peak();
  EXPECT_EQ(pool.stats().peak, 0u);
  EXPECT_EQ(pool.stats().requests, 2u);
}

TEST_F(GpuPool, GivesBackWhatItDoesNotUseBeforeItFails) {
  machine.memory = 100 * MiB;
  void* unused = pool.allocate(60 * MiB, first, "t");
  pool.free(unused);
  void* other = pool.allocate(70 * MiB, second, "activations");
  EXPECT_NE(other, nullptr);
  EXPECT_EQ(machine.segments.size(), 1u);
  EXPECT_EQ(pool.allocate(40 * MiB, first, "t"), nullptr);
  EXPECT_THAT(pool.report(),
              HasSubstr("70.0 MiB in 1 blocks: activations 70.0 MiB; 0.0 KiB are unused"));
  pool.free(other);
  EXPECT_NE(pool.allocate(40 * MiB, first, "t"), nullptr);
}

TEST_F(GpuPool, WaitsForOtherStreamsBeforeItFails) {
  machine.memory = 100 * MiB;
  void* block = pool.allocate(60 * MiB, first, "t");
  pool.record_stream(block, second);
  pool.free(block);
  machine.can_wait = false;
  EXPECT_EQ(pool.allocate(60 * MiB, first, "t"), nullptr);
  machine.can_wait = true;
  EXPECT_EQ(pool.allocate(60 * MiB, first, "t"), block);  // the same block, once `second` is done
  pool.record_stream(block, second);
  pool.free(block);
  EXPECT_NE(pool.allocate(90 * MiB, first, "t"), nullptr);  // a new segment in place of it
}

// Kernels that a graph has captured write to blocks that were freed during the capture.
TEST_F(GpuPool, AGraphsPoolKeepsItsSegments) {
  machine.memory = 100 * MiB;
  {
    BlockPool graph(std::make_unique<FakeSource>(machine), BlockPool::Unused::is_kept);
    void* captured = graph.allocate(60 * MiB, first, "t");
    graph.free(captured);
    EXPECT_EQ(graph.allocate(70 * MiB, first, "t"), nullptr);
    graph.empty_cache();
    EXPECT_EQ(machine.segments.size(), 1u);
    EXPECT_EQ(graph.allocate(60 * MiB, first, "t"), captured);
    graph.free(captured);
  }
  EXPECT_TRUE(machine.segments.empty());
}

TEST_F(GpuPool, ForeignMemoryIsRefusedOrIgnored) {
  EXPECT_THROW(pool.record_stream(&a, first), std::runtime_error);
  pool.free(&a);
  EXPECT_EQ(pool.stats().in_use, 0u);
}

/// In any order: blocks in use never overlap, and in the end all memory can be freed.
TEST_F(GpuPool, AnyOrderOfRequests) {
  std::mt19937 random(1);
  std::map<char*, std::size_t> blocks;
  for (int step = 0; step < 20000; ++step) {
    if (blocks.size() < 200 && random() % 3 != 0) {
      const std::size_t bytes = 1 + random() % (random() % 10 == 0 ? 40 * MiB : 300 * KiB);
      auto* data = static_cast<char*>(pool.allocate(bytes, random() % 2 ? first : second, "t"));
      auto after = blocks.lower_bound(data);
      ASSERT_TRUE(after == blocks.end() || data + bytes <= after->first);
      if (after != blocks.begin()) {
        auto before = std::prev(after);
        ASSERT_LE(before->first + before->second, data);
      }
      blocks[data] = bytes;
    } else if (!blocks.empty()) {
      auto at = std::next(blocks.begin(), static_cast<std::ptrdiff_t>(random() % blocks.size()));
      if (random() % 4 == 0) pool.record_stream(at->first, random() % 2 ? first : second);
      pool.free(at->first);
      blocks.erase(at);
    }
    if (random() % 16 == 0) machine.done[random() % 2 ? &a : &b] = machine.marks;
  }
  for (auto& [data, bytes] : blocks) pool.free(data);
  machine.done[&a] = machine.done[&b] = machine.marks;
  pool.empty_cache();
  EXPECT_EQ(pool.stats().in_use, 0u);
  EXPECT_EQ(machine.used, 0u);
}

}  // namespace
}  // namespace rondo::cuda
