// What travels: dist/side_link.h.
//
// One thread has the connections for itself; it shares only the sentences. A connection counts, and
// its end means something, when both sides know that the other has greeted: before that it is
// given up without a word, and the caller tries the next address.

#include "dist/side_channel.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "dist/communicator.h"
#include "dist/environment.h"
#include "dist/host.h"
#include "dist/side_link.h"
#include "dist/side_place.h"
#include "dist/sockets.h"
#include "dist/transport.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

using namespace side;
using std::chrono::milliseconds;

constexpr int most_strangers = 32;
constexpr int rounds = 3;  // of trying all of a peer's addresses
constexpr milliseconds patience_with_strangers(1000), patience_to_connect(3000),
    patience_for_greeting(5000), pause_between_attempts(50), patience_at_end(200),
    patience_to_tell(700);  // and all of it below patience_out_of_step of dist/run.cpp

}  // namespace

// ---- The thread, and all that it has.

class SideChannel::Links {
 public:
  Links(int rank, std::vector<Place> places, Socket listener, Socket wake,
        const SideChannelOptions& options);
  void run();
  void stop() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    eventfd_write(wake_.file(), 1);
  }
  std::string ended() const {
    std::lock_guard lock(mutex_);
    return ended_;
  }
  std::string failed() const {
    std::lock_guard lock(mutex_);
    return failed_;
  }
  void tell(const std::string& why) {
    {
      std::lock_guard lock(mutex_);
      if (!failed_.empty()) return;
      failed_ = why;
    }
    eventfd_write(wake_.file(), 1);
  }
  int connections() const {
    std::lock_guard lock(mutex_);
    return connections_;
  }

 private:
  void wait(Clock::time_point until);
  void look_at(Link& link, int events);
  void handle(Link& link, const Message& message);
  void answer(Link& stranger, const std::string& hello);
  void keep_time(Link& link);
  void call(Link& link);
  void lose(Link& link, Socket::Line line);
  void report(const std::string& sentence);
  void pass_on(Link& link) const;
  void pass_failure_on();
  bool has_to_tell() const;
  bool is_to_stop() const {
    std::lock_guard lock(mutex_);
    return stop_;
  }
  void let_in();
  void say_bye();
  bool is_listening() const;
  Clock::time_point deadline_of(const Link& link) const;
  std::string hello_to(int peer) const { return concat(places_[0].token, ' ', rank_, ' ', peer); }

  int rank_;
  std::vector<Place> places_;  // by rank
  Socket listener_, wake_;
  SideChannelOptions options_;
  std::vector<Link> links_;
  std::set<int> callers_;  // neighbours that are to call this rank and have not joined
  Clock::time_point now_ = Clock::now(), next_beat_, full_until_{};
  bool has_passed_failure_on_ = false;

  mutable std::mutex mutex_;
  bool stop_ = false;
  std::string ended_, failed_;
  int connections_ = 0;
};

SideChannel::Links::Links(int rank, std::vector<Place> places, Socket listener, Socket wake,
                          const SideChannelOptions& options)
    : rank_(rank),
      places_(std::move(places)),
      listener_(std::move(listener)),
      wake_(std::move(wake)),
      options_(options),
      next_beat_(now_ + options.beat) {
  const Place& own = places_[static_cast<std::size_t>(rank)];
  for (int peer : neighbours(rank, static_cast<int>(places_.size()))) {
    const Place& place = places_[static_cast<std::size_t>(peer)];
    if (peer > rank) {
      callers_.insert(peer);
      continue;
    }
    Link link{.stage = Stage::pausing, .peer = peer, .since = now_, .heard = now_, .places = {}};
    const bool is_here = place.host == own.host;
    if (is_here) link.places.emplace_back("127.0.0.1");
    for (const std::string& address : place.addresses) {
      // An address that both machines have leads nowhere: that of a bridge for containers, say.
      if (is_here || std::ranges::find(own.addresses, address) == own.addresses.end())
        link.places.push_back(address);
    }
    if (place.port != 0 && !link.places.empty()) links_.push_back(std::move(link));
  }
}

