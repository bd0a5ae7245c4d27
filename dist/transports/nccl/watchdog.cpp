#include "dist/transports/nccl/watchdog.h"

#include <optional>
#include <utility>
#include <vector>

#include "dist/transports/transport.h"
#include "tensor/cuda/runtime.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

constexpr auto time_for_news = std::chrono::milliseconds(300);  // news that may explain an error

}  // namespace

// Work that was given up may still be in a stream, and may still run. Therefore its tensors are
// never freed. The world is ending anyway.
void Watchdog::keep_for_ever(std::deque<Watched> watched) {
  static std::mutex mutex;
  static auto* memory = new std::vector<std::deque<Watched>>;
  std::lock_guard lock(mutex);
  memory->push_back(std::move(watched));
}

Watchdog::Watchdog(Options options) : options_(std::move(options)), thread_([this] { run(); }) {}

void Watchdog::stop() {
  if (!home_.is_here()) {
    if (thread_.joinable()) thread_.detach();
    renew(mutex_, changed_);
    return keep_for_ever(std::exchange(watched_, {}));
  }
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  std::lock_guard lock(mutex_);
  if (!watched_.empty()) keep_for_ever(std::exchange(watched_, {}));
}

void Watchdog::watch(std::string name, std::function<bool()> is_done,
                     std::function<void()> has_failed, std::function<bool()> has_begun) {
  {
    std::lock_guard lock(mutex_);
    if (watched_.empty()) head_since_ = Clock::now();
    watched_.push_back(
        {std::move(name), std::move(is_done), std::move(has_failed), std::move(has_begun)});
  }
  changed_.notify_all();
}

void Failure::check() const {
  std::lock_guard lock(mutex_);
  if (!what_.empty()) throw CommError(what_);
}

bool Failure::is_set() const {
  std::lock_guard lock(mutex_);
  return !what_.empty();
}

void Failure::set(std::string what) {
  std::lock_guard lock(mutex_);
  if (what_.empty()) what_ = std::move(what);  // later errors are only consequences
}

bool Watchdog::is_idle() const {
  std::lock_guard lock(mutex_);
  return watched_.empty();
}

void Watchdog::run() {
  std::optional<cuda::DeviceGuard> guard;
  try {
    guard.emplace(options_.device);
  } catch (const std::exception& e) {  // a lost device
    failure_->set(concat("rank ", options_.rank, ": ", e.what()));
  }
  std::unique_lock lock(mutex_);
  while (!stop_ || abort_wanted_) {
    if (std::exchange(abort_wanted_, false)) {
      lock.unlock();
      options_.abort();
      lock.lock();
      continue;
    }
    if (failed_ || (watched_.empty() && !options_.news)) {
      changed_.wait(lock);
      continue;
    }
    if (watched_.empty()) {
      changed_.wait_for(lock, between_looks);
      if (!watched_.empty() || failed_ || stop_) continue;
      lock.unlock();
      listen();
      lock.lock();
      continue;
    }
    lock.unlock();
    look();
    lock.lock();
    if (!stop_) changed_.wait_for(lock, between_looks, [&] { return stop_ || abort_wanted_; });
  }
}

// CUDA and NCCL are called without the lock, since they may take time.
void Watchdog::look() {
  while (true) {
    Watched head;
    {
      std::lock_guard lock(mutex_);
      if (watched_.empty()) return;
      head = watched_.front();
    }
    try {
      const std::string error = options_.error();
      if (!error.empty() || !head.is_done()) {
        const std::string heard = options_.news ? options_.news() : "";
        if (!heard.empty()) return fail(concat(head.name, " failed: ", heard));
        if (error.empty()) {
          if (head.has_begun && !head.has_begun()) {  // behind another communicator's collective
            std::lock_guard lock(mutex_);
            head_since_ = Clock::now();
          }
          break;
        }
        if (!error_since_) error_since_ = Clock::now();
        if (options_.news && Clock::now() - *error_since_ < time_for_news) return;
        return fail(concat(head.name, " failed: ", error));
      }
    } catch (const std::exception& e) {
      return fail(concat(head.name, " failed: ", e.what()));
    }
    std::lock_guard lock(mutex_);
    watched_.pop_front();
    head_since_ = Clock::now();
  }
  std::string late;
  {
    std::lock_guard lock(mutex_);
    if (Clock::now() - head_since_ > options_.timeout + options_.moment)
      late = concat(watched_.front().name, " gave up after ",
                    std::chrono::duration<double>(options_.timeout).count(),
                    " s of waiting for the other ranks");
  }
  if (!late.empty()) fail(std::move(late));
}

void Watchdog::listen() {
  if (const std::string heard = options_.news(); !heard.empty())
    fail(concat("no collective can follow: ", heard));
}

void Watchdog::give_up(std::string why) {
  failure_->set(std::move(why));
  const auto has_failed = note_failure();
  if (has_failed) has_failed();
  {
    std::lock_guard lock(mutex_);
    abort_wanted_ = true;
  }
  changed_.notify_all();
}

void Watchdog::fail(std::string why) {
  const auto has_failed = note_failure();
  if (has_failed) has_failed();
  failure_->set(concat("rank ", options_.rank, ": ", why));
  options_.abort();
}

/// Takes the function that the oldest work wants to have called, once.
std::function<void()> Watchdog::note_failure() {
  std::lock_guard lock(mutex_);
  const bool is_first = !std::exchange(failed_, true);
  return is_first && !watched_.empty() ? watched_.front().has_failed : nullptr;
}

}  // namespace rondo::dist
