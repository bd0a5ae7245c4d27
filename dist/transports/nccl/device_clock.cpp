#include "dist/transports/nccl/device_clock.h"

#include <algorithm>
#include <chrono>

namespace rondo::dist {

Clock::time_point DeviceClock::time_of(const cuda::Event& reached) {
  const auto now = Clock::now();
  if (at_ == Clock::time_point{} || now - at_ > std::chrono::seconds(1)) set();
  if (at_ == Clock::time_point{}) return now;
  // An event that was reached before the reference has a negative distance.
  const std::chrono::duration<float, std::milli> distance(reached.ms_since(mark_));
  return std::min(at_ + std::chrono::duration_cast<Clock::duration>(distance), now);
}

/// Times out, since a GPU that does not answer must not block a watchdog.
void DeviceClock::set() {
  const cuda::Event mark(stream_.device(), /*with_time=*/true);
  mark.record(stream_);
  const auto deadline = Clock::now() + std::chrono::milliseconds(5);
  while (!mark.is_done()) {
    if (Clock::now() > deadline) return;
  }
  at_ = Clock::now();
  mark_ = mark;
}

}  // namespace rondo::dist
