// The part of the communication that was hidden behind backward, for steps with made-up times.

#include "train/overlap.h"

#include <gtest/gtest.h>

namespace rondo::train {
namespace {

using dist::Clock;

const Clock::time_point start{std::chrono::hours(1)};
Clock::time_point at(int ms) { return start + std::chrono::milliseconds(ms); }

TEST(Overlap, SplitsCommunicationAtTheEndOfBackward) {
  Overlap overlap;
  overlap.add({.first_gradient = start,
               .backward_end = at(20),
               .synchronized = at(32),
               .buckets = {{.bytes = 8, .started = at(5), .finished = at(15)},
                           {.bytes = 8, .started = at(15), .finished = at(30)}}});
  EXPECT_EQ(overlap.steps, 1);
  EXPECT_DOUBLE_EQ(overlap.backward_ms, 20);
  EXPECT_DOUBLE_EQ(overlap.communication_ms, 25);
  EXPECT_DOUBLE_EQ(overlap.hidden_ms, 15);
  EXPECT_DOUBLE_EQ(overlap.exposed_ms, 12);
  EXPECT_DOUBLE_EQ(overlap.hidden_share(), 0.6);
  // One more step, whose buckets overlap each other and are not in order: 2 to 12, counted once.
  overlap.add({.first_gradient = start,
               .backward_end = at(20),
               .synchronized = at(21),
               .buckets = {{.started = at(4), .finished = at(12)},
                           {.started = at(2), .finished = at(8)},
                           {.started = at(5), .finished = at(6)}}});
  EXPECT_EQ(overlap.steps, 2);
  EXPECT_DOUBLE_EQ(overlap.communication_ms, 35);
  EXPECT_DOUBLE_EQ(overlap.hidden_ms, 25);
}

TEST(Overlap, WithoutTimesThereIsNothingToAdd) {
  Overlap overlap;
  overlap.add({});
  overlap.add({.first_gradient = start,
               .backward_end = at(20),
               .synchronized = at(20),
               .buckets = {{.bytes = 8, .ready = at(3)}}});
  EXPECT_EQ(overlap.steps, 0);
  EXPECT_EQ(overlap.hidden_share(), 0);
}

}  // namespace
}  // namespace rondo::train
