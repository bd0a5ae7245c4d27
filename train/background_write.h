#pragma once
// BackgroundWrite: a thread writes one thing while the training continues.

#include <functional>
#include <future>

#include "tensor/home_process.h"

namespace rondo::train {

class BackgroundWrite {
 public:
  BackgroundWrite() = default;
  BackgroundWrite(BackgroundWrite&&) = default;
  BackgroundWrite& operator=(BackgroundWrite&&) = delete;
  /// Waits for the write, and prints its error, if any, to standard error. Does not wait while an
  /// exception is unwinding the stack: this rank then tells the others about the failure at once
  /// (dist/launch/run.cpp gives them two seconds), and the process waits for the write when it
  /// exits. The write is lost only if the job is aborted because some rank does not fail.
  ~BackgroundWrite();

  /// Waits for the previous write, throws its error, and waits for the writes of destroyed objects.
  void start(std::function<void()> write);
  void wait();

 private:
  std::future<void> task_;
  HomeProcess home_;
};

/// Waits for the writes whose objects were destroyed by an exception. Also runs when the process
/// exits.
void finish_background_writes();

}  // namespace rondo::train
