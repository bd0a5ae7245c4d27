#pragma once
// Work: a collective that was started and may still be going on.

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "dist/transports/transport.h"

namespace rondo::dist {

/// What a Work stands for. A collective of CPU tensors is driven by dist/collectives/progress.h;
/// one of a GPU's tensors lies in a stream (dist/transports/nccl).
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
  /// No collective at all; complete.
  Work() = default;
  explicit Work(std::shared_ptr<Pending> pending) : pending_(std::move(pending)) {}

  /// Whether it is over (also when it failed; `wait` then throws). Asking is not waiting: a message
  /// that is only asked for has no deadline.
  bool test() const { return !pending_ || pending_->test(); }
  /// Returns when it is complete; on a GPU, when the calling thread's current stream has been told
  /// to wait for it, unless there is a timeout: the host waits only then. Throws CommError, naming
  /// rank, collective, sequence number and what was waited for, when it failed (the communicator's
  /// timeout is over since it began, or for a message since it is waited for) or `timeout` is over
  /// since this call.
  void wait(std::optional<std::chrono::nanoseconds> timeout = std::nullopt) const {
    if (pending_) pending_->wait(timeout);
  }

  /// When it was issued, when it was begun (its predecessors are complete), and when it ended;
  /// the epoch of Clock where that has not happened, or is not known to the host.
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
