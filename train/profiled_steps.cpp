#include "train/profiled_steps.h"

#include <algorithm>

namespace rondo::train {
namespace {

constexpr std::int64_t profiler_warm_up = 5;

}  // namespace

ProfiledSteps::ProfiledSteps(std::int64_t wanted, std::int64_t left, std::int64_t in_epoch)
    : wanted_(std::min(wanted, in_epoch)),
      left_(left),
      in_epoch_(in_epoch),
      to_leave_out_(std::clamp<std::int64_t>(left - wanted_, 0, profiler_warm_up)) {}

void ProfiledSteps::before_step(std::int64_t position) {
  if (wanted_ == 0 || profiler_ != nullptr || done_ != nullptr || to_leave_out_ > 0) return;
  const std::int64_t in_this_epoch = in_epoch_ - position;
  if (in_this_epoch < wanted_ && in_this_epoch < left_) return;  // a later epoch has more steps
  profiler_ =
      std::make_shared<Profiler>(RecordingOptions{.record_shapes = true, .profile_memory = true});
  ending_ = std::make_unique<Profiler::Recording>(profiler_->start());
}

void ProfiledSteps::after_step() {
  --left_;
  --to_leave_out_;
  if (profiler_ == nullptr) return;
  profiler_->step();
  if (++profiled_ == wanted_) end_of_epoch();
}

void ProfiledSteps::end_of_epoch() {
  if (profiler_ == nullptr) return;
  profiler_->stop();
  if (profiled_ > 0) done_ = profiler_;
  ending_.reset();
  profiler_.reset();
}

}  // namespace rondo::train
