// The thread of a side channel: what is said on its connections, when, and what their silence and
// their end mean. How a connection comes about: dist/side_calls.cpp.

#include "dist/side_links.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <utility>

#include "tensor/error.h"

namespace rondo::dist::side {
namespace {

using std::chrono::milliseconds;

// Together below patience_out_of_step of dist/run.cpp.
constexpr milliseconds patience_at_end(200), patience_to_tell(700);

/// "3 4 5 …", as many messages as it takes.
std::vector<std::string> texts_of(const std::vector<int>& ranks) {
  std::vector<std::string> texts;
  for (const int rank : ranks) {
    const std::string number = concat(rank, ' ');
    if (texts.empty() || texts.back().size() + number.size() > longest) texts.emplace_back();
    texts.back() += number;
  }
  return texts;
}

}  // namespace

std::unique_ptr<Links> Links::make(Self self) {
  Socket wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return nullptr;
  return std::make_unique<Links>(std::move(self), std::move(wake));
}

Links::Links(Self self, Socket wake)
    : self_(std::move(self)), wake_(std::move(wake)), next_beat_(now_ + self_.options.beat) {
  for (int peer : SideChannel::neighbours(self_.rank, self_.world_size)) {
    if (peer > self_.rank) {
      callers_.insert(peer);
      continue;
    }
    links_.push_back({.stage = Stage::pausing,
                      .peer = peer,
                      .calls = true,
                      .since = now_,
                      .heard = now_,
                      .addresses = self_.guesses[peer]});
  }
  count();
}

// ---- For any thread.

void Links::stop(End end, Watch::Warn warn) {
  {
    std::lock_guard lock(mutex_);
    stop_ = end;
    warn_ = std::move(warn);
  }
  eventfd_write(wake_.file(), 1);
}

void Links::introduce(std::vector<Place> places) {
  {
    std::lock_guard lock(mutex_);
    introduced_ = std::move(places);
  }
  eventfd_write(wake_.file(), 1);
}

void Links::tell(const std::string& why) {
  {
    std::lock_guard lock(mutex_);
    if (!failed_.empty()) return;
    failed_ = why;
  }
  eventfd_write(wake_.file(), 1);
}

void Links::leave() {
  {
    std::lock_guard lock(mutex_);
    left_.emplace(self_.rank, Clock::now());
  }
  eventfd_write(wake_.file(), 1);
}

std::optional<Clock::time_point> Links::left(int rank) const {
  std::lock_guard lock(mutex_);
  const auto found = left_.find(rank);
  return found == left_.end() ? std::nullopt : std::optional(found->second);
}

std::string Links::ended() const {
  std::lock_guard lock(mutex_);
  return ended_;
}

std::string Links::silent() const {
  std::lock_guard lock(mutex_);
  return silent_;
}

std::string Links::failed() const {
  std::lock_guard lock(mutex_);
  return failed_;
}

int Links::connections() const {
  std::lock_guard lock(mutex_);
  return connections_;
}

std::vector<int> Links::missing() const {
  std::lock_guard lock(mutex_);
  return missing_;
}

// ---- The thread.

void Links::run() {
  while (!is_over()) {
    Clock::time_point until = next_beat_;
    if (ends_at_ || stays_until_) until = std::min(until, ends_at_ ? *ends_at_ : *stays_until_);
    for (const Link& link : links_) until = std::min(until, deadline_of(link));
    if (full_until_ > now_) until = std::min(until, full_until_);
    wait(until);
    // Who was stopped itself cannot blame others for their silence.
    if (now_ - until > std::min(self_.options.timeout / 2, milliseconds(1000))) {
      for (Link& link : links_) link.heard = now_;
      bye_said_at_ = now_;
    }
    std::optional<std::vector<Place>> introduced;
    {
      std::lock_guard lock(mutex_);
      introduced.swap(introduced_);
    }
    if (introduced) go_by(*introduced);
    for (Link& link : links_) {
      keep_time(link);
      warn_of(link);
    }
    pass_failure_on();
    pass_leaving_on();
    if (now_ >= next_beat_) {
      next_beat_ = now_ + self_.options.beat;
      for (Link& link : links_) {
        if (link.counts() && link.out.empty() && !has_said_bye()) link.say(Kind::beat);
      }
    }
    std::erase_if(links_, [](const Link& link) { return link.stage == Stage::over; });
    count();
  }
}

// Who has said bye does not go at once. A peer that is still in MPI_Finalize may be stopped there,
// and nobody else would notice.
bool Links::is_over() {
  const auto end = [&] {
    std::lock_guard lock(mutex_);
    return stop_;
  }();
  if (!end) return false;
  now_ = Clock::now();
  if (!has_said_bye()) {
    if (!stays_until_) stays_until_ = now_ + patience_to_tell;
    if (now_ < *stays_until_ && has_to_tell()) return false;
    pass_failure_on();
    say_bye();
    bye_said_at_ = now_;
    ends_at_ = *end == End::soon ? now_ + patience_at_end : Clock::time_point::max();
  }
  const bool knows_enough = *end == End::with_others && (!ended().empty() || !failed().empty());
  return links_.empty() || now_ >= *ends_at_ || knows_enough;
}

void Links::count() {
  std::set<int> missing = callers_;
  int connections = 0;
  for (const Link& link : links_) {
    connections += link.stage == Stage::joined ? 1 : 0;
    if (link.calls && !link.has_joined()) missing.insert(link.peer);
  }
  // Afterwards who is not connected cannot be reached, but has been there.
  std::erase_if(missing,
                [&](int rank) { return is_introduced_ || !self_.findable.contains(rank); });
  std::lock_guard lock(mutex_);
  connections_ = connections;
  missing_.assign(missing.begin(), missing.end());
}

// Whether something is known that a neighbour cannot have heard: it has yet to join. Who leaves
// before it does takes the word with it.
bool Links::has_to_tell() const {
  if (ended().empty() && failed().empty()) return false;
  return ((self_.by_name || self_.by_port) && !callers_.empty()) ||
         std::ranges::any_of(links_, [](const Link& link) {
           return link.peer >= 0 && !link.has_joined() && link.stage != Stage::over;
         });
}

// Until something comes, and takes it in.
void Links::wait(Clock::time_point until) {
  const auto file_of = [&](const Socket& listener) {
    return is_listening(&listener == &self_.by_name) ? listener.file() : -1;
  };
  std::vector<pollfd> files = {{.fd = wake_.file(), .events = POLLIN, .revents = 0},
                               {.fd = file_of(self_.by_name), .events = POLLIN, .revents = 0},
                               {.fd = file_of(self_.by_port), .events = POLLIN, .revents = 0}};
  const std::size_t others = files.size();
  for (const Link& link : links_) {
    const bool writes = link.stage == Stage::connecting || !link.out.empty();
    const int events = writes ? POLLIN | POLLOUT : POLLIN;
    files.push_back({.fd = link.socket.file(), .events = static_cast<short>(events), .revents = 0});
  }
  const auto left = std::chrono::ceil<milliseconds>(until - Clock::now());
  poll(files.data(), files.size(),
       static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000)));
  now_ = Clock::now();
  eventfd_t woken = 0;
  if (files[0].revents != 0) eventfd_read(wake_.file(), &woken);
  for (std::size_t i = 0; i < links_.size(); ++i) {
    const int events = files[i + others].revents;
    if (links_[i].socket && events != 0) look_at(links_[i], events);
  }
  if (files[1].revents != 0) let_in(self_.by_name);
  if (files[2].revents != 0) let_in(self_.by_port);
}

