#pragma once
// Progress: who polls the operations, and in which order.
//
// Note [Progress]
// Collectives run strictly one after another, in the order in which they were issued: the same on
// all ranks, so they can never wait for each other in a circle. Point-to-point messages are posted
// at once, beside them. One thread polls at a time: a background thread, so that communication
// overlaps with whatever the program does, and in its stead whoever calls Work::wait, who would
// otherwise only sleep. The background thread naps between fruitless polls, because the core it
// runs on computes the gradients; a waiter polls hard and only yields, because it has nothing else
// to do, and naps only when it has waited for long: other ranks then have more use for its core.
// Handing a collective over to another thread costs more than a small one takes, so blocking
// ones run on their caller's thread.

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

/// Beyond it, times overflow when they are added to the clock's.
inline constexpr std::chrono::nanoseconds longest_wait = std::chrono::hours(24 * 365 * 100);

struct WorkState final : Pending {
  std::string label;  // "all_reduce 17"
  int rank = 0;
  std::function<bool()> ready;  // null, or whether it may begin
  Begin begin;                  // holds the tensors, too
  bool begun = false;
  bool beside = false;                             // a message
  std::function<void()> finish;                    // runs once after success
  std::function<void(const std::string&)> failed;  // or is told why not, under Progress's mutex
  std::shared_ptr<void> keep;                      // what must live as long as the operation
  std::unique_ptr<Operation> operation;
  std::weak_ptr<Progress> progress;
  Clock::time_point issue_time{};
  static constexpr std::uint64_t unrecorded = ~std::uint64_t{0};
  std::uint64_t record = unrecorded;  // in the flight recorder

  // Written by whoever polls, under Progress's mutex.
  bool done = false;
  std::string error;  // not empty: failed
  Clock::time_point start_time{}, finish_time{};
  Clock::time_point waited_since{};  // while somebody does
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
  /// As `close`.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Starts the background thread, if it is wanted. Once, right after construction.
  void start();
  /// Stops polling, whichever thread does; what is still going on is given up, and who waits for it
  /// is told.
  void close();
  /// Queues a collective behind all earlier ones. `wake` is false where the caller waits for it
  /// right away, so that the background thread need not be woken.
  void submit(std::shared_ptr<WorkState> work, bool wake = true);
  /// Begins at once, beside the queue: point-to-point.
  void submit_beside(std::shared_ptr<WorkState> work);
  void wait(WorkState& work, std::chrono::nanoseconds timeout);
  /// Runs what begin() gives to its end on this thread, with nothing queued, if nothing is under
  /// way; else returns false. For collectives that take less time than a queue. `keep` is what
  /// other ranks may still read when it was given up; `signature` and `about` are for the flight
  /// recorder. Throws CommError.
  template <class Begin, class Label>
  bool run_now(int rank, std::shared_ptr<void> keep, const Signature& signature,
               const std::string& about, Begin begin, Label label) {
    if (!take_turn()) return false;
    const RecordFunction range(signature.name, EventKind::communication);
    const std::uint64_t record = options_.recorder->issued(signature, about, true);
    std::string error, news;
    try {
      const std::unique_ptr<Operation> operation = begin(*scratch_);
      const std::string late = poll_to_end(*operation);
      if (!late.empty()) error = news = describe_late(rank, label(), late);
    } catch (const Word& e) {
      error = describe_failure(rank, label(), e.what());
      news = e.news();
    } catch (const std::exception& e) {
      error = news = describe_failure(rank, label(), e.what());
    }
    options_.recorder->finished(record, error.empty());
    return_turn(error, news, std::move(keep));
    return true;
  }
  /// Is asked now and then while something is waited for, and told what fails; with `while_idle`
  /// also asked by the background thread when nothing is waited for.
  void set_watch(std::shared_ptr<Watch> watch, bool while_idle);
  /// How often a waiter polls in vain before it lets others have the core.
  void set_eager_polls(int polls) { eager_polls_ = polls; }
  /// Whether it is over; without a background thread, after polling once.
  bool test(WorkState& work);

  std::mutex& mutex() { return mutex_; }

 private:
  enum class Pace { idle, moved };
  /// What was heard of another rank, so that there is no sense in waiting any longer.
  struct Word final : CommError {
    Word(const std::string& text, bool is_new) : CommError(text), is_new(is_new) {}
    /// For the others: empty if they hear it as this rank did.
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
  /// The messages that travel beside the queue; whether one of them is over.
  bool poll_beside(std::unique_lock<std::mutex>& lock, bool& moved);
  /// Empty, or what it waited for when the time was over. Throws Word.
  std::string poll_to_end(Operation& operation);
  std::string describe_late(int rank, const std::string& label, const std::string& what) const;
  /// Asks the watch, now and then, about an operation that has waited `since`. By the thread that
  /// has the turn.
  std::optional<Word> word_on(const Operation& operation, Clock::time_point since,
                              Clock::time_point now);
  /// Empty, or that a rank for which it has waited `since` has come to its end without it.
  std::string in_vain(const Operation& operation, Clock::time_point since,
                      Clock::time_point now) const;
  /// Whether its time is over. Who does not know which rank is missing gives the one that does a
  /// moment more to say so.
  bool is_late(const Operation& operation, Clock::time_point since, Clock::time_point now) const;
  /// The ranks are out of step: from here on all fails with `error`. `news` is for those who have
  /// not heard of it yet; empty if they have.
  void break_down(const std::string& error, const std::string& news);
  /// Says on the error stream, once, who has ended while this rank computes and waits for nobody: a
  /// step may take long, and the launcher may end this rank before it meets the others again.
  void look_around();
  static std::string describe_failure(int rank, const std::string& label, const std::string& what);
  bool has_work() const { return !queue_.empty() || !beside_.empty(); }
  /// Whether the background thread has something to do: others poll rather than it.
  bool is_its_turn() const { return has_work() && waiters_ == 0 && !has_turn_; }

  Options options_;
  std::mutex mutex_;
  // Two, since waking a thread costs as much as a small collective: waiters are told when the turn
  // is free or something is over, the background thread only when there is something to do.
  std::condition_variable changed_, has_work_for_background_;
  std::deque<std::shared_ptr<WorkState>> queue_;
  std::list<std::shared_ptr<WorkState>> beside_;
  bool has_turn_ = false;  // somebody is polling
  int waiters_ = 0;
  std::atomic<int> eager_polls_ = 64;
  std::shared_ptr<Watch> watch_;
  Clock::time_point last_watched_{};
  News news_;
  bool looks_around_ = false;
  bool stop_ = false;
  std::string broken_;  // a collective failed: the ranks are out of step, nothing can follow
  std::shared_ptr<Scratch> scratch_ = std::make_shared<Scratch>();
  std::thread thread_;
  HomeProcess home_;
};

}  // namespace rondo::dist
