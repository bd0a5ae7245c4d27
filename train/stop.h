#pragma once
// StopSignal: turns SIGTERM and SIGINT into a request to stop. While a StopSignal exists, the first
// signal only sets a flag, which the training loop checks between steps; the second one ends the
// program at once. Several may exist at a time (if ranks are threads); the signal is for all of
// them. When the last one is destroyed, the previous signal handlers are restored.

namespace rondo::train {

class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// The signal that asked the program to stop; 0: none.
  static int requested();
};

}  // namespace rondo::train