void Links::look_at(Link& link, int events) {
  if (link.stage == Stage::connecting) {
    if (!link.socket.is_connected() || (link.is_local && !link.socket.is_of_same_user()))
      return lose(link, Socket::Line::silent);
    link.stage = Stage::greeting;
    link.since = now_;
    return greet(link);
  }
  if ((events & POLLOUT) != 0) link.flush();
  if ((events & (POLLIN | POLLHUP | POLLERR)) == 0) return;
  const std::size_t had = link.in.size();
  const Socket::Line line = link.socket.receive(link.in);
  if (link.in.size() > had) link.heard = now_;
  for (Message message; link.socket && link.next(message);) handle(link, message);
  if (link.socket && line != Socket::Line::open) lose(link, line);
}

void Links::handle(Link& link, const Message& message) {
  if (link.stage == Stage::stranger) {
    return message.kind == Kind::hello ? answer(link, read_hello(message.text)) : link.finish();
  }
  if (link.stage == Stage::greeting) {
    const Hello hello = read_hello(message.text);
    if (message.kind != Kind::hello || hello.token != link.token || hello.from != link.peer ||
        hello.to != self_.rank)
      return lose(link, Socket::Line::ended);
    link.hello = hello;
    link.stage = Stage::joined;
    link.say(Kind::beat);
    return pass_on(link);
  }
  if (link.stage == Stage::greeted) {
    link.stage = Stage::joined;
    callers_.erase(link.peer);
    if (callers_.empty()) {
      self_.by_name.close();
      self_.by_port.close();
    }
    pass_on(link);
  }
  switch (message.kind) {
    case Kind::beat:
      return;
    case Kind::ended:
      // Who only waits for byes any more does not need the one that has ended.
      return has_said_bye() ? void() : report(message.text);
    case Kind::failed:
      return tell(message.text);  // and passes it on
    case Kind::leaving:
      return note_left(message.text);
    case Kind::bye:
      if (has_said_bye()) return link.finish();
      // Before anybody was introduced that was another program, which ran here before this one.
      if (!is_introduced_) forget_left();  // who that one said had left
      if (link.calls && !is_introduced_) {
        link.say(Kind::bye);  // it may wait for that
        return call_again(link);
      }
      link.stage = Stage::parting;
      return;
    case Kind::hello:
      return link.finish();
  }
  link.finish();  // something else
}

