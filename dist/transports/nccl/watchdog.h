#pragma once
// Watchdog: who notices that a collective on a GPU will never end.
//
// The host does not wait for collectives on a GPU, so it cannot notice that one of them hangs: a
// peer died, or the ranks called different things. A thread looks after them instead. When the
// oldest has been at the head of its stream for longer than the timeout, or NCCL has noticed an
// error by itself, or another rank has told one, the thread aborts the communicator: its kernels
// end, whoever waits for the device is set free, and the next call on this rank throws what the
// watchdog has found. What others have told comes before what NCCL has noticed, which may be no
// more than that others have aborted theirs.

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

/// Nobody needs to know sooner.
inline constexpr std::chrono::milliseconds between_looks(20);

/// What a watchdog has found, for all who must not go on then.
class Failure {
 public:
  /// Throws CommError when something has failed.
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
    /// More, for whoever knows which rank is missing (dist/collectives/compared.cpp) to say so.
    std::chrono::nanoseconds moment = std::min(timeout, most_for_others);
    std::function<std::string()> error;  // what is wrong with the communicator; empty: nothing
    std::function<std::string()> news;   // what was heard of other ranks; empty: nothing
    std::function<void()> abort;         // ends all that it is doing
  };
  explicit Watchdog(Options options);
  ~Watchdog() { stop(); }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// From now on waits for `is_done`, after all that was handed over before; then drops it, and
  /// what it holds. `has_failed` is called when it was what failed.
  void watch(std::string name, std::function<bool()> is_done,
             std::function<void()> has_failed = {});
  /// Has the communicator aborted, by this object's thread: NCCL's abort lasts as long as a graph
  /// that uses the communicator, which may be the caller's. From now on failure() says why.
  void give_up(std::string why);
  /// Where it says that the communicator has been aborted, and why.
  std::shared_ptr<const Failure> failure() const { return failure_; }
  /// Looks no more. What is not done then is kept for ever.
  void stop();
  /// Whether all that was handed over is done.
  bool is_idle() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Watched {
    std::string name;
    std::function<bool()> is_done;
    std::function<void()> has_failed;
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
  Clock::time_point head_since_{};  // when the oldest became the oldest
  std::optional<Clock::time_point> error_since_;
  std::shared_ptr<Failure> failure_ = std::make_shared<Failure>();
  bool failed_ = false;
  bool abort_wanted_ = false;
  bool stop_ = false;
  std::thread thread_;
  HomeProcess home_;
};

}  // namespace rondo::dist
