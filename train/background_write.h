#pragma once
// BackgroundWrite: one thing being written by a thread while the training goes on.

#include <functional>
#include <future>

#include "tensor/home_process.h"

namespace rondo::train {

class BackgroundWrite {
 public:
  BackgroundWrite() = default;
  BackgroundWrite(BackgroundWrite&&) = default;
  BackgroundWrite& operator=(BackgroundWrite&&) = delete;
  /// Waits for what is being written, and says on standard error what went wrong with it, unless an
  /// error is on its way up: then the write goes on by itself, so that this rank tells the others
  /// at once what happened (dist/launch/run.cpp gives them two seconds), and all ranks' processes
  /// wait for it at their end. Only where some rank does not fail is the job aborted without it.
  ~BackgroundWrite();

  /// Waits for the one before, and throws what that threw, and for those left to themselves.
  void start(std::function<void()> write);
  void wait();

 private:
  std::future<void> task_;
  HomeProcess home_;
};

/// Waits for those that were left to themselves; runs at the end of the process as well.
void finish_background_writes();

}  // namespace rondo::train
