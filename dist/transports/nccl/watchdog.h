#pragma once
// Watchdog: detects that a collective on a GPU will never end.
//
// The host does not wait for collectives on a GPU, so it cannot notice that one of them hangs: a
// peer has died, or the ranks have called different collectives. Therefore a thread watches them.
// It aborts the communicator in three cases: the oldest collective has been running for longer than
// the timeout; NCCL has reported an error; or another rank has reported one.
// Its kernels then end, threads that wait for the device continue, and the next call on this rank
// throws the watchdog's error. Errors from other ranks come before NCCL's errors, which may only
// say that other ranks have aborted.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "dist/failure/watch.h"
#include "tensor/home_process.h"

namespace rondo::dist {

/// How often the thread looks; more often is not needed.
inline constexpr std::chrono::milliseconds between_looks(20);

/// The error that a watchdog has found, for all that must not continue after it.
class Failure {
 public:
  /// Throws CommError if something has failed.
  void check() const;
  bool is_set() const;
  void set(std::string what);

 private:
  mutable std::mutex mutex_;
  std::string what_;
};

class Watchdog {
 public:
  struct Options {
    int rank = 0;
    int device = 0;
    std::chrono::nanoseconds timeout;
    /// Extra time, in which a rank that knows which rank is missing (dist/collectives/compared.cpp)
    /// reports it.
    std::chrono::nanoseconds moment = std::min(timeout, grace_for_reports);
    std::function<std::string()> error;  // the communicator's error; empty: no error
    std::function<std::string()> news;   // the failure of another rank; empty: no failure
    std::function<void()> abort;         // ends all operations of the communicator
  };
  explicit Watchdog(Options options);
  ~Watchdog() { stop(); }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Watches a piece of work until `is_done` returns true, after all earlier ones; then drops the
  /// functions and what they hold. Calls `has_failed` if this work is the one that failed. Its time
  /// is measured from when `has_begun` returns true (null: from when it is the oldest).
  void watch(std::string name, std::function<bool()> is_done, std::function<void()> has_failed = {},
             std::function<bool()> has_begun = {});
  /// Lets this object's thread abort the communicator: NCCL's abort does not return while a graph
  /// that uses the communicator exists, and that graph may be the caller's. From now on failure()
  /// says why.
  void give_up(std::string why);
  /// Tells whether the communicator has been aborted, and why.
  std::shared_ptr<const Failure> failure() const { return failure_; }
  /// Stops watching. Work that is not done by then is kept alive forever.
  void stop();
  /// Whether all watched work is done.
  bool is_idle() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Watched {
    std::string name;
    std::function<bool()> is_done;
    std::function<void()> has_failed;
    std::function<bool()> has_begun;
  };
  static void keep_for_ever(std::deque<Watched> watched);
  void run();
  void look();
  void listen();
  void fail(std::string why);
  std::function<void()> note_failure();

  Options options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Watched> watched_;
  Clock::time_point head_since_{};  // when the oldest became the oldest, or began
  std::optional<Clock::time_point> error_since_;
  std::shared_ptr<Failure> failure_ = std::make_shared<Failure>();
  bool failed_ = false;
  bool abort_wanted_ = false;
  bool stop_ = false;
  std::thread thread_;
  HomeProcess home_;
};

}  // namespace rondo::dist
