#include "dist/collectives/progress.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <utility>
#include <vector>

#include "dist/collectives/idle.h"
#include "tensor/error.h"
#include "tensor/printable.h"

namespace rondo::dist {
namespace {

constexpr auto watch_every = std::chrono::milliseconds(20);
constexpr auto look_every = std::chrono::milliseconds(100);  // while no thread waits
// How long to wait for messages that a rank sent before it announced that it finalizes MPI. They
// use another connection, so they may arrive later.
constexpr auto time_to_arrive = std::chrono::seconds(5);

constexpr const char* destroyed = "the communicator was destroyed";

std::string seconds(std::chrono::nanoseconds t) {
  return concat(std::chrono::duration<double>(t).count(), " s");
}

// A transfer that was given up may still be under way: MPI can withdraw neither a send nor a
// collective. Therefore its tensors and buffers are never freed. The world is ending anyway.
void keep_for_ever(std::shared_ptr<void> memory) {
  static std::mutex mutex;
  static auto* all = new std::vector<std::shared_ptr<void>>;
  std::lock_guard lock(mutex);
  all->push_back(std::move(memory));
}

}  // namespace

Progress::Progress(Options options)
    : options_(std::move(options)),
      rank_(options_.transport->rank_in_world(options_.transport->rank())) {
  options_.timeout = std::min(options_.timeout, longest_wait);
}

void Progress::start() {
  if (options_.background_thread) thread_ = std::thread([this] { run(); });
}

Progress::~Progress() { close(); }

void Progress::close() {
  if (!home_.is_here()) {
    if (thread_.joinable()) thread_.detach();
    renew(mutex_, changed_, has_work_for_background_);
    new auto(std::pair(std::move(queue_),
                       std::move(messages_)));  // their destructors would call the transport
    return;
  }
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  has_work_for_background_.notify_all();
  if (thread_.joinable()) thread_.join();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !has_turn_; });
  const auto give_up = [&](const std::shared_ptr<WorkState>& work) {
    work->failed = nullptr;  // the work has not failed
    complete(*work, destroyed);
  };
  std::ranges::for_each(queue_, give_up);
  std::ranges::for_each(messages_, give_up);
  queue_.clear();
  messages_.clear();
  changed_.notify_all();
}

void Progress::submit(std::shared_ptr<WorkState> work, bool wake) {
  work->progress = weak_from_this();
  work->issue_time = Clock::now();
  {
    std::lock_guard lock(mutex_);
    if (work->is_message) {
      messages_.push_back(std::move(work));
    } else {
      queue_.push_back(std::move(work));
    }
  }
  if (wake) has_work_for_background_.notify_one();
}

void Progress::complete(WorkState& work, std::string error) {
  work.operation.reset();  // gives up its requests, if there are any
  if (!error.empty() && work.begun) {
    keep_for_ever(std::make_shared<Begin>(std::move(work.begin)));
    keep_for_ever(std::exchange(scratch_, std::make_shared<ChunkBuffer>()));
  }
  if (!error.empty() && work.failed) work.failed(error);
  work.ready = nullptr;
  work.begin = nullptr;
  work.finish = nullptr;
  work.failed = nullptr;
  if (work.record != WorkState::unrecorded) options_.recorder->finished(work.record, error.empty());
  work.error = std::move(error);
  work.finish_time = Clock::now();
  work.done = true;
}

// One step of one operation. The lock is released during the step. This is safe: only the thread
// that has the turn touches operations, and flags that other threads read are written under the
// lock.
bool Progress::poll(std::unique_lock<std::mutex>& lock, WorkState& work) {
  Poll result = Poll::idle;
  std::string error = broken_, news;
  bool is_first = !work.begun;
  if (is_first && error.empty() && work.ready) {
    try {
      if (!work.ready()) return false;
    } catch (const std::exception& e) {
      error = news = describe_failure(work.label, e.what());
    }
  }
  if (is_first) {
    work.start_time = Clock::now();
    if (work.record != WorkState::unrecorded) options_.recorder->started(work.record);
  }
  if (error.empty()) {
    lock.unlock();
    try {
      if (is_first) {
        work.operation = work.begin(*scratch_);
        work.begun = true;
      }
      result = work.operation ? work.operation->poll() : Poll::done;
      if (result == Poll::done && work.finish) work.finish();
    } catch (const std::exception& e) {
      error = news = describe_failure(work.label, e.what());
    }
    lock.lock();
    if (error.empty() && result == Poll::idle && work.operation) {
      const auto now = Clock::now();
      // A message that no thread waits for has no deadline.
      const auto since = !work.is_message   ? work.start_time
                         : work.waiters > 0 ? work.waited_since
                                            : now;
      if (const auto word = peer_failure(*work.operation, since, now)) {
        error = describe_failure(work.label, word->what());
        news = word->news();
      } else if (is_late(*work.operation, since, now)) {
        const int missing = work.operation->missing();
        error = describe_late(work.label, work.operation->waiting_for());
        news = missing < 0 ? error
                           : concat("rank ", missing, " has not called ", work.label, " for ",
                                    seconds(options_.timeout));
      }
    }
  }
  if (!error.empty()) {
    break_down(error, news);
    complete(work, std::move(error));
    return true;
  }
  if (result == Poll::done) complete(work, "");
  return result != Poll::idle;
}