void SideChannel::Links::run() {
  std::optional<Clock::time_point> stays_until;
  while (true) {
    if (is_to_stop()) {
      if (!stays_until) stays_until = Clock::now() + patience_to_tell;
      if (Clock::now() >= *stays_until || !has_to_tell()) break;
    }
    Clock::time_point until = next_beat_;
    if (stays_until) until = std::min(until, *stays_until);
    for (const Link& link : links_) until = std::min(until, deadline_of(link));
    if (full_until_ > now_) until = std::min(until, full_until_);
    wait(until);
    // Who was stopped itself cannot blame others for their silence.
    if (now_ - until > std::min(options_.timeout / 2, milliseconds(1000))) {
      for (Link& link : links_) link.heard = now_;
    }
    for (Link& link : links_) keep_time(link);
    pass_failure_on();
    if (now_ >= next_beat_) {
      next_beat_ = now_ + options_.beat;
      for (Link& link : links_) {
        if (link.counts() && link.out.empty()) link.say(Kind::beat);
      }
    }
    std::erase_if(links_, [](const Link& link) { return link.stage == Stage::over; });
    std::lock_guard lock(mutex_);
    connections_ = static_cast<int>(
        std::ranges::count_if(links_, [](const Link& l) { return l.stage == Stage::joined; }));
  }
  pass_failure_on();
  say_bye();
}

// Whether something is known that a neighbour cannot have heard: it has yet to join. Who leaves
// before it does takes the word with it.
bool SideChannel::Links::has_to_tell() const {
  if (ended().empty() && failed().empty()) return false;
  return (listener_ && !callers_.empty()) || std::ranges::any_of(links_, [](const Link& link) {
           return link.peer >= 0 && link.stage != Stage::joined && link.stage != Stage::over;
         });
}

bool SideChannel::Links::is_listening() const {
  const auto strangers =
      std::ranges::count_if(links_, [](const Link& l) { return l.stage == Stage::stranger; });
  return listener_ && now_ >= full_until_ && strangers < most_strangers;
}

// Until something comes, and takes it in.
void SideChannel::Links::wait(Clock::time_point until) {
  std::vector<pollfd> files = {
      {.fd = wake_.file(), .events = POLLIN, .revents = 0},
      {.fd = is_listening() ? listener_.file() : -1, .events = POLLIN, .revents = 0}};
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
    if (links_[i].socket && files[i + 2].revents != 0) look_at(links_[i], files[i + 2].revents);
  }
  if (files[1].revents != 0) let_in();
}

void SideChannel::Links::let_in() {
  bool is_full = false;
  while (is_listening()) {
    Socket socket = accept_from(listener_, is_full);
    if (!socket) break;
    links_.push_back({.socket = std::move(socket), .since = now_, .heard = now_, .places = {}});
  }
  if (is_full) full_until_ = now_ + patience_with_strangers;
}

void SideChannel::Links::look_at(Link& link, int events) {
  if (link.stage == Stage::connecting) {
    if (!link.socket.is_connected()) return lose(link, Socket::Line::silent);
    link.stage = Stage::greeting;
    link.since = now_;
    return link.say(Kind::hello, hello_to(link.peer));
  }
  if ((events & POLLOUT) != 0) link.flush();
  if ((events & (POLLIN | POLLHUP | POLLERR)) == 0) return;
  const std::size_t had = link.in.size();
  const Socket::Line line = link.socket.receive(link.in);
  if (link.in.size() > had) link.heard = now_;
  for (Message message; link.socket && link.next(message);) handle(link, message);
  if (link.socket && line != Socket::Line::open) lose(link, line);
}

