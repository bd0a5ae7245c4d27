#include "dist/nccl/watchdog.h"

#include "dist/transport.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

constexpr auto between_looks = std::chrono::milliseconds(20);

}  // namespace

Watchdog::Watchdog(Options options) : options_(std::move(options)), thread_([this] { run(); }) {}

Watchdog::~Watchdog() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Watchdog::watch(std::string name, std::function<bool()> is_done) {
  {
    std::lock_guard lock(mutex_);
    if (watched_.empty()) head_since_ = Clock::now();
    watched_.push_back({std::move(name), std::move(is_done)});
  }
  changed_.notify_all();
}

void Watchdog::check() const {
  std::lock_guard lock(mutex_);
  if (!failure_.empty()) throw CommError(failure_);
}

bool Watchdog::is_idle() const {
  std::lock_guard lock(mutex_);
  return watched_.empty();
}

void Watchdog::run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (watched_.empty() || !failure_.empty()) {
      changed_.wait(lock);
      continue;
    }
    lock.unlock();
    look();
    lock.lock();
    if (!stop_) changed_.wait_for(lock, between_looks, [&] { return stop_; });
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

void Watchdog::fail(std::string why) {
  {
    std::lock_guard lock(mutex_);
    failure_ = concat("rank ", options_.rank, ": ", why);
  }
  options_.abort();
}

}  // namespace rondo::dist
