// The messages of a side channel, and what silence and the end of a connection mean. A message is
// one byte for its kind, two bytes for its length (low byte first), and text:
//
//   '.'            a heartbeat
//   'l' rank       this rank has called its last collective: its program has ended
//   'b'            goodbye: the sender has finalized MPI; its last message
//   'e' sentence   a rank has ended
//   'f' sentence   a collective, or a rank, has failed

#include "dist/failure/side_channel.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <utility>

#include "dist/collectives/communicator.h"
#include "dist/failure/side_connect.h"
#include "dist/launch/environment.h"
#include "dist/launch/host.h"
#include "dist/transports/transport.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

using side::Link;
using std::chrono::milliseconds;

constexpr char beat = '.', finalizing = 'l', goodbye = 'b', end_of_rank = 'e', failure = 'f';
constexpr std::size_t header_bytes = 3, longest_text = 1000;
constexpr milliseconds time_at_end(200);

std::string message(char kind, const std::string& text) {
  const std::size_t n = std::min(text.size(), longest_text);
  return std::string{kind, static_cast<char>(n & 255), static_cast<char>(n >> 8)} +
         text.substr(0, n);
}

void say(Link& link, char kind, const std::string& text = {}) {
  link.out += message(kind, text);
  link.socket.send(link.out);
}

}  // namespace

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

SideChannel::SideChannel(Communicator& comm, const SideChannelOptions& options)
    : rank_(comm.rank()),
      name_(comm.transport().name_of(comm.rank())),
      options_(options),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  require<CommError>(static_cast<bool>(wake_), "side channel: no more files can be opened");
  links_ = side::connect_neighbours(comm, options);
  for (const Link& link : links_) connected_.insert(link.rank);
  now_ = next_beat_ = Clock::now();
  thread_ = std::thread([this] { run(); });
}

SideChannel::~SideChannel() {
  if (!home_.is_here()) {  // a forked child does not have the thread
    thread_.detach();
    return;
  }
  finalize();
  {
    std::lock_guard lock(mutex_);
    stops_ = true;
  }
  eventfd_write(wake_.file(), 1);
  thread_.join();
}

// ---- Called by any thread.

std::string SideChannel::ended() const {
  std::lock_guard lock(mutex_);
  return ended_;
}

std::string SideChannel::failed() const {
  std::lock_guard lock(mutex_);
  return failed_;
}

void SideChannel::tell(const std::string& why) {
  {
    std::lock_guard lock(mutex_);
    if (failed_.empty()) failed_ = why;
  }
  eventfd_write(wake_.file(), 1);
}

void SideChannel::finalize() {
  note_finalized(rank_);
  eventfd_write(wake_.file(), 1);
}

std::optional<Clock::time_point> SideChannel::finalized(int rank) const {
  std::lock_guard lock(mutex_);
  const auto found = finalized_.find(rank);
  return found == finalized_.end() ? std::nullopt : std::optional(found->second);
}

void SideChannel::note_finalized(int rank) {
  std::lock_guard lock(mutex_);
  finalized_.emplace(rank, Clock::now());
}

// ---- Called by the side channel's thread.

void SideChannel::run() {
  while (!is_over()) {
    if (now_ >= next_beat_) {
      next_beat_ = now_ + options_.beat;
      if (!ends_at_) say_to_all(beat);
    }
    Clock::time_point until = ends_at_ ? std::min(*ends_at_, next_beat_) : next_beat_;
    for (const Link& link : links_) until = std::min(until, link.heard + link.limit);
    wait(until);
    // If this rank was stopped itself, it must not blame the others for being silent.
    if (now_ - until > std::min(options_.timeout / 2, milliseconds(1000)))
      for (Link& link : links_) link.heard = std::max(link.heard, now_);
    for (Link& link : links_) read(link);
    check_silence();
    check_launcher();
    pass_on();
    std::erase_if(links_, [](const Link& link) { return !link.socket; });
  }
}

/// At the end the neighbours must read the goodbye before the sockets are closed. If a socket is
/// closed while it has unread data, the kernel may drop what is still on the way to the peer. The
/// neighbours close their sockets when they have read the goodbye.
bool SideChannel::is_over() {
  if (!ends_at_) {
    std::lock_guard lock(mutex_);
    if (!stops_) return false;
  }
  if (!ends_at_) {
    pass_on();
    say_to_all(goodbye);
    for (const Link& link : links_) link.socket.close_for_writing();
    ends_at_ = Clock::now() + time_at_end;
  }
  return links_.empty() || Clock::now() >= *ends_at_;
}

