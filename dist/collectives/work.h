#pragma once
// Work: a handle to a collective that was started and may still be under way.

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "dist/transports/transport.h"

namespace rondo::dist {

/// The implementation behind a Work. dist/collectives/progress.h drives a collective of CPU
/// tensors; a collective of GPU tensors runs in a stream (dist/transports/nccl).
class Pending {
 public:
  virtual ~Pending() = default;
  virtual bool test() = 0;
  virtual void wait(std::optional<std::chrono::nanoseconds> timeout) = 0;
  virtual Clock::time_point issued() const = 0;
  virtual Clock::time_point started() const = 0;
  virtual Clock::time_point finished() const = 0;
  virtual std::string name() const = 0;
};

class Work {
 public:
  /// An empty Work, which is always complete.
  Work() = default;
  explicit Work(std::shared_ptr<Pending> pending) : pending_(std::move(pending)) {}

  /// Whether it is complete. Also true after a failure; `wait` then throws. `test` starts no
  /// deadline: a message that is only tested never times out.
  bool test() const { return !pending_ || pending_->test(); }
  /// Blocks until the collective is complete. On a GPU it only makes the calling thread's current
  /// stream wait; the host waits only if `timeout` is given. Throws CommError, naming rank,
  /// collective, sequence number and what was waited for, if the collective failed, or if `timeout`
  /// has passed since this call. It also fails when the communicator's timeout has passed: since
  /// the collective began, or, for a message, since the first wait for it.
  void wait(std::optional<std::chrono::nanoseconds> timeout = std::nullopt) const {
    if (pending_) pending_->wait(timeout);
  }

  /// When it was issued, when it began (its predecessors were complete), and when it ended. The
  /// epoch of Clock if that has not happened yet, or if the host does not know.
  Clock::time_point issued() const { return pending_ ? pending_->issued() : Clock::time_point{}; }
  Clock::time_point started() const { return pending_ ? pending_->started() : Clock::time_point{}; }
  Clock::time_point finished() const {
    return pending_ ? pending_->finished() : Clock::time_point{};
  }
  /// "all_reduce 17".
  std::string name() const { return pending_ ? pending_->name() : "nothing"; }

 private:
  std::shared_ptr<Pending> pending_;
};

}  // namespace rondo::dist