void SideChannel::Links::handle(Link& link, const Message& message) {
  if (link.stage == Stage::stranger) {
    return message.kind == Kind::hello ? answer(link, message.text) : link.finish();
  }
  if (link.stage == Stage::greeting) {
    const std::string expected = concat(places_[0].token, ' ', link.peer, ' ', rank_);
    if (message.kind != Kind::hello || message.text != expected)
      return lose(link, Socket::Line::ended);
    link.stage = Stage::joined;
    link.say(Kind::beat);
    return pass_on(link);
  }
  if (link.stage == Stage::greeted) {
    link.stage = Stage::joined;
    callers_.erase(link.peer);
    if (callers_.empty()) listener_.close();
    pass_on(link);
  }
  switch (message.kind) {
    case Kind::beat:
      return;
    case Kind::ended:
      return report(message.text);
    case Kind::failed:
      return tell(message.text);  // and passes it on
    case Kind::hello:
    case Kind::bye:
      return link.finish();
  }
  link.finish();  // something else
}

void SideChannel::Links::answer(Link& stranger, const std::string& hello) {
  for (int peer : callers_) {
    if (hello != concat(places_[0].token, ' ', peer, ' ', rank_)) continue;
    stranger.peer = peer;
    stranger.stage = Stage::greeted;
    return stranger.say(Kind::hello, hello_to(peer));
  }
  stranger.finish();
}

Clock::time_point SideChannel::Links::deadline_of(const Link& link) const {
  switch (link.stage) {
    case Stage::pausing:
      return link.since + link.attempt * pause_between_attempts;
    case Stage::connecting:
      return link.since + patience_to_connect;
    case Stage::greeting:
      return link.since + patience_for_greeting;
    case Stage::stranger:
      return link.since + patience_with_strangers;
    case Stage::greeted:
    case Stage::joined:
      return link.heard + options_.timeout;
    case Stage::over:
      break;
  }
  return now_;
}

void SideChannel::Links::keep_time(Link& link) {
  if (link.stage == Stage::over || now_ < deadline_of(link)) return;
  if (link.stage == Stage::pausing) return call(link);
  lose(link, Socket::Line::silent);
}

void SideChannel::Links::call(Link& link) {
  const int port = places_[static_cast<std::size_t>(link.peer)].port;
  link.socket = connect_to(link.places[link.attempt % link.places.size()], port);
  if (!link.socket) return lose(link, Socket::Line::silent);
  link.stage = Stage::connecting;
  link.since = now_;
}

// The connection is no more, or is given up.
void SideChannel::Links::lose(Link& link, Socket::Line line) {
  if (link.stage == Stage::joined) {
    const Place& place = places_[static_cast<std::size_t>(link.peer)];
    report(line == Socket::Line::ended ? concat("rank ", link.peer, " (process ", place.process,
                                                " on ", place.name(), ") has ended")
           : now_ - link.heard < options_.timeout
               ? concat("the connection to rank ", link.peer, " on ", place.name(), " is lost")
               : concat("rank ", link.peer, " on ", place.name(), " has not been heard of for ",
                        std::chrono::duration<double>(options_.timeout).count(), " s"));
    return link.finish();  // the silent one was told, too: it will know when it wakes up
  }
  const bool is_caller = !link.places.empty() && link.stage != Stage::greeted;
  if (!is_caller || ++link.attempt >= rounds * link.places.size()) return link.finish();
  link.socket.close();
  link.in.clear();
  link.out.clear();
  link.stage = Stage::pausing;
  link.since = now_;
}

// To one who joins after something was heard.
void SideChannel::Links::pass_on(Link& link) const {
  if (const std::string sentence = ended(); !sentence.empty()) link.say(Kind::ended, sentence);
  if (has_passed_failure_on_) link.say(Kind::failed, failed());
}

