#pragma once
// ProfiledSteps: picks the steps of a run that fit profiles.
//
// The first steps of a run make kernels, touch memory and open connections, so they are left out
// where the run is long enough. The profiled ones lie in one epoch, since between two of them is an
// evaluation: they begin where the epoch has room for them.

#include <cstdint>
#include <memory>

#include "train/profiler.h"

namespace rondo::train {

class ProfiledSteps {
 public:
  /// `wanted` steps of a run that has `left` to go, in epochs of `in_epoch`; 0: none.
  ProfiledSteps(std::int64_t wanted, std::int64_t left, std::int64_t in_epoch);

  /// Before the batch of the step is asked for, the step being `position` in its epoch.
  void before_step(std::int64_t position);
  void after_step();
  void end_of_epoch();

  /// Null until then, and where no step was run.
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
