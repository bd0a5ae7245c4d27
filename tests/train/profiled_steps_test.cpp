// Which steps of a run are profiled: after five warm-up steps if the run has enough steps, and all
// in one epoch.

#include "train/profiled_steps.h"

#include <gtest/gtest.h>

namespace rondo::train {
namespace {

/// The step at which profiling begins, counted from 0 in the run, and how many steps it takes.
struct Profiled {
  std::int64_t first = -1, count = 0;
  bool operator==(const Profiled&) const = default;
};

Profiled run(std::int64_t wanted, std::int64_t epochs, std::int64_t in_epoch,
             std::int64_t start = 0) {
  ProfiledSteps profiled(wanted, epochs * in_epoch - start, in_epoch);
  Profiled found;
  for (std::int64_t step = start; step < epochs * in_epoch; ++step) {
    profiled.before_step(step % in_epoch);
    if (found.first < 0 && is_recording()) found.first = step;
    profiled.after_step();
    if ((step + 1) % in_epoch == 0) profiled.end_of_epoch();
    EXPECT_FALSE(is_recording() && (step + 1) % in_epoch == 0);
  }
  EXPECT_FALSE(is_recording());
  if (profiled.result() != nullptr) found.count = profiled.result()->steps();
  return found;
}

TEST(ProfiledSteps, FollowAWarmUpAndStayInAnEpoch) {
  EXPECT_EQ(run(10, 3, 100), (Profiled{5, 10}));
  EXPECT_EQ(run(10, 1, 15), (Profiled{5, 10}));
  EXPECT_EQ(run(10, 1, 12), (Profiled{2, 10}));  // as much warm-up as there are steps for
  EXPECT_EQ(run(10, 1, 8), (Profiled{0, 8}));
  EXPECT_EQ(run(10, 2, 8), (Profiled{8, 8}));  // the first epoch has only 3 steps after the warm-up
  EXPECT_EQ(run(10, 1, 100, 40), (Profiled{45, 10}));
  EXPECT_EQ(run(10, 1, 100, 97), (Profiled{97, 3}));  // a run that is resumed near its end
  EXPECT_EQ(run(1, 9, 1), (Profiled{5, 1}));
  EXPECT_EQ(run(0, 3, 100), Profiled());
}

TEST(ProfiledSteps, AnEpochThatIsBrokenOffEndsThem) {
  ProfiledSteps profiled(10, 15, 15);
  for (int step = 0; step < 7; ++step) {
    profiled.before_step(step);
    if (step < 6) profiled.after_step();
  }
  EXPECT_TRUE(is_recording());
  profiled.end_of_epoch();
  EXPECT_FALSE(is_recording());
  ASSERT_NE(profiled.result(), nullptr);
  EXPECT_EQ(profiled.result()->steps(), 1);
}

TEST(ProfiledSteps, ARunThatThrowsRecordsNoLonger) {
  {
    ProfiledSteps profiled(10, 10, 10);
    profiled.before_step(0);
    EXPECT_TRUE(is_recording());
  }
  EXPECT_FALSE(is_recording());
}

}  // namespace
}  // namespace rondo::train
