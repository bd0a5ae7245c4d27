// Recording: which events are recorded, inside which others, and by which thread; and what is not
// recorded.

#include "tensor/record_function.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "support/errors.h"
#include "tensor/backend.h"
#include "tensor/creation.h"

namespace rondo {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

/// "name<parent's name" of each event.
std::vector<std::string> nesting(const RecordedThread& thread) {
  std::vector<std::string> out;
  for (const ProfileEvent& event : thread.events) {
    std::string text(event.name);
    if (event.parent >= 0)
      text += concat('<', thread.events[static_cast<std::size_t>(event.parent)].name);
    out.push_back(text);
  }
  return out;
}

/// y = -x, computed by its kernel.
void kernel() {
  const Tensor x = ones({2, 3});
  const Tensor y = Tensor::empty_like(x);
  if (is_recording()) backend(x).unary(UnaryOp::neg, x, y);
}

TEST(RecordFunction, RangesNestAndEndInTime) {
  { const RecordFunction before("not recorded"); }
  start_recording({});
  {
    const RecordFunction a("a");
    { const RecordFunction b("b"); }
    const RecordFunction c("c");
  }
  const RecordFunction d("d");  // still open when the recording ends
  const auto threads = stop_recording();
  ASSERT_THAT(threads, SizeIs(1));
  EXPECT_EQ(threads[0].name, "main");
  EXPECT_THAT(nesting(threads[0]), ElementsAre("profile", "a<profile", "b<a", "c<a", "d<profile"));
  const auto& events = threads[0].events;
  EXPECT_EQ(events[0].kind, EventKind::root);
  EXPECT_EQ(events[1].kind, EventKind::range);
  std::int64_t last = events[0].begin;
  for (const ProfileEvent& event : events) {
    EXPECT_LE(last, event.begin);
    EXPECT_LE(event.begin, event.end);
    last = event.begin;
    if (event.parent < 0) continue;
    const ProfileEvent& parent = events[static_cast<std::size_t>(event.parent)];
    EXPECT_LE(parent.begin, event.begin);
    EXPECT_LE(event.end, parent.end);
  }
  EXPECT_LE(events[2].end, events[3].begin);
}

TEST(RecordFunction, WhatIsInsideEndsWithIt) {
  start_recording({});
  auto outer = std::make_unique<RecordFunction>("outer");
  auto inner = std::make_unique<RecordFunction>("inner");
  outer.reset();
  { const RecordFunction next("next"); }
  inner.reset();
  const RecordFunction last("last");
  const auto threads = stop_recording();
  const auto& events = threads[0].events;
  EXPECT_THAT(nesting(threads[0]), ElementsAre("profile", "outer<profile", "inner<outer",
                                               "next<profile", "last<profile"));
  EXPECT_EQ(events[2].end, events[1].end);
  EXPECT_LE(events[2].end, events[3].begin);
}

TEST(RecordFunction, ARangeThatOutlivesItsRecordingLeavesTheNextAlone) {
  start_recording({});
  auto old = std::make_unique<RecordFunction>("old");
  stop_recording();
  start_recording({});
  const RecordFunction fresh("fresh");
  old.reset();
  const RecordFunction inside("inside");
  EXPECT_THAT(nesting(stop_recording()[0]),
              ElementsAre("profile", "fresh<profile", "inside<fresh"));
}

TEST(RecordFunction, EachThreadHasALogOfItsOwn) {
  start_recording({});
  std::thread([] {
    set_thread_name("helper");
    const RecordFunction range("elsewhere");
  }).join();
  std::thread([] { const RecordFunction range("somewhere"); }).join();
  const auto threads = stop_recording();
  ASSERT_THAT(threads, SizeIs(3));
  EXPECT_THAT(nesting(threads[1]), ElementsAre("elsewhere"));
  EXPECT_EQ(threads[1].name, "helper");
  EXPECT_EQ(threads[2].name, "thread 2");
  EXPECT_EQ(threads[2].id, 2);
}

/// For ThreadSanitizer: ranges begin and end while recordings begin and end.
TEST(RecordFunction, RecordingsBeginAndEndUnderWorkingThreads) {
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      while (!done) {
        const RecordFunction outer("outer");
        const RecordFunction inner("inner");
        kernel();
      }
    });
  std::size_t most = 0;
  for (int i = 0; i < 50 || most < 2; ++i) {
    start_recording({.max_events = 100});
    std::this_thread::yield();
    for (const RecordedThread& thread : stop_recording()) {
      EXPECT_LE(thread.events.size(), 100U);
      for (const ProfileEvent& event : thread.events) EXPECT_LE(event.begin, event.end);
      most = std::max(most, static_cast<std::size_t>(thread.id) + 1);
    }
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
}

