#include "dist/side_channel.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "dist/communicator.h"
#include "dist/environment.h"
#include "dist/host.h"
#include "dist/launcher.h"
#include "dist/side_links.h"
#include "dist/side_place.h"
#include "dist/sockets.h"
#include "dist/transport.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

using namespace side;
using std::chrono::milliseconds;

constexpr milliseconds patience_with_resolver(2000);

std::string socket_name(const std::string& job, int rank) {
  return concat("rondo-", job, '-', rank);
}

std::vector<std::vector<Address>> guess(int rank, int world_size, const std::string& job,
                                        bool has_secret, const std::vector<std::string>& machines) {
  std::vector<std::vector<Address>> all(static_cast<std::size_t>(world_size));
  const std::vector<std::string> own = own_addresses();
  const auto until = Clock::now() + patience_with_resolver;
  for (int peer : SideChannel::neighbours(rank, world_size)) {
    if (peer > rank) continue;  // that one calls
    auto& addresses = all[static_cast<std::size_t>(peer)];
    addresses.push_back({.text = concat('@', socket_name(job, peer)), .port = 0});
    if (!has_secret || static_cast<std::size_t>(peer) >= machines.size()) continue;
    const std::string& machine = machines[static_cast<std::size_t>(peer)];
    if (machine.empty() || machine == host_name() || Clock::now() > until) continue;
    for (const std::string& address : addresses_of(machine)) {
      if (std::ranges::find(own, address) != own.end()) continue;
      for (int port : SideChannel::ports_of(job, peer))
        addresses.push_back({.text = address, .port = port});
    }
  }
  return all;
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

// Below those that Linux gives to whoever asks for any (from 32,768), above what is reserved.
std::vector<int> SideChannel::ports_of(const std::string& job, int rank) {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (unsigned char c : socket_name(job, rank)) hash = (hash ^ c) * 0x100000001b3u;
  std::vector<int> ports;
  for (int i = 0; i < 4; ++i, hash >>= 16)
    ports.push_back(10'000 + static_cast<int>(hash & 0xffff) % 22'000);
  return ports;
}

std::vector<int> SideChannel::neighbours(int rank, int world_size) {
  std::set<int> all;
  for (int step = 1; step < world_size; step *= 2) {
    all.insert((rank + step) % world_size);
    all.insert((rank - step + world_size) % world_size);
  }
  return {all.begin(), all.end()};
}

SideChannel::SideChannel(const Launcher& job, const std::vector<std::string>& machines,
                         const SideChannelOptions& options) {
  begin(job.rank, job.size, job.job, job.secret, machines, options);
}

SideChannel::SideChannel(Communicator& comm, const SideChannelOptions& options) {
  begin(comm.rank(), comm.world_size(), "", "", {}, options);
  meet(comm);
}

void SideChannel::begin(int rank, int world_size, const std::string& job, const std::string& secret,
                        const std::vector<std::string>& machines,
                        const SideChannelOptions& options) {
  if (world_size == 1) return;
  Self self{.rank = rank, .world_size = world_size, .options = options};
  Place own{.host = host(), .addresses = own_addresses()};
  const bool can_guess = !job.empty();
  own.name = can_guess ? socket_name(job, rank) : concat("rondo-", draw_token());
  self.by_name = listen_by_name(own.name);
  if (can_guess && !secret.empty()) {
    for (int port : ports_of(job, rank)) {
      own.port = port;
      if ((self.by_port = listen_anywhere(own.port))) break;
    }
  }
  if (!self.by_port) self.by_port = listen_anywhere(own.port = 0);
  if (!self.by_name) own.name.clear();
  if (!self.by_port) own.port = 0;
  own.token = secret.empty() ? draw_token() : secret;
  place_ = text_of(own);
  self.local_token = job;
  self.token = can_guess ? secret : "";
  if (can_guess) self.guesses = guess(rank, world_size, job, !secret.empty(), machines);
  links_ = Links::make(std::move(self));
  if (links_ != nullptr) thread_ = std::thread([this] { links_->run(); });
}

void SideChannel::meet(Communicator& comm) {
  if (comm.world_size() == 1) return;
  std::vector<Place> places;
  for (const std::string& text : comm.all_gather_bytes(place_)) places.push_back(read_place(text));
  if (links_ != nullptr) links_->introduce(std::move(places));
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

std::string SideChannel::absent() const {
  const std::vector<int> ranks = links_ ? links_->missing() : std::vector<int>();
  if (ranks.empty()) return {};
  std::string text =
      ranks.size() == 1 ? "nothing has been heard of rank" : "nothing has been heard of ranks";
  for (std::size_t i = 0; i < ranks.size(); ++i) text += concat(i == 0 ? " " : ", ", ranks[i]);
  return text;
}

int SideChannel::connections() const { return links_ ? links_->connections() : 0; }

}  // namespace rondo::dist
