#pragma once
// Work: a collective that was started and may still be going on.

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "dist/transport.h"

namespace rondo::dist {

class Progress;
struct WorkState;

class Work {
 public:
  /// No collective at all; complete.
  Work() = default;
  explicit Work(std::shared_ptr<WorkState> state) : state_(std::move(state)) {}

  /// Whether it is over (also when it failed; `wait` then throws).
  bool test() const;
  /// Returns when it is complete. Throws CommError, naming rank, collective, sequence number and
  /// what was waited for, when it failed (the communicator's timeout is over since it began) or
  /// `timeout` is over since this call.
  void wait(std::optional<std::chrono::nanoseconds> timeout = std::nullopt) const;

  /// When it was issued, when it was begun (its predecessors are complete), and when it ended;
  /// the epoch of Clock where that has not happened.
  Clock::time_point issued() const;
  Clock::time_point started() const;
  Clock::time_point finished() const;
  /// "all_reduce 17".
  std::string name() const;

 private:
  std::shared_ptr<WorkState> state_;
};

}  // namespace rondo::dist
