#include "dist/mpi/patience.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <utility>

#include "dist/environment.h"
#include "dist/launcher.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds look_every(100);
constexpr milliseconds after_an_end(5000);  // who ended in order has left this rank work to do
constexpr milliseconds for_the_word(200);   // to get out of this process
constexpr milliseconds for_others(2000);    // to say who is missing

[[noreturn]] void give_up(const std::string& sentence) {
  std::fprintf(stderr, "error: %s\n", sentence.c_str());
  std::_Exit(EXIT_FAILURE);  // what runs at exit would wait for MPI again
}

/// `late`, and who is missing, if this rank knows it or hears it from another.
std::string say_who(const std::string& who, const std::string& late, Watch& watch) {
  if (const std::string absent = watch.absent(); !absent.empty()) {
    const std::string sentence = concat(late, " (", absent, ")");
    watch.tell(sentence);
    std::this_thread::sleep_for(for_the_word);
    return sentence;
  }
  const auto until = steady_clock::now() + for_others;
  while (watch.tells_others() && watch.failed().empty() && steady_clock::now() < until)
    std::this_thread::sleep_for(look_every);
  const std::string heard = watch.failed();
  return heard.empty() ? late : concat(who, " does not return: ", heard);
}

}  // namespace

Patience::Patience(const std::string& call, milliseconds limit, const std::string& reason,
                   std::shared_ptr<Watch> watch) {
  limit = seconds_from_environment("RONDO_MPI_TIMEOUT", 0.1).value_or(limit);
  const auto launcher = read_launcher();
  const std::string who = launcher ? concat("rank ", launcher->rank, ": ", call) : call;
  const std::string late =
      concat(who, " has not returned for ", std::chrono::duration<double>(limit).count(),
             " s (RONDO_MPI_TIMEOUT); ", reason);
  thread_ = std::thread([=, this] { run(who, limit, late, watch.get()); });
}

void Patience::run(const std::string& who, milliseconds limit, const std::string& late,
                   Watch* watch) {
  const auto begin = steady_clock::now();
  std::optional<steady_clock::time_point> heard;
  std::unique_lock lock(mutex_);
  while (!is_over_) {
    const auto now = steady_clock::now();
    const std::string ended = watch == nullptr ? std::string() : watch->ended();
    if (!ended.empty() && !heard) heard = now;
    if (heard && now - *heard > after_an_end) {
      // Who has said why before it ended is not the one to blame.
      const std::string failed = watch->failed();
      give_up(concat(who, " does not return: ", failed.empty() ? ended : failed));
    }
    if (now - begin >= limit) {
      if (watch == nullptr) give_up(late);
      lock.unlock();
      const std::string sentence = say_who(who, late, *watch);
      lock.lock();
      if (!is_over_) give_up(sentence);
    }
    auto next = begin + limit;
    if (watch != nullptr) next = std::min<decltype(next)>(next, now + look_every);
    changed_.wait_until(lock, next, [this] { return is_over_; });
  }
}

Patience::~Patience() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

}  // namespace rondo::dist
