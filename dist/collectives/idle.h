#pragma once
// Idle: how a thread that polls lets others run (Note [Progress] in progress.h).

#include <chrono>
#include <thread>

#include "dist/transports/transport.h"

namespace rondo::dist {

/// Polls in a row that moved nothing, of a thread that waits.
class Idle {
 public:
  static constexpr auto nap = std::chrono::microseconds(50);
  static constexpr auto yields_for = std::chrono::microseconds(100);  // before it naps

  /// Counts a poll. Returns whether others should run before the next one.
  bool should_give_way(bool moved, int eager_polls) {
    if (moved) {
      *this = {};
    } else {
      ++polls_;
    }
    return polls_ >= eager_polls;
  }
  /// Lets them run. A thread that yields comes back at once if nobody wants the core, and hundreds
  /// of thousands of times a second if somebody does; so it yields for a while only, and then naps.
  void give_way(Clock::time_point now) {
    if (since_ == Clock::time_point{}) since_ = now;
    if (now - since_ < yields_for) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(nap);
    }
  }

 private:
  int polls_ = 0;
  Clock::time_point since_{};
};

}  // namespace rondo::dist
