#include "train/stop.h"

#include <atomic>
#include <csignal>
#include <mutex>

namespace rondo::train {
namespace {

// All threads read it, and a signal handler writes it, so it must be a lock-free atomic.
std::atomic<int> stop_requested{0};
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void note_signal(int signal) { stop_requested = signal; }

std::mutex mutex;
int living = 0;  // training loops in the process; one per rank if ranks are threads
struct sigaction old_term, old_int;

}  // namespace

StopSignal::StopSignal() {
  std::lock_guard lock(mutex);
  if (living++ > 0) return;
  stop_requested = 0;
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags =
      SA_RESTART | static_cast<int>(SA_RESETHAND);  // the second signal has its default effect
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
