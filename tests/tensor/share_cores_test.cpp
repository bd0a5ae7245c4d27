// Waiting threads sleep while other processes use the cores. The second team's threads show it, not
// times.

#include "tensor/cpu/share_cores.h"

#include <gtest/gtest.h>
#include <omp.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <vector>

namespace rondo {
namespace {

using Clock = std::chrono::steady_clock;

std::int64_t threads_of_process() {
  const std::filesystem::directory_iterator threads("/proc/self/task");
  return std::distance(begin(threads), end(threads));
}

/// Keeps the cores busy for `length`.
void work(Clock::duration length) {
#pragma omp parallel
  for (const auto end = Clock::now() + length; Clock::now() < end;) {
  }
}

/// Processes that never wait.
class BusyProcesses {
 public:
  explicit BusyProcesses(int n) {
    for (int i = 0; i < n; ++i) {
      const pid_t child = fork();
      if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
        }
      }
      children_.push_back(child);
    }
  }
  ~BusyProcesses() {
    for (const pid_t child : children_) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
  }

 private:
  std::vector<pid_t> children_;
};

TEST(ShareCores, ASecondTeamSleepsNextToBusyProcesses) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "libgomp is not instrumented, so one thread runs the tests";
#endif
  const BusyProcesses others(2 * omp_get_num_procs());  // before this process has threads
  omp_set_num_threads(2);
  work(std::chrono::milliseconds(10));
  const std::int64_t before = threads_of_process();
  // The thread that owns the team is one of its threads.
  const std::int64_t expected = before + omp_get_num_procs();
  const auto end = Clock::now() + std::chrono::minutes(1);
  while (threads_of_process() < expected && Clock::now() < end) {
    work(std::chrono::milliseconds(50));
    cpu::share_cores();
  }
  EXPECT_EQ(threads_of_process(), expected);
}

TEST(ShareCores, NothingChangesForOneThread) {
  const BusyProcesses others(2 * omp_get_num_procs());
  omp_set_num_threads(1);
  const std::int64_t before = threads_of_process();
  for (int i = 0; i < 10; ++i) {
    work(std::chrono::milliseconds(50));
    cpu::share_cores();
  }
  EXPECT_EQ(threads_of_process(), before);
}

}  // namespace
}  // namespace rondo