TEST(RecordFunction, BeyondTheLimitEventsAreCounted) {
  start_recording({.max_events = 3});
  for (int i = 0; i < 5; ++i) {
    const RecordFunction outer("outer");
    const RecordFunction inner("inner");
  }
  const auto threads = stop_recording();
  EXPECT_THAT(nesting(threads[0]), ElementsAre("profile", "outer<profile", "inner<outer"));
  EXPECT_EQ(threads[0].dropped, 8);
}

TEST(RecordFunction, ThereIsOneRecordingAtATime) {
  EXPECT_ERROR(stop_recording(), Error, "nothing is being recorded");
  start_recording({});
  EXPECT_ERROR(start_recording({}), Error, "a recording is already running");
  stop_recording();
}

TEST(RecordKernel, IsAnOpUnlessItIsPartOfOne) {
  start_recording({});
  kernel();
  {
    const RecordFunction op("composed", EventKind::op);
    kernel();
    kernel();
    const RecordFunction inner("inner op", EventKind::op);
  }
  const auto threads = stop_recording();
  EXPECT_THAT(nesting(threads[0]),
              ElementsAre("profile", "fill_<profile", "neg<profile", "composed<profile"));
  // ones() and neg, twice: 24 bytes are written, 24 read and 24 written.
  EXPECT_EQ(threads[0].events[3].bytes, 2 * 3 * 24);
  EXPECT_EQ(threads[0].events[2].bytes, 2 * 24);
}

TEST(RecordKernel, NestedOpsAreEventsWhereTheyAreAskedFor) {
  start_recording({.nested = true});
  {
    const RecordFunction op("composed", EventKind::op);
    kernel();
  }
  EXPECT_THAT(nesting(stop_recording()[0]),
              ElementsAre("profile", "composed<profile", "fill_<composed", "neg<composed"));
}

TEST(RecordKernel, KnowsWhatItComputesAndTouches) {
  const Tensor a = ones({1, 4, 5}), b = ones({1, 5, 6}), y = zeros({1, 4, 6});
  const Tensor row = ones({6}).broadcast_view({1, 4, 6});
  start_recording({.record_shapes = true});
  backend(y).matmul(a, b, {}, y);
  backend(y).binary(BinaryOp::add, y, row, y);
  const auto threads = stop_recording();
  const auto& events = threads[0].events;
  ASSERT_THAT(events, SizeIs(3));
  EXPECT_EQ(events[1].name, "matmul");
  EXPECT_EQ(events[1].flops, 2 * 4 * 5 * 6);
  EXPECT_EQ(events[1].bytes, 4 * (4 * 5 + 5 * 6 + 4 * 6));
  EXPECT_EQ(events[1].shapes, concat(a.shape(), " f32, ", b.shape(), " f32, ", y.shape(), " f32"));
  EXPECT_EQ(events[2].name, "add_");  // in the place of the operand
  EXPECT_EQ(events[2].flops, 24);
  EXPECT_EQ(events[2].bytes, 4 * (24 + 6 + 24));  // a repeated name is stored once
}

TEST(RecordKernel, EveryElementwiseOpHasItsName) {
  const Tensor x = ones({2}), y = zeros({2}), flag = zeros({2}, {.dtype = boolean});
  start_recording({});
  Backend& device = backend(x);
  device.unary(UnaryOp::relu, x, y);
  device.unary(UnaryOp::logical_not, x, flag);
  device.unary(UnaryOp::clamp, x, y, {.alpha = 0, .beta = 1});
  device.binary(BinaryOp::maximum, x, x, y);
  device.binary(BinaryOp::relu_backward, x, x, y);
  device.binary(BinaryOp::clamp_backward, x, x, y);
  device.reduce(ReductionOp::sum_squares, x, zeros({1}));
  EXPECT_THAT(nesting(stop_recording()[0]),
              ElementsAre("profile", "relu<profile", "logical_not<profile", "clamp<profile",
                          "maximum<profile", "relu_backward<profile", "clamp_backward<profile",
                          "fill_<profile", "sum_squares<profile"));
}

}  // namespace
}  // namespace rondo
