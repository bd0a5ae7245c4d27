#include "train/stop.h"

namespace rondo::train {
namespace {

volatile std::sig_atomic_t stop_requested = 0;

extern "C" void note_signal(int signal) { stop_requested = signal; }

}  // namespace

StopSignal::StopSignal() {
  stop_requested = 0;
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags =
      SA_RESTART | static_cast<int>(SA_RESETHAND);  // the second signal takes its usual course
  sigemptyset(&action.sa_mask);
  sigaction(SIGTERM, &action, &old_term_);
  sigaction(SIGINT, &action, &old_int_);
}

StopSignal::~StopSignal() {
  sigaction(SIGTERM, &old_term_, nullptr);
  sigaction(SIGINT, &old_int_, nullptr);
}

int StopSignal::requested() { return stop_requested; }

}  // namespace rondo::train