void SideChannel::wait(Clock::time_point until) {
  std::vector<pollfd> files = {{.fd = wake_.file(), .events = POLLIN, .revents = 0}};
  for (const Link& link : links_) {
    const int events = link.out.empty() ? POLLIN : POLLIN | POLLOUT;
    files.push_back({.fd = link.socket.file(), .events = static_cast<short>(events), .revents = 0});
  }
  const auto left = std::chrono::ceil<milliseconds>(until - Clock::now());
  poll(files.data(), files.size(),
       static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000)));
  now_ = Clock::now();
  eventfd_t woken = 0;
  if (files[0].revents != 0) eventfd_read(wake_.file(), &woken);
}

void SideChannel::read(Link& link) {
  link.socket.send(link.out);
  const std::size_t had = link.in.size();
  const Socket::Line line = link.socket.receive(link.in);
  if (link.in.size() > had) link.heard = now_;
  while (link.in.size() >= header_bytes) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(link.in[i]); };
    const std::size_t n = byte(1) | std::size_t{byte(2)} << 8;
    if (n > longest_text) return lose(link, Socket::Line::lost);  // invalid message
    if (link.in.size() < header_bytes + n) break;
    handle(link, link.in[0], link.in.substr(header_bytes, n));
    link.in.erase(0, header_bytes + n);
  }
  if (line != Socket::Line::open) lose(link, line);
}

void SideChannel::handle(Link& link, char kind, const std::string& text) {
  if (kind == finalizing) {
    int rank = link.rank;
    std::from_chars(text.data(), text.data() + text.size(), rank);
    note_finalized(rank);
  } else if (kind == goodbye) {
    link.has_said_goodbye = true;
  } else if (kind == failure) {
    std::lock_guard lock(mutex_);
    if (failed_.empty()) failed_ = text;
  } else if (kind == end_of_rank) {
    // A rank that was stopped and resumes too late receives the message about itself.
    const bool is_this_rank = text.starts_with(concat("rank ", rank_, ' '));
    std::lock_guard lock(mutex_);
    if (ended_.empty())
      ended_ = is_this_rank ? "the other ranks have given up this rank: " + text : text;
  }
}

/// The connection has ended, or is given up. Only the first event is kept and passed on, not its
/// consequences.
void SideChannel::lose(Link& link, Socket::Line line) {
  const bool is_silent = now_ - link.heard >= link.limit;
  {
    std::lock_guard lock(mutex_);
    if (ended_.empty() && !stops_ && !link.has_said_goodbye) {
      if (line == Socket::Line::ended)
        ended_ = concat(link.name, " (process ", link.process, link.on, ") has ended");
      else if (is_silent)
        ended_ = concat(link.name, link.on, " has not been heard of for ",
                        std::chrono::duration<double>(link.limit).count(), " s");
      else
        ended_ = concat("the connection to ", link.name, link.on, " is lost");
    }
  }
  if (is_silent) pass_on();  // also to that rank, which reads it if it resumes
  link.socket.close();
}

void SideChannel::check_silence() {
  for (Link& link : links_)
    if (link.socket && now_ - link.heard >= link.limit) lose(link, Socket::Line::lost);
}

void SideChannel::check_launcher() {
  if (getppid() == options_.launcher) return;
  std::lock_guard lock(mutex_);
  if (ended_.empty() && !stops_)
    ended_ = concat("the launcher (mpirun, srun, …) of ", name_, " (process ", options_.launcher,
                    " on ", host_name(), ") has ended");
}

/// Passes on each new event once, whether this rank noticed it or learned it from a neighbour.
void SideChannel::pass_on() {
  std::vector<int> newly_finalized;
  std::string ended, failed;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [rank, since] : finalized_)
      if (told_finalized_.insert(rank).second) newly_finalized.push_back(rank);
    if (!std::exchange(has_told_failed_, !failed_.empty())) failed = failed_;
    if (!std::exchange(has_told_ended_, !ended_.empty())) ended = ended_;
  }
  if (ends_at_) return;  // nothing can be sent after the end of file
  if (!failed.empty()) say_to_all(failure, failed);
  if (!ended.empty()) say_to_all(end_of_rank, ended);
  for (const int rank : newly_finalized) say_to_all(finalizing, std::to_string(rank));
}

void SideChannel::say_to_all(char kind, const std::string& text) {
  for (Link& link : links_)
    if (link.socket) say(link, kind, text);
}

}  // namespace rondo::dist
