#include "train/overlap.h"

#include <algorithm>
#include <chrono>

namespace rondo::train {
namespace {

using dist::Clock;

double ms(Clock::duration time) {
  return std::max(0.0, std::chrono::duration<double, std::milli>(time).count());
}

}  // namespace

void Overlap::add(const dist::StepTimeline& step) {
  using Bucket = dist::StepTimeline::Bucket;
  std::vector<Bucket> buckets = step.buckets;
  // With a world of one nothing was sent; on a GPU the times are unknown.
  std::erase_if(buckets, [](const Bucket& b) {
    return b.started == Clock::time_point{} || b.finished == Clock::time_point{};
  });
  if (buckets.empty() || step.backward_end == Clock::time_point{}) return;
  std::ranges::sort(buckets, {}, &Bucket::started);
  Clock::time_point until = buckets[0].started;  // time before `until` has been counted
  for (const Bucket& b : buckets) {
    const auto begin = std::max(b.started, until);
    until = std::max(until, b.finished);
    communication_ms += ms(until - begin);
    hidden_ms += ms(std::min(until, step.backward_end) - begin);
  }
  backward_ms += ms(step.backward_end - step.first_gradient);
  exposed_ms += ms(step.synchronized - step.backward_end);
  ++steps;
  last = step;
}

}  // namespace rondo::train
