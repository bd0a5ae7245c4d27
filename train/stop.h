#pragma once
// StopSignal: SIGTERM and SIGINT as a request instead of an end. While one lives, the first signal
// only sets a flag, which a training loop looks at between two steps; a second one ends the program
// at once. Several may live at a time, where ranks are threads: the signal is for all of them, and
// what the program did with signals before is back after the last.

namespace rondo::train {

class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// The signal that asked the program to stop; 0: none did.
  static int requested();
};

}  // namespace rondo::train
