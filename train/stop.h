#pragma once
// StopSignal: SIGTERM and SIGINT as a request instead of an end. While one lives, the first signal
// only sets a flag, which a training loop looks at between two steps; a second one ends the program
// at once.

#include <csignal>

namespace rondo::train {

class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// The signal that asked the program to stop; 0: none did.
  static int requested();

 private:
  struct sigaction old_term_, old_int_;
};

}  // namespace rondo::train
