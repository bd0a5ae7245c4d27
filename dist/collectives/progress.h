#pragma once
// Progress: which thread polls the operations, and in which order.
//
// Note [Progress]
// Collectives run strictly one after another, in the order in which they were issued. This order is
// the same on all ranks, so collectives can never wait for each other in a circle. Point-to-point
// messages do not enter this queue: they are posted at once.
//
// One thread polls at a time. By default it is a background thread, so that communication overlaps
// with whatever the program computes. When a thread calls Work::wait, that thread polls instead,
// since it would otherwise only sleep.
//
// The background thread naps between fruitless polls, because the core that it runs on also
// computes the gradients. A waiting thread has nothing else to do: it polls without a pause, then
// yields between polls, and naps only after it has waited for long, since other ranks may then need
// its core.
//
// Handing a collective over to another thread costs more than a small collective takes. Therefore
// blocking collectives run on the thread that calls them.

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "dist/collectives/algorithms/pipeline.h"
#include "dist/collectives/work.h"
#include "dist/failure/flight_recorder.h"
#include "dist/failure/watch.h"
#include "tensor/home_process.h"
#include "tensor/record_function.h"

namespace rondo::dist {

class Progress;

/// Longer waits overflow when they are added to the clock's time.
inline constexpr std::chrono::nanoseconds longest_wait = std::chrono::hours(24 * 365 * 100);

struct WorkState final : Pending {
  // Set before it is submitted.
  std::string label;             // "all_reduce 17"
  std::function<bool()> ready;   // null, or whether the operation may begin
  Begin begin;                   // holds all that must live as long as the operation
  bool is_message = false;       // does not wait in the queue
  std::function<void()> finish;  // runs once after success
  std::function<void(const std::string&)>
      failed;  // or this is called with the error, under Progress's mutex
  static constexpr std::uint64_t unrecorded = ~std::uint64_t{0};
  std::uint64_t record = unrecorded;  // in the flight recorder

  // Set by Progress::submit.
  std::weak_ptr<Progress> progress;
  Clock::time_point issue_time{};

  // Written by the thread that polls, under Progress's mutex.
  bool begun = false;
  std::unique_ptr<Operation> operation;
  bool done = false;
  std::string error;  // not empty: failed
  Clock::time_point start_time{}, finish_time{};
  Clock::time_point waited_since{};  // set while a thread waits
  int waiters = 0;

  bool test() override;
  void wait(std::optional<std::chrono::nanoseconds> timeout) override;
  Clock::time_point issued() const override { return issue_time; }
  Clock::time_point started() const override { return read(&WorkState::start_time); }
  Clock::time_point finished() const override { return read(&WorkState::finish_time); }
  std::string name() const override { return label; }

 private:
  Clock::time_point read(Clock::time_point WorkState::*time) const;
};

class Progress : public std::enable_shared_from_this<Progress> {
 public:
  struct Options {
    std::shared_ptr<Transport> transport;  // kept alive for the operations
    std::chrono::nanoseconds timeout;
    bool background_thread;
    std::shared_ptr<FlightRecorder> recorder = std::make_shared<FlightRecorder>();
  };
  explicit Progress(Options options);
  /// Calls `close`.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Starts the background thread, if the options ask for it. Call it once, right after
  /// construction.
  void start();
  /// Stops all polling. Operations that are still under way are given up, and their waiters get an
  /// error.
  void close();
  /// Queues a collective after all earlier ones; a message begins at once. `wake` is false if the
  /// caller waits for it right away: the background thread need not be woken then.
  void submit(std::shared_ptr<WorkState> work, bool wake = true);
  void wait(WorkState& work, std::chrono::nanoseconds timeout);
  /// Runs the operation that begin() makes to completion on this thread, without queueing it, if
  /// nothing else is under way; otherwise returns false. For collectives that take less time than
  /// the queue. `keep` holds memory that other ranks may still read after the operation was given
  /// up. `signature` and `about` are for the flight recorder. Throws CommError.
  template <class Memory, class Begin, class Label>
  bool run_now(const std::shared_ptr<Memory>& keep, const Signature& signature,
               const std::string& about, Begin begin, Label label) {
    if (!take_turn()) return false;
    const RecordFunction range(signature.name, EventKind::communication);
    const std::uint64_t record = options_.recorder->issued(signature, about, true);
    std::string error, news;
    try {
      const std::unique_ptr<Operation> operation = begin(*scratch_);
      const std::string late = poll_to_end(*operation);
      if (!late.empty()) error = news = describe_late(label(), late);
    } catch (const PeerFailed& e) {
      error = describe_failure(label(), e.what());
      news = e.news();
    } catch (const std::exception& e) {
      error = news = describe_failure(label(), e.what());
    }
    options_.recorder->finished(record, error.empty());
    return_turn(error, news, error.empty() ? nullptr : std::shared_ptr<void>(keep));
    return true;
  }
  /// Sets the watch. Waiting threads ask it now and then whether a rank has failed, and tell it
  /// about failures of this rank. With `while_idle`, the background thread also asks it when no
  /// thread waits.
  void set_watch(std::shared_ptr<Watch> watch, bool while_idle);
  /// How many fruitless polls a waiter does before it lets others have the core.
  void set_eager_polls(int polls) { eager_polls_ = polls; }
  /// Whether the work is complete. Without a background thread, polls once first.
  bool test(WorkState& work);