// Whether it was this rank's collective or another's, once.
void SideChannel::Links::pass_failure_on() {
  const std::string sentence = failed();
  if (sentence.empty() || has_passed_failure_on_) return;
  has_passed_failure_on_ = true;
  for (Link& link : links_) {
    if (link.counts()) link.say(Kind::failed, sentence);
  }
}

// What is heard first is kept and passed on; what follows from it is not.
void SideChannel::Links::report(const std::string& sentence) {
  {
    std::lock_guard lock(mutex_);
    if (!ended_.empty()) return;
    ended_ = sentence;
  }
  for (Link& link : links_) {
    if (link.counts()) link.say(Kind::ended, sentence);
  }
}

// A peer that hears it closes its side. To leave before that might lose the word: a socket that is
// closed while something still comes in is reset.
void SideChannel::Links::say_bye() {
  listener_.close();
  for (Link& link : links_) {
    if (!link.counts()) link.finish();
    if (link.counts()) link.say(Kind::bye);
  }
  const Clock::time_point until = Clock::now() + patience_at_end;
  while (true) {
    std::erase_if(links_, [](const Link& link) { return link.stage == Stage::over; });
    const auto left = std::chrono::ceil<milliseconds>(until - Clock::now());
    if (links_.empty() || left.count() <= 0) return;
    std::vector<pollfd> files;
    for (const Link& link : links_)
      files.push_back({.fd = link.socket.file(), .events = POLLIN, .revents = 0});
    poll(files.data(), files.size(), static_cast<int>(left.count()));
    for (std::size_t i = 0; i < links_.size(); ++i) {
      if (files[i].revents == 0) continue;
      Link& link = links_[i];
      if (link.socket.receive(link.in) != Socket::Line::open) link.finish();
      for (Message message; link.socket && link.next(message);) {
        if (message.kind == Kind::bye) link.finish();
      }
    }
  }
}

// ---- Outside of it.

SideChannelOptions SideChannelOptions::from_environment() {
  SideChannelOptions options;
  const auto timeout = seconds_from_environment("RONDO_HEARTBEAT_TIMEOUT", 0.1);
  if (!timeout) return options;
  options.timeout = *timeout;
  options.beat = std::min(options.beat, options.timeout / 5);
  return options;
}

std::vector<int> SideChannel::neighbours(int rank, int world_size) {
  std::set<int> all;
  for (int step = 1; step < world_size; step *= 2) {
    all.insert((rank + step) % world_size);
    all.insert((rank - step + world_size) % world_size);
  }
  return {all.begin(), all.end()};
}

SideChannel::SideChannel(Communicator& comm, const SideChannelOptions& options) {
  if (comm.world_size() == 1) return;
  Place own{.process = getpid(),
            .host = host(),
            .token = "none",
            .timeout = options.timeout.count(),
            .beat = options.beat.count(),
            .addresses = own_addresses()};
  Socket listener = listen_anywhere(own.port);
  if (comm.rank() == 0) own.token = draw_token();
  std::vector<Place> places;
  for (const std::string& text : comm.all_gather_bytes(text_of(own)))
    places.push_back(read_place(text));
  Socket wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return;
  const SideChannelOptions everybodys{.timeout = milliseconds(places[0].timeout),
                                      .beat = milliseconds(places[0].beat)};
  links_ = std::make_unique<Links>(comm.rank(), std::move(places), std::move(listener),
                                   std::move(wake), everybodys);
  thread_ = std::thread([this] { links_->run(); });
}

SideChannel::~SideChannel() {
  if (links_) links_->stop();
  if (thread_.joinable()) thread_.join();
}

std::string SideChannel::ended() const { return links_ ? links_->ended() : std::string(); }

std::string SideChannel::failed() const { return links_ ? links_->failed() : std::string(); }

void SideChannel::tell(const std::string& why) {
  if (links_ && !why.empty()) links_->tell(why);
}

int SideChannel::connections() const { return links_ ? links_->connections() : 0; }

}  // namespace rondo::dist