Progress::Pace Progress::poll_once(std::unique_lock<std::mutex>& lock) {
  bool moved = false, finished = false;
  if (!queue_.empty()) {
    auto work = queue_.front();
    moved |= poll(lock, *work);
    if (work->done) {
      queue_.pop_front();
      finished = true;
    }
  }
  finished |= poll_messages(lock, moved);
  if (finished) changed_.notify_all();
  return moved ? Pace::moved : Pace::idle;
}

bool Progress::poll_messages(std::unique_lock<std::mutex>& lock, bool& moved) {
  bool finished = false;
  for (auto it = messages_.begin(); it != messages_.end();) {
    auto work = *it;
    moved |= poll(lock, *work);
    if (work->done) {
      it = messages_.erase(it);
      finished = true;
    } else {
      ++it;
    }
  }
  return finished;
}

void Progress::run() {
  set_thread_name("communication");
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (!is_its_turn()) {
      if (!looks_around_) {
        has_work_for_background_.wait(lock,
                                      [&] { return stop_ || is_its_turn() || looks_around_; });
      } else if (!has_work_for_background_.wait_for(lock, look_every,
                                                    [&] { return stop_ || is_its_turn(); })) {
        look_around();
      }
      continue;
    }
    has_turn_ = true;
    Pace pace = poll_once(lock);
    has_turn_ = false;
    if (waiters_ > 0) {
      changed_.notify_all();
    } else if (pace == Pace::idle) {
      has_work_for_background_.wait_for(lock, Idle::nap, [&] { return stop_ || waiters_ > 0; });
    }
  }
}

void Progress::wait(WorkState& work, std::chrono::nanoseconds timeout) {
  RecordFunction range;  // "all_reduce", for the label "all_reduce 17 of bucket 2"
  if (is_recording())
    range.open(std::string_view(work.label).substr(0, work.label.find(' ')),
               EventKind::communication);
  timeout = std::min(timeout, longest_wait);
  const auto deadline = Clock::now() + timeout;
  std::unique_lock lock(mutex_);
  if (work.waiters++ == 0) work.waited_since = Clock::now();
  ++waiters_;
  bool in_time = true;
  while (!work.done && in_time) {
    if (has_turn_ || stop_) {
      in_time =
          changed_.wait_until(lock, deadline, [&] { return work.done || !(has_turn_ || stop_); });
      continue;
    }
    has_turn_ = true;
    Idle idle;
    while (!work.done && in_time && !stop_) {
      if (!idle.should_give_way(poll_once(lock) == Pace::moved, eager_polls_)) continue;
      const auto now = Clock::now();
      lock.unlock();
      idle.give_way(now);
      lock.lock();
      in_time = now < deadline;
    }
    has_turn_ = false;
    if (stop_) changed_.notify_all();
  }
  --waiters_;
  --work.waiters;
  if (waiters_ > 0 || stop_) changed_.notify_all();
  if (is_its_turn()) has_work_for_background_.notify_one();
  if (!work.done) {
    // The thread that has the turn may be changing the operation.
    std::string what = has_turn_        ? "the thread that polls it"
                       : work.operation ? work.operation->waiting_for()
                                        : "the collectives issued before it";
    throw CommError(concat("rank ", rank_, ": ", work.label, " was not complete after ",
                           seconds(timeout), "; it waits for ", what));
  }
  if (!work.error.empty()) throw CommError(work.error);
}

void Progress::break_down(const std::string& error, const std::string& news) {
  if (!broken_.empty()) return;
  broken_ = error;
  if (watch_ != nullptr && !news.empty()) watch_->tell(news);
}

void Progress::set_watch(std::shared_ptr<Watch> watch, bool while_idle) {
  {
    std::lock_guard lock(mutex_);
    watch_ = std::move(watch);
    looks_around_ = watch_ != nullptr && while_idle;
  }
  has_work_for_background_.notify_one();
}

