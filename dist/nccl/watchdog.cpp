#include "dist/nccl/watchdog.h"

#include <utility>
#include <vector>

#include "dist/transport.h"
#include "tensor/cuda/runtime.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

constexpr auto between_looks = std::chrono::milliseconds(20);

}  // namespace

// What was given up may lie in a stream still, behind who knows what, and be done yet. So its
// tensors are never given back; the world is ending anyway.
void Watchdog::keep_for_ever(std::deque<Watched> watched) {
  static std::mutex mutex;
  static auto* memory = new std::vector<std::deque<Watched>>;
  std::lock_guard lock(mutex);
  memory->push_back(std::move(watched));
}

Watchdog::Watchdog(Options options) : options_(std::move(options)), thread_([this] { run(); }) {}

void Watchdog::stop() {
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
                     std::function<void()> has_failed) {
  {
    std::lock_guard lock(mutex_);
    if (watched_.empty()) head_since_ = Clock::now();
    watched_.push_back({std::move(name), std::move(is_done), std::move(has_failed)});
  }
  changed_.notify_all();
}

void Failure::check() const {
  std::lock_guard lock(mutex_);
  if (!what_.empty()) throw CommError(what_);
}

void Failure::set(std::string what) {
  std::lock_guard lock(mutex_);
  if (what_.empty()) what_ = std::move(what);  // what follows from it is no news
}

bool Watchdog::is_idle() const {
  std::lock_guard lock(mutex_);
  return watched_.empty();
}

void Watchdog::run() {
  const cuda::DeviceGuard guard(options_.device);
  std::unique_lock lock(mutex_);
  while (!stop_ || abort_wanted_) {
    if (std::exchange(abort_wanted_, false)) {
      lock.unlock();
      options_.abort();
      lock.lock();
      continue;
    }
    if (watched_.empty() || failed_) {
      changed_.wait(lock);
      continue;
    }
    lock.unlock();
    look();
    lock.lock();
    if (!stop_) changed_.wait_for(lock, between_looks, [&] { return stop_ || abort_wanted_; });
  }
}

// Outside the lock where CUDA and NCCL are asked: they may take their time.
void Watchdog::look() {
  while (true) {
    Watched head;
    {
      std::lock_guard lock(mutex_);
      if (watched_.empty()) return;
      head = watched_.front();
    }
    try {
      if (std::string error = options_.error(); !error.empty())
        return fail(concat(head.name, " failed: ", error));
      if (!head.is_done()) break;
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
    if (Clock::now() - head_since_ > options_.timeout)
      late = concat(watched_.front().name, " gave up after ",
                    std::chrono::duration<double>(options_.timeout).count(),
                    " s of waiting for the other ranks");
  }
  if (!late.empty()) fail(std::move(late));
}

void Watchdog::give_up(std::string why) {
  failure_->set(std::move(why));
  {
    std::lock_guard lock(mutex_);
    failed_ = abort_wanted_ = true;
  }
  changed_.notify_all();
}

void Watchdog::fail(std::string why) {
  std::function<void()> has_failed;
  {
    std::lock_guard lock(mutex_);
    failed_ = true;
    if (!watched_.empty()) has_failed = watched_.front().has_failed;
  }
  if (has_failed) has_failed();
  failure_->set(concat("rank ", options_.rank, ": ", why));
  options_.abort();
}

}  // namespace rondo::dist
