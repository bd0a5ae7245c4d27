#include "dist/side_channel.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "dist/communicator.h"
#include "dist/environment.h"
#include "dist/fnv.h"
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

// Where the neighbours may be. Those with lower numbers are called, the others call.
void guess(Self& self, const Launcher& job, const std::vector<std::string>& machines) {
  const std::vector<std::string> own = own_addresses();
  const auto until = Clock::now() + patience_with_resolver;
  std::map<std::string, std::vector<std::string>> found;
  for (int peer : SideChannel::neighbours(self.rank, self.world_size)) {
    std::vector<Address>& addresses = self.guesses[peer];
    addresses.push_back({.text = concat('@', socket_name(job.job, peer)), .port = 0});
    const bool is_known = static_cast<std::size_t>(peer) < machines.size();
    const std::string machine = is_known ? machines[static_cast<std::size_t>(peer)] : "";
    if (job.on_one_machine || machine == host_name()) self.findable.insert(peer);
    if (job.secret.empty() || machine.empty() || machine == host_name()) continue;
    if (!found.contains(machine) && Clock::now() < until) found[machine] = addresses_of(machine);
    for (const std::string& address : found[machine]) {
      if (std::ranges::find(own, address) != own.end()) continue;
      self.findable.insert(peer);
      for (int port : SideChannel::ports_of(job, peer))
        addresses.push_back({.text = address, .port = port});
    }
  }
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

// Below those that Linux gives to whoever asks for any (from 32,768) and Kubernetes to services
// (30,000), above what is reserved. They follow from the secret, too: whoever wants to be called in
// a rank's place, for the token, would have to wait on all of them.
std::vector<int> SideChannel::ports_of(const Launcher& job, int rank) {
  std::uint64_t hash = fnv(concat(job.job, ' ', job.secret, ' ', rank));
  std::vector<int> ports;
  for (int i = 0; i < 4; ++i, hash >>= 16)
    ports.push_back(10'000 + static_cast<int>(hash & 0xffff) % 20'000);
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
  begin(job, machines, options);
}

SideChannel::SideChannel(Communicator& comm, const SideChannelOptions& options) {
  begin({.name = "", .rank = comm.rank(), .size = comm.world_size()}, {}, options);
  meet(comm);
}

void SideChannel::begin(const Launcher& job, const std::vector<std::string>& machines,
                        const SideChannelOptions& options) {
  if (job.size == 1) return;
  Self self{.rank = job.rank, .world_size = job.size, .options = options};
  Place own{.host = host(), .token = draw_token(), .addresses = own_addresses()};
  const bool can_guess = !job.job.empty();
  own.name = can_guess ? socket_name(job.job, job.rank) : concat("rondo-", draw_token());
  self.by_name = listen_by_name(own.name);
  if (can_guess && !job.secret.empty()) {
    for (int port : ports_of(job, job.rank)) {
      own.port = port;
      if ((self.by_port = listen_anywhere(own.port))) break;
    }
    self.early_token = concat(job.secret, '-', job.job);
  }
  if (!self.by_port) self.by_port = listen_anywhere(own.port = 0);
  if (!self.by_name) own.name.clear();
  if (!self.by_port) own.port = 0;
  place_ = text_of(own);
  self.local_token = job.job;
  if (can_guess) guess(self, job, machines);
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
  if (!home_.is_here()) {
    if (thread_.joinable()) thread_.detach();
    static_cast<void>(links_.release());  // as its thread left it
    return;
  }
  if (links_) links_->stop(Links::End::soon);
  if (thread_.joinable()) thread_.join();
}

std::string SideChannel::part(const Warn& warn) {
  if (!home_.is_here()) return {};
  // Of what was heard before others have spoken.
  const bool waits = ended().empty() && failed().empty();
  if (links_) {
    if (waits)
      links_->stop(Links::End::with_others, warn);
    else
      links_->stop(Links::End::soon);
  }
  if (thread_.joinable()) thread_.join();
  return links_ && failed().empty() ? links_->silent() : std::string();
}

void SideChannel::leave() {
  if (links_) links_->leave();
}

std::optional<std::chrono::steady_clock::time_point> SideChannel::left(int rank) const {
  return links_ ? links_->left(rank) : std::nullopt;
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
