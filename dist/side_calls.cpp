// How the connections of a side channel come about: calls, greetings, and where to call.
//
// A connection counts, and its end means something, when both sides know that the other has
// greeted: before that it is given up without a word, and the caller tries the next address. Where
// ranks only guess each other's addresses they try again until the other has come, or until they
// are told.

#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "dist/side_links.h"
#include "tensor/error.h"

namespace rondo::dist::side {
namespace {

using std::chrono::milliseconds;

constexpr int most_strangers = 32;
constexpr int rounds = 3;                 // of trying all of a peer's addresses
constexpr std::size_t longest_pause = 4;  // times pause_between_attempts, while guessing
constexpr milliseconds patience_with_strangers(1000), patience_to_connect(3000),
    patience_for_greeting(5000), pause_between_attempts(25);

}  // namespace

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

bool Links::is_listening(bool is_local) const {
  const std::string& early = is_local ? self_.local_token : self_.early_token;
  const auto strangers = std::ranges::count_if(
      links_, [&](const Link& l) { return l.stage == Stage::stranger && l.is_local == is_local; });
  return (!early.empty() || !token_.empty()) && now_ >= full_until_ && strangers < most_strangers;
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

// After an attempt that led nowhere.
void Links::try_elsewhere(Link& link) {
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

}  // namespace rondo::dist::side