std::optional<Progress::PeerFailed> Progress::peer_failure(const Operation& operation,
                                                           Clock::time_point since,
                                                           Clock::time_point now) {
  if (watch_ == nullptr || now - last_watched_ < watch_every) return std::nullopt;
  last_watched_ = now;
  if (const std::string heard = news_.bad(*watch_, now); !heard.empty())
    return PeerFailed(heard, false);
  if (const std::string vain = in_vain(operation, since, now); !vain.empty())
    return PeerFailed(vain, true);
  return std::nullopt;
}

std::string Progress::in_vain(const Operation& operation, Clock::time_point since,
                              Clock::time_point now) const {
  if (now - since < time_to_arrive) return {};
  const int rank = operation.awaits();
  const auto finalized = rank < 0 ? std::nullopt : watch_->finalized(rank);
  if (!finalized || now - *finalized < time_to_arrive) return {};
  return concat("rank ", rank, " has reached the end of its program");
}

bool Progress::is_late(const Operation& operation, Clock::time_point since,
                       Clock::time_point now) const {
  const bool asks_others = operation.missing() < 0 && watch_ != nullptr && watch_->tells_others();
  const auto moment = std::min(options_.timeout, grace_for_reports);
  return now - since > (asks_others ? options_.timeout + moment : options_.timeout);
}

void Progress::look_around() {
  if (has_turn_ || !broken_.empty()) return;  // the polling thread will report it
  const std::string heard = news_.bad(*watch_, Clock::now());
  if (heard.empty()) return;
  looks_around_ = false;
  std::fprintf(stderr, "warning: rank %d: the next collective will fail: %s\n", rank_,
               printable(heard).c_str());
  std::fflush(stderr);
}

bool Progress::take_turn() {
  std::lock_guard lock(mutex_);
  if (!broken_.empty()) throw CommError(broken_);
  if (has_turn_ || has_work()) return false;
  has_turn_ = true;
  return true;
}

void Progress::return_turn(const std::string& error, const std::string& news,
                           std::shared_ptr<void> keep) {
  std::lock_guard lock(mutex_);
  has_turn_ = false;
  if (waiters_ > 0 || stop_) changed_.notify_all();
  if (is_its_turn()) has_work_for_background_.notify_one();
  if (error.empty()) return;
  break_down(error, news);
  keep_for_ever(std::move(keep));
  keep_for_ever(std::exchange(scratch_, std::make_shared<ChunkBuffer>()));
  throw CommError(error);
}

std::string Progress::poll_to_end(Operation& operation) {
  Clock::time_point deadline{};
  for (Idle idle;;) {
    const Poll result = operation.poll();
    if (result == Poll::done) return {};
    if (!idle.should_give_way(result == Poll::moved, eager_polls_)) continue;
    const auto now = Clock::now();  // operations that complete quickly never read the clock
    if (deadline == Clock::time_point{}) deadline = now + options_.timeout;
    if (now > deadline) return operation.waiting_for();
    if (const auto word = peer_failure(operation, deadline - options_.timeout, now)) throw *word;
    {
      std::unique_lock lock(mutex_);
      require<CommError>(!stop_, destroyed);
      bool moved = false;
      if (!messages_.empty() && poll_messages(lock, moved)) changed_.notify_all();
    }
    idle.give_way(now);
  }
}

std::string Progress::describe_late(const std::string& label, const std::string& what) const {
  return concat("rank ", rank_, ": ", label, " gave up after ", seconds(options_.timeout),
                " of waiting for ", what);
}

std::string Progress::describe_failure(const std::string& label, const std::string& what) const {
  return concat("rank ", rank_, ": ", label, " failed: ", what);
}

bool Progress::test(WorkState& work) {
  std::unique_lock lock(mutex_);
  if (!work.done && !options_.background_thread && !has_turn_ && !stop_) {
    has_turn_ = true;
    poll_once(lock);
    has_turn_ = false;
    if (waiters_ > 0 || stop_) changed_.notify_all();
  }
  return work.done;
}

bool WorkState::test() {
  auto driver = progress.lock();
  return driver ? driver->test(*this) : true;
}

void WorkState::wait(std::optional<std::chrono::nanoseconds> timeout) {
  auto driver = progress.lock();
  // A wait without a timeout ends, too, since the work itself has a deadline.
  if (driver) return driver->wait(*this, timeout.value_or(longest_wait));
  if (!error.empty()) throw CommError(error);
}

Clock::time_point WorkState::read(Clock::time_point WorkState::*time) const {
  auto driver = progress.lock();
  if (!driver) return this->*time;
  std::lock_guard lock(driver->mutex());
  return this->*time;
}

}  // namespace rondo::dist
