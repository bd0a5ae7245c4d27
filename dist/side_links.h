#pragma once
// The connections of a side channel, of which one thread has care; it shares only the sentences.
// For dist/side_channel.cpp. What travels: dist/side_link.h.

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dist/side_channel.h"
#include "dist/side_link.h"
#include "dist/side_place.h"
#include "dist/sockets.h"
#include "dist/transport.h"

namespace rondo::dist::side {

/// What a rank brings along.
struct Self {
  int rank = 0, world_size = 1;
  Socket by_name, by_port;  // where others call
  /// Hello::token before the ranks have been introduced, within this machine and between machines;
  /// afterwards it is what rank 0 has drawn. Empty: nobody joins before.
  std::string local_token, early_token;
  std::map<int, std::vector<Address>> guesses;  // where a rank may be before it has said so
  std::set<int> findable;  // those that a guess must have found if they are there
  SideChannelOptions options;
};

class Links {
 public:
  /// Empty, where the system has no means.
  static std::unique_ptr<Links> make(Self self);
  Links(Self self, Socket wake);

  /// The thread's body, until `stop`.
  void run();
  // ---- For any thread.
  /// How to end: a moment after this rank has said bye, or when all neighbours have said so, too,
  /// or have ended, or one has fallen silent.
  enum class End { soon, with_others };
  /// `warn` hears, once a rank, of those that have left and said no bye `timeout` after this one's.
  void stop(End end, Watch::Warn warn = {});
  /// By rank: where it is. Ranks that have not found each other by guessing do now.
  void introduce(std::vector<Place> places);
  void tell(const std::string& why);
  void leave();
  std::optional<Clock::time_point> left(int rank) const;
  std::string ended() const;
  /// Empty, or who has fallen silent since this rank said bye.
  std::string silent() const;
  std::string failed() const;
  int connections() const;
  /// Neighbours who would be connected by now if they were there: before they are introduced, those
  /// that guesses find.
  std::vector<int> missing() const;

 private:
  void wait(Clock::time_point until);
  void look_at(Link& link, int events);
  void handle(Link& link, const Message& message);
  void answer(Link& stranger, const Hello& hello);
  void keep_time(Link& link);
  void warn_of(Link& link);
  void call(Link& link);
  void call_again(Link& link);
  void try_elsewhere(Link& link);
  void lose(Link& link, Socket::Line line);
  void go_by(const std::vector<Place>& places);
  void report(const std::string& sentence);
  void note_left(const std::string& ranks);
  void forget_left();
  void pass_on(Link& link) const;
  void pass_failure_on();
  void pass_leaving_on();
  std::vector<int> those_who_left() const;
  void say_to_all(Kind kind, const std::string& text = {});
  bool has_to_tell() const;
  /// Whether all is said and done; says bye when it is time.
  bool is_over();
  void let_in(const Socket& listener);
  void say_bye();
  bool has_said_bye() const { return ends_at_.has_value(); }
  /// Whether there is room for strangers there; who calls before there is a token waits.
  bool is_listening(bool is_local) const;
  void count();
  Clock::time_point deadline_of(const Link& link) const;
  /// Of silence.
  std::chrono::milliseconds limit_of(const Link& link) const {
    return std::max(self_.options.timeout, std::chrono::milliseconds(link.hello.timeout));
  }
  void greet(Link& link);
  /// Where the peer is, if not here: " on node7".
  std::string on_host(const Link& link) const {
    return link.hello.host == host_ ? "" : " on " + name_of(link.hello.host);
  }

  Self self_;
  std::string token_;  // of rank 0
  Socket wake_;
  std::string host_ = host();
  std::vector<Link> links_;
  std::set<int> callers_;  // neighbours that are to call this rank and have not joined
  Clock::time_point now_ = Clock::now(), next_beat_, full_until_{};
  std::optional<Clock::time_point> stays_until_, ends_at_;  // to tell others; to hear byes
  Clock::time_point bye_said_at_;
  bool has_passed_failure_on_ = false, is_introduced_ = false;
  std::set<int> passed_on_;  // of left_

  mutable std::mutex mutex_;
  std::optional<End> stop_;
  Watch::Warn warn_;
  std::map<int, Clock::time_point> left_;  // who is leaving
  std::optional<std::vector<Place>> introduced_;
  std::string ended_, silent_, failed_;
  int connections_ = 0;
  std::vector<int> missing_;
};

}  // namespace rondo::dist::side
