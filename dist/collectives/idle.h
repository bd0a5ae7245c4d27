#pragma once
// Idle: how a polling thread lets others run (Note [Progress] in progress.h).

#include <chrono>
#include <thread>

#include "dist/transports/transport.h"

namespace rondo::dist {

/// Counts the successive polls of a waiting thread that made no progress.
class Idle {
 public:
  static constexpr auto nap = std::chrono::microseconds(50);
  static constexpr auto yields_for =
      std::chrono::microseconds(100);  // yields this long before it naps

  /// Counts a poll. Returns whether others should run before the next one.
  bool should_give_way(bool moved, int eager_polls) {
    if (moved) {
      *this = {};
    } else {
      ++polls_;
    }
    return polls_ >= eager_polls;
  }
  /// Lets other threads run. A thread that yields resumes at once if no other thread needs the
  /// core; if another does, the two switch hundreds of thousands of times a second. Therefore it
  /// yields only for a while, and then naps.
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
