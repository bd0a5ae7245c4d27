#include "dist/mpi/patience.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
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

constexpr milliseconds look_at_processes_every(50);
constexpr milliseconds after_an_end(300);  // what it left to do may be done in a moment
constexpr milliseconds for_the_word(200);  // to reach the others, and for theirs
constexpr milliseconds for_others(2000);   // to say who is missing

// Written by a handler, which may only touch atomics without a lock.
std::atomic<bool> term_has_come{false};
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void note_term(int) { term_has_come = true; }

// A launcher may end the others as soon as one has ended.
void say(const std::string& sentence) {
  std::fprintf(stderr, "error: %s\n", sentence.c_str());
  std::this_thread::sleep_for(for_the_word);
}

[[noreturn]] void give_up(const std::string& sentence) {
  say(sentence);
  std::_Exit(EXIT_FAILURE);  // what runs at exit would wait for MPI again
}

/// `late`, and who is missing, if this rank knows it or hears it from another.
std::string find_out_who(const std::string& who, const std::string& late, const Watch& watch) {
  if (const std::string absent = watch.absent(); !absent.empty())
    return concat(late, " (", absent, ")");
  const auto until = steady_clock::now() + for_others;
  while (watch.tells_others() && watch.failed().empty() && steady_clock::now() < until)
    std::this_thread::sleep_for(look_at_processes_every);
  const std::string heard = watch.failed();
  return heard.empty() ? late : concat(who, " does not return: ", heard);
}

/// Whether nobody else in this program wants it.
bool catch_term() {
  struct sigaction now {};
  sigaction(SIGTERM, nullptr, &now);
  if ((now.sa_flags & SA_SIGINFO) != 0 || now.sa_handler != SIG_DFL) return false;
  term_has_come = false;
  struct sigaction action {};
  action.sa_handler = note_term;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  return sigaction(SIGTERM, &action, nullptr) == 0;
}

/// One that came does now what it would have done. A handler that somebody has installed since
/// stays.
void release_term() {
  struct sigaction now {};
  sigaction(SIGTERM, nullptr, &now);
  if (now.sa_handler == note_term) std::signal(SIGTERM, SIG_DFL);
  if (term_has_come) kill(getpid(), SIGTERM);
}

/// Empty, or who is to blame: what another rank has said comes before what follows from it.
std::string blame(const Watch& watch) {
  for (std::string sentence : {watch.failed(), watch.ended(), watch.absent()})
    if (!sentence.empty()) return sentence;
  return {};
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
  catches_term_ = watch != nullptr && catch_term();
  thread_ = std::thread([=, this] { run(who, limit, late, watch.get()); });
}

void Patience::run(const std::string& who, milliseconds limit, const std::string& late,
                   Watch* watch) {
  const auto begin = steady_clock::now();
  std::optional<steady_clock::time_point> heard, told;  // of an end; why some rank has failed
  std::unique_lock lock(mutex_);
  while (!is_over_) {
    const auto now = steady_clock::now();
    const std::string ended = watch == nullptr ? std::string() : watch->ended();
    if (!ended.empty() && !heard) heard = now;
    if (!told && watch != nullptr && !watch->failed().empty()) told = now;
    if (heard && now - *heard > after_an_end) {
      if (told) std::_Exit(EXIT_FAILURE);  // who has failed has said why
      give_up(concat(who, " does not return: ", ended));
    }
    if (catches_term_ && term_has_come) {
      // What was told before that has been said; since then it is who is missing.
      if (told && now - *told > for_the_word) return release_term();
      // Who is no neighbour of the missing one hears it from one that is.
      watch->tell(watch->absent());
      std::string sentence = blame(*watch);
      if (sentence.empty()) {
        std::this_thread::sleep_for(for_the_word);
        sentence = blame(*watch);
      }
      if (!sentence.empty()) say(concat(who, " does not return: ", sentence));
      return release_term();
    }
    if (now - begin >= limit) {
      if (watch == nullptr) give_up(late);
      lock.unlock();
      const std::string sentence = find_out_who(who, late, *watch);
      lock.lock();
      if (is_over_) return;
      watch->tell(sentence);
      give_up(sentence);
    }
    auto next = begin + limit;
    if (watch != nullptr) next = std::min<decltype(next)>(next, now + look_at_processes_every);
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
  if (catches_term_) release_term();
}

}  // namespace rondo::dist
