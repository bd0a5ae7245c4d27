#include "train/stop.h"

#include <atomic>
#include <csignal>
#include <mutex>

namespace rondo::train {
namespace {

// Read by all threads and written by a handler, which may only touch atomics without a lock.
std::atomic<int> stop_requested{0};
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void note_signal(int signal) { stop_requested = signal; }

std::mutex mutex;
int living = 0;  // loops of a process, one for each rank where ranks are threads
struct sigaction old_term, old_int;

}  // namespace

StopSignal::StopSignal() {
  std::lock_guard lock(mutex);
  if (living++ > 0) return;
  stop_requested = 0;
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags =
      SA_RESTART | static_cast<int>(SA_RESETHAND);  // the second signal takes its usual course
  sigemptyset(&action.sa_mask);
  sigaction(SIGTERM, &action, &old_term);
  sigaction(SIGINT, &action, &old_int);
}

StopSignal::~StopSignal() {
  std::lock_guard lock(mutex);
  if (--living > 0) return;
  sigaction(SIGTERM, &old_term, nullptr);
  sigaction(SIGINT, &old_int, nullptr);
}

int StopSignal::requested() { return stop_requested; }

}  // namespace rondo::train
