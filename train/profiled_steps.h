#pragma once
// ProfiledSteps: picks the steps of a run that fit profiles.
//
// The first steps of a run create kernels, touch memory and open connections. They are left out if
// the run is long enough. All profiled steps are in one epoch, because an evaluation follows each
// epoch. They start in the first epoch with enough steps left.

#include <cstdint>
#include <memory>

#include "train/profiler.h"

namespace rondo::train {

class ProfiledSteps {
 public:
  /// Profiles `wanted` steps (0: none) of a run with `left` steps to go, in epochs of `in_epoch`
  /// steps.
  ProfiledSteps(std::int64_t wanted, std::int64_t left, std::int64_t in_epoch);

  /// Call it before the step's batch is requested. `position` is the index of the step in its
  /// epoch.
  void before_step(std::int64_t position);
  void after_step();
  void end_of_epoch();

  /// The profile; null until it is complete, and if no step was run.
  std::shared_ptr<const Profiler> result() const { return done_; }

 private:
  std::int64_t wanted_, left_, in_epoch_;
  std::int64_t to_leave_out_;
  std::int64_t profiled_ = 0;
  std::shared_ptr<Profiler> profiler_;  // while it records
  std::unique_ptr<Profiler::Recording> ending_;
  std::shared_ptr<const Profiler> done_;
};

}  // namespace rondo::train
