// A connection counts, and its end means something, when both sides know that the other has
// greeted: before that it is given up without a word, and the caller tries the next address. Where
// ranks only guess each other's addresses they try again until the other has come, or until they
// are told.

#include "dist/side_links.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "tensor/error.h"

namespace rondo::dist::side {
namespace {

using std::chrono::milliseconds;

constexpr int most_strangers = 32;
constexpr int rounds = 3;                 // of trying all of a peer's addresses
constexpr std::size_t longest_pause = 4;  // times pause_between_attempts, while guessing
constexpr milliseconds patience_with_strangers(1000), patience_to_connect(3000),
    patience_for_greeting(5000), pause_between_attempts(25);
// Together below patience_out_of_step of dist/run.cpp.
constexpr milliseconds patience_at_end(200), patience_to_tell(700);

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

void Links::stop(End end) {
  {
    std::lock_guard lock(mutex_);
    stop_ = end;
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
    is_leaving_ = true;
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
    }
    std::optional<std::vector<Place>> introduced;
    {
      std::lock_guard lock(mutex_);
      introduced.swap(introduced_);
    }
    if (introduced) go_by(*introduced);
    for (Link& link : links_) keep_time(link);
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

// From now on addresses are no guesses. Who has been found stays.
void Links::go_by(const std::vector<Place>& places) {
  is_introduced_ = true;
  token_ = places[0].token;
  const Place& own = places[static_cast<std::size_t>(self_.rank)];
  for (Link& link : links_) {
    if (!link.calls || link.counts() || link.stage == Stage::over) continue;
    const Place& place = places[static_cast<std::size_t>(link.peer)];
    const bool is_here = place.host == own.host;
    link.addresses.clear();
    if (is_here && !place.name.empty())
      link.addresses.push_back({.text = concat('@', place.name), .port = 0});
    if (is_here && place.port != 0)
      link.addresses.push_back({.text = "127.0.0.1", .port = place.port});
    for (const std::string& address : place.addresses) {
      // An address that both machines have leads nowhere: that of a bridge for containers, say.
      if (place.port != 0 &&
          (is_here || std::ranges::find(own.addresses, address) == own.addresses.end()))
        link.addresses.push_back({.text = address, .port = place.port});
    }
    link.attempt = 0;
    if (link.stage == Stage::pausing) link.since = now_;
  }
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

bool Links::is_listening(bool is_local) const {
  const std::string& early = is_local ? self_.local_token : self_.early_token;
  const auto strangers = std::ranges::count_if(
      links_, [&](const Link& l) { return l.stage == Stage::stranger && l.is_local == is_local; });
  return (!early.empty() || !token_.empty()) && now_ >= full_until_ && strangers < most_strangers;
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

void Links::let_in(const Socket& listener) {
  bool is_full = false;
  const bool is_local = &listener == &self_.by_name;
  while (listener && is_listening(is_local)) {
    Link link{.is_local = is_local, .since = now_, .heard = now_};
    link.socket = accept_from(listener, is_full);
    if (!link.socket) break;
    if (!link.is_local || link.socket.is_of_same_user()) links_.push_back(std::move(link));
  }
  if (is_full) full_until_ = now_ + patience_with_strangers;
}

void Links::greet(Link& link) {
  link.say(Kind::hello, text_of(Hello{.token = link.token,
                                      .from = self_.rank,
                                      .to = link.peer,
                                      .process = getpid(),
                                      .timeout = self_.options.timeout.count(),
                                      .host = host_}));
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
      return note_left(link.peer);
    case Kind::bye:
      // Before anybody was introduced that was another program, which ran here before this one.
      if (link.calls && !is_introduced_) {
        forget_left(link.peer);
        link.say(Kind::bye);  // it may wait for that
        return call_again(link);
      }
      link.stage = Stage::parting;
      return has_said_bye() ? link.finish() : void();
    case Kind::hello:
      return link.finish();
  }
  link.finish();  // something else
}

void Links::answer(Link& stranger, const Hello& hello) {
  const std::string& early = stranger.is_local ? self_.local_token : self_.early_token;
  const bool is_known = hello.token == token_ || hello.token == early;
  if (hello.token.empty() || !is_known || hello.to != self_.rank || !callers_.contains(hello.from))
    return stranger.finish();
  stranger.token = hello.token;
  stranger.peer = hello.from;
  stranger.hello = hello;
  stranger.stage = Stage::greeted;
  greet(stranger);
}

Clock::time_point Links::deadline_of(const Link& link) const {
  switch (link.stage) {
    case Stage::pausing:
      if (link.addresses.empty() && !is_introduced_) return Clock::time_point::max();
      return link.since + (is_introduced_ ? link.attempt : std::min(link.attempt, longest_pause)) *
                              pause_between_attempts;
    case Stage::connecting:
      return link.since + patience_to_connect;
    case Stage::greeting:
      return link.since + patience_for_greeting;
    case Stage::stranger:
      return link.since + patience_with_strangers;
    case Stage::greeted:
    case Stage::joined:
      return link.heard + limit_of(link);
    case Stage::parting:
      return Clock::time_point::max();  // it has said its last
    case Stage::over:
      break;
  }
  return now_;
}

void Links::keep_time(Link& link) {
  if (link.stage == Stage::over || now_ < deadline_of(link)) return;
  if (link.stage == Stage::pausing) return call(link);
  lose(link, Socket::Line::silent);
}

void Links::call(Link& link) {
  if (link.addresses.empty()) return link.finish();
  const Address& address = link.addresses[link.attempt % link.addresses.size()];
  link.is_local = address.text.starts_with('@');
  const std::string& early = link.is_local ? self_.local_token : self_.early_token;
  link.token = early.empty() || is_introduced_ ? token_ : early;
  link.socket = connect_to(address.text, address.port);
  if (!link.socket) return lose(link, Socket::Line::silent);
  link.stage = Stage::connecting;
  link.since = now_;
}

// The connection is no more, or is given up.
void Links::lose(Link& link, Socket::Line line) {
  if (link.stage == Stage::joined) {
    // A process that is gone, without bye or not, keeps nobody waiting.
    if (has_said_bye() && line == Socket::Line::ended) return link.finish();
    const Hello& who = link.hello;
    const std::string on = who.host == host_ ? "" : concat(" on ", name_of(who.host));
    report(line == Socket::Line::ended
               ? concat("rank ", link.peer, " (process ", who.process, on, ") has ended")
           : now_ - link.heard < limit_of(link)
               ? concat("the connection to rank ", link.peer, on, " is lost")
               : concat("rank ", link.peer, on, " has not been heard of for ",
                        std::chrono::duration<double>(limit_of(link)).count(), " s"));
    return link.finish();  // the silent one was told, too, unless by bye: it knows when it wakes up
  }
  if (link.stage == Stage::parting) return link.finish();
  ++link.attempt;
  const bool was_last = is_introduced_ && link.attempt >= rounds * link.addresses.size();
  if (!link.calls || was_last) return link.finish();
  call_again(link);
}

void Links::call_again(Link& link) {
  link.socket.close();
  link.in.clear();
  link.out.clear();
  link.stage = Stage::pausing;
  link.since = now_;
}

// To one who joins after something was heard.
void Links::pass_on(Link& link) const {
  if (has_said_bye()) return;
  if (const std::string sentence = ended(); !sentence.empty()) link.say(Kind::ended, sentence);
  if (has_passed_failure_on_) link.say(Kind::failed, failed());
  if (has_passed_leaving_on_) link.say(Kind::leaving);
}

// Whether it was this rank's collective or another's, once.
void Links::pass_failure_on() {
  const std::string sentence = failed();
  if (sentence.empty() || has_passed_failure_on_) return;
  has_passed_failure_on_ = true;
  say_to_all(Kind::failed, sentence);
}

void Links::pass_leaving_on() {
  {
    std::lock_guard lock(mutex_);
    if (!is_leaving_ || has_passed_leaving_on_) return;
  }
  has_passed_leaving_on_ = true;
  say_to_all(Kind::leaving);
}

void Links::note_left(int peer) {
  std::lock_guard lock(mutex_);
  left_.emplace(peer, now_);
}

void Links::forget_left(int peer) {
  std::lock_guard lock(mutex_);
  left_.erase(peer);
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