  std::mutex& mutex() { return mutex_; }

 private:
  enum class Pace { idle, moved };
  /// Thrown when another rank is known to have failed or ended: waiting longer is useless.
  struct PeerFailed final : CommError {
    PeerFailed(const std::string& text, bool is_new) : CommError(text), is_new(is_new) {}
    /// The text to pass on to the other ranks; empty if they learn of it in the same way as this
    /// rank.
    std::string news() const { return is_new ? what() : ""; }
    bool is_new;
  };
  void run();                                          // the background thread
  Pace poll_once(std::unique_lock<std::mutex>& lock);  // by the thread that holds the turn
  bool poll(std::unique_lock<std::mutex>& lock, WorkState& work);
  void complete(WorkState& work, std::string error);
  bool take_turn();
  /// Throws `error` unless it is empty.
  void return_turn(const std::string& error, const std::string& news, std::shared_ptr<void> keep);
  /// Polls the point-to-point messages. Returns whether one of them is complete.
  bool poll_messages(std::unique_lock<std::mutex>& lock, bool& moved);
  /// Returns an empty text, or, if the deadline has passed, what the operation waited for. Throws
  /// PeerFailed.
  std::string poll_to_end(Operation& operation);
  std::string describe_late(const std::string& label, const std::string& what) const;
  /// Now and then asks the watch about an operation that has waited since `since`. Called by the
  /// thread that has the turn.
  std::optional<PeerFailed> peer_failure(const Operation& operation, Clock::time_point since,
                                         Clock::time_point now);
  /// Returns an empty text, or a sentence: the operation has waited since `since` for a rank whose
  /// program has ended without taking part.
  std::string in_vain(const Operation& operation, Clock::time_point since,
                      Clock::time_point now) const;
  /// Whether the deadline has passed. A rank that does not know which rank is missing waits a
  /// little longer, so that the rank that does know can report it first.
  bool is_late(const Operation& operation, Clock::time_point since, Clock::time_point now) const;
  /// The ranks are out of step: from here on everything fails with `error`. `news` is the text for
  /// the other ranks; empty if they already know.
  void break_down(const std::string& error, const std::string& news);
  /// Prints on the error stream, once, that a rank has ended, if this rank computes and waits for
  /// nobody. A step may take long, and the launcher may end this rank before its next collective.
  void look_around();
  std::string describe_failure(const std::string& label, const std::string& what) const;
  bool has_work() const { return !queue_.empty() || !messages_.empty(); }
  /// Whether the background thread should poll: there is work, and no other thread polls.
  bool is_its_turn() const { return has_work() && waiters_ == 0 && !has_turn_; }

  Options options_;
  int rank_;  // in the world, for messages
  std::mutex mutex_;
  // There are two because waking a thread costs as much as a small collective. Waiters are notified
  // when the turn is free or an operation is complete; the background thread only when it has work.
  std::condition_variable changed_, has_work_for_background_;
  std::deque<std::shared_ptr<WorkState>> queue_;
  std::list<std::shared_ptr<WorkState>> messages_;
  bool has_turn_ = false;  // a thread is polling
  int waiters_ = 0;
  std::atomic<int> eager_polls_ = 64;
  std::shared_ptr<Watch> watch_;
  Clock::time_point last_watched_{};
  PeerNews news_;
  bool looks_around_ = false;
  bool stop_ = false;
  std::string broken_;  // a collective failed: the ranks are out of step, no other can follow
  std::shared_ptr<ChunkBuffer> scratch_ = std::make_shared<ChunkBuffer>();
  std::thread thread_;
  HomeProcess home_;
};

}  // namespace rondo::dist
