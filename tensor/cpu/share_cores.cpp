#include "tensor/cpu/share_cores.h"

#include <omp.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace rondo::cpu {
namespace {

using Clock = std::chrono::steady_clock;

/// How often a thread loses its core per second of its computing time: about 40 times on an idle
/// machine, and 750 times next to a process that never waits.
constexpr double most_switches = 100;
constexpr auto interval = std::chrono::milliseconds(100);
constexpr auto short_waits_last = std::chrono::seconds(2);

double in_seconds(const timeval& t) {
  return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
}

/// An OpenMP team of its own thread. All of its threads sleep until it ends.
class SleepingTeam {
 public:
  explicit SleepingTeam(int threads)
      : owner_([this, threads] {
#pragma omp parallel num_threads(threads)
          started_.fetch_add(1);  // an empty region would be removed
          std::unique_lock lock(mutex_);
          ended_.wait(lock, [this] { return end_; });
        }) {
  }
  ~SleepingTeam() {
    {
      const std::scoped_lock lock(mutex_);
      end_ = true;
    }
    ended_.notify_one();
    owner_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool end_ = false;
  std::atomic<int> started_{0};
  std::thread owner_;  // the last member: its thread uses the others
};

/// Whether n more threads can be started. libgomp ends the program if it cannot start one.
bool can_start(int n) {
  std::vector<std::thread> threads;
  std::mutex gate;
  std::unique_lock lock(gate);
  bool can = true;
  try {
    threads.reserve(static_cast<std::size_t>(n));
    while (n-- > 0) threads.emplace_back([&gate] { const std::scoped_lock wait(gate); });
  } catch (const std::exception&) {
    can = false;
  }
  lock.unlock();
  for (std::thread& thread : threads) thread.join();
  return can;
}

std::atomic<Clock::rep> next_check{0};
std::mutex team_mutex;
// Guarded by team_mutex.
Clock::time_point crowded_at;
double last_time = 0;
long last_switches = 0;
SleepingTeam* team = nullptr;  // never destroyed at exit, when threads may no longer be joined
pid_t teams_process = 0;
bool is_possible = true;

}  // namespace

void share_cores() {
  const int threads = omp_get_max_threads();
  const Clock::time_point now = Clock::now();
  if (threads == 1 || now.time_since_epoch().count() < next_check.load(std::memory_order_relaxed))
    return;
  const std::unique_lock lock(team_mutex, std::try_to_lock);
  if (!lock) return;
  next_check.store((now + interval).time_since_epoch().count(), std::memory_order_relaxed);

  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const double time = in_seconds(usage.ru_utime) + in_seconds(usage.ru_stime);
  const bool crowded =
      static_cast<double>(usage.ru_nivcsw - last_switches) > most_switches * (time - last_time);
  last_time = time;
  last_switches = usage.ru_nivcsw;
  if (team != nullptr && getpid() != teams_process) team = nullptr;  // a fork has no copy of it
  if (crowded) {
    crowded_at = now;
    if (team != nullptr || !is_possible) return;
    const int size = omp_get_num_procs();
    is_possible = can_start(size);
    if (!is_possible) return;  // the long waits stay
    team = new SleepingTeam(size);
    teams_process = getpid();
  } else if (team != nullptr && now - crowded_at > short_waits_last) {
    delete team;
    team = nullptr;
  }
}

}  // namespace rondo::cpu
