#include "train/background_write.h"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "dist/launch/world.h"
#include "tensor/printable.h"

namespace rondo::train {
namespace {

struct PendingWrites {
  std::mutex mutex;
  std::vector<std::future<void>> tasks;
};
PendingWrites& pending_writes() {
  // Never destroyed, because it is used when the process exits.
  static auto* all = new PendingWrites;
  return *all;
}

void finish(std::future<void> task) {
  try {
    task.get();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "warning: %s\n", printable(error.what(), "\n").c_str());
  }
}

}  // namespace

void BackgroundWrite::start(std::function<void()> write) {
  wait();
  finish_background_writes();  // of an earlier run, which may write to the same file
  task_ = std::async(std::launch::async, [write = std::move(write),
                                          writes = std::make_shared<dist::Unfinished>()]() mutable {
    const auto until_the_end = std::move(writes);
    write();
  });
}

void BackgroundWrite::wait() {
  if (task_.valid()) task_.get();
}

BackgroundWrite::~BackgroundWrite() {
  if (!task_.valid()) return;
  if (!home_.is_here()) {
    new std::future<void>(std::move(task_));  // leaked: its destructor would wait for its thread
    return;
  }
  if (std::uncaught_exceptions() == 0) {
    finish(std::move(task_));
    return;
  }
  at_exit_here<finish_background_writes>();
  std::lock_guard lock(pending_writes().mutex);
  pending_writes().tasks.push_back(std::move(task_));
}

void finish_background_writes() {
  std::vector<std::future<void>> tasks;
  {
    std::lock_guard lock(pending_writes().mutex);
    std::swap(tasks, pending_writes().tasks);
  }
  for (std::future<void>& task : tasks) finish(std::move(task));
}

}  // namespace rondo::train
