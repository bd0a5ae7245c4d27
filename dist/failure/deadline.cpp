#include "dist/failure/deadline.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <utility>

#include "dist/launch/environment.h"
#include "dist/launch/launcher.h"
#include "tensor/error.h"
#include "tensor/printable.h"

namespace rondo::dist {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds listen_every(50);
// The call may still return. Open MPI 5 ends all ranks 250 ms after the first has died.
constexpr milliseconds after_an_end(100);
constexpr milliseconds for_the_others(200);

/// A launcher may end the other ranks as soon as this one has ended. They get time to print first.
[[noreturn]] void give_up(const std::string& sentence) {
  std::fprintf(stderr, "error: %s\n", printable(sentence, "\n").c_str());
  std::this_thread::sleep_for(for_the_others);
  std::_Exit(EXIT_FAILURE);  // an exit handler would wait for MPI again
}

}  // namespace

Deadline::Deadline(const std::string& call, milliseconds limit, const std::string& reason,
                   std::shared_ptr<Watch> watch) {
  limit = seconds_from_environment("RONDO_MPI_TIMEOUT", 0.1).value_or(limit);
  const auto launcher = read_launcher();
  const std::string what = launcher ? concat("rank ", launcher->rank, ": ", call) : call;
  const std::string late =
      concat(what, " has not returned for ", std::chrono::duration<double>(limit).count(),
             " s (RONDO_MPI_TIMEOUT); ", reason);
  thread_ = std::thread([=, this, watch = std::move(watch)] {
    const auto end = steady_clock::now() + limit;
    std::optional<steady_clock::time_point> heard;  // when this rank learned that a rank has ended
    std::unique_lock lock(mutex_);
    while (!is_over_) {
      const auto now = steady_clock::now();
      if (now >= end) {
        if (watch != nullptr) watch->tell(late);
        give_up(late);
      }
      const std::string ended = watch == nullptr ? "" : watch->ended();
      if (!ended.empty() && !heard) heard = now;
      if (heard && now - *heard > after_an_end) {
        if (!watch->failed().empty()) std::_Exit(EXIT_FAILURE);
        give_up(concat(what, " does not return: ", ended));
      }
      const auto next = watch == nullptr ? end : std::min<decltype(end)>(end, now + listen_every);
      changed_.wait_until(lock, next, [this] { return is_over_; });
    }
  });
}

Deadline::~Deadline() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

}  // namespace rondo::dist