// A rank that needs the others no longer, but whose process hangs in what is left of it: the
// launcher waits for it. Or it still works, on a file that takes long, so nothing is ended.
void Links::warn_of(Link& link) {
  if (!has_said_bye() || link.has_warned || link.stage != Stage::joined) return;
  Watch::Warn warn;
  {
    std::lock_guard lock(mutex_);
    const auto since = left_.find(link.peer);
    if (since == left_.end()) return;
    if (now_ < std::max(since->second, bye_said_at_) + self_.options.timeout) return;
    warn = warn_;
  }
  link.has_warned = true;
  if (warn)
    warn(concat("rank ", link.peer, " (process ", link.hello.process, on_host(link),
                ") is leaving and still runs"));
}

void Links::keep_time(Link& link) {
  if (link.stage == Stage::over || now_ < deadline_of(link)) return;
  if (link.stage == Stage::pausing) return call(link);
  lose(link, Socket::Line::silent);
}

// The connection is no more, or is given up.
void Links::lose(Link& link, Socket::Line line) {
  if (link.stage == Stage::joined) {
    // A process that is gone, without bye or not, keeps nobody waiting.
    if (has_said_bye() && line == Socket::Line::ended) return link.finish();
    const Hello& who = link.hello;
    const std::string on = on_host(link);
    report(line == Socket::Line::ended
               ? concat("rank ", link.peer, " (process ", who.process, on, ") has ended")
           : now_ - link.heard < limit_of(link)
               ? concat("the connection to rank ", link.peer, on, " is lost")
               : concat("rank ", link.peer, on, " has not been heard of for ",
                        std::chrono::duration<double>(limit_of(link)).count(), " s"));
    return link.finish();  // the silent one was told, too, unless by bye: it knows when it wakes up
  }
  if (link.stage == Stage::parting) return link.finish();
  try_elsewhere(link);
}

// To one who joins after something was heard.
void Links::pass_on(Link& link) const {
  if (has_said_bye()) return;
  if (const std::string sentence = ended(); !sentence.empty()) link.say(Kind::ended, sentence);
  if (has_passed_failure_on_) link.say(Kind::failed, failed());
  for (const std::string& ranks : texts_of(std::vector(passed_on_.begin(), passed_on_.end())))
    link.say(Kind::leaving, ranks);
}

// Whether it was this rank's collective or another's, once.
void Links::pass_failure_on() {
  const std::string sentence = failed();
  if (sentence.empty() || has_passed_failure_on_) return;
  has_passed_failure_on_ = true;
  say_to_all(Kind::failed, sentence);
}

// What is new, once; at the end of a program many leave at a time. Others' word counts when all
// have been introduced: before that it may be of another program's.
void Links::pass_leaving_on() {
  std::vector<int> news = those_who_left();
  std::erase_if(news, [&](int rank) {
    return passed_on_.contains(rank) || (rank != self_.rank && !is_introduced_);
  });
  passed_on_.insert(news.begin(), news.end());
  for (const std::string& ranks : texts_of(news)) say_to_all(Kind::leaving, ranks);
}

std::vector<int> Links::those_who_left() const {
  std::lock_guard lock(mutex_);
  std::vector<int> ranks;
  for (const auto& [rank, since] : left_) ranks.push_back(rank);
  return ranks;
}

void Links::note_left(const std::string& ranks) {
  std::lock_guard lock(mutex_);
  std::istringstream in(ranks);
  for (int rank = 0; in >> rank;) left_.emplace(rank, now_);
}

void Links::forget_left() {
  std::lock_guard lock(mutex_);
  std::erase_if(left_,
                [&](const auto& rank_and_time) { return rank_and_time.first != self_.rank; });
}

// Nothing follows a bye: a socket that is closed by one side while something from the other is
// still unread is reset, and the closing side's own bye might be lost with it.
void Links::say_to_all(Kind kind, const std::string& text) {
  if (has_said_bye()) return;
  for (Link& link : links_) {
    if (link.counts()) link.say(kind, text);
  }
}

// What is heard first is kept and passed on; what follows from it is not.
void Links::report(const std::string& sentence) {
  {
    std::lock_guard lock(mutex_);
    if (!ended_.empty()) return;
    ended_ = sentence;
    if (has_said_bye()) silent_ = sentence;
  }
  say_to_all(Kind::ended, sentence);
}

void Links::say_bye() {
  self_.by_name.close();
  self_.by_port.close();
  for (Link& link : links_) {
    if (link.counts()) link.say(Kind::bye);
    // Who is waiting for it reads at once. Of who never joined nothing is known.
    if (link.stage != Stage::joined && link.stage != Stage::greeted) link.finish();
  }
  std::erase_if(links_, [](const Link& link) { return link.stage == Stage::over; });
}

}  // namespace rondo::dist::side
