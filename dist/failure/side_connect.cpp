#include "dist/failure/side_connect.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iomanip>
#include <list>
#include <set>
#include <sstream>
#include <utility>

#include "dist/collectives/communicator.h"
#include "dist/launch/host.h"
#include "tensor/error.h"

namespace rondo::dist::side {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t nonce_bytes = 16, secret_bytes = 32, mac_bytes = 32;
constexpr std::size_t hello_bytes = 2 * sizeof(std::int32_t) + nonce_bytes;
// Strangers that call all the time must not keep a rank out. A pass accepts up to 16 callers, and
// if 512 connections have not proved anything, the oldest one is closed. So a rank has 32 passes,
// some 20 ms, to prove that it belongs to the job; if that was not enough, it calls again.
constexpr int accepted_at_once = 16, most_strangers = 512;
constexpr milliseconds time_for_last(1000);
constexpr milliseconds pause_between_calls(25),
    patience_with_call(2500);  // TCP retries after a second

std::string random_bytes(std::size_t n) {
  std::string bytes(n, '\0');
  require<CommError>(getentropy(bytes.data(), n) == 0, "side channel: no random numbers");
  return bytes;
}

std::string hex(const std::string& bytes) {
  std::ostringstream out;
  for (const unsigned char byte : bytes)
    out << std::hex << std::setw(2) << std::setfill('0') << int{byte};
  return std::move(out).str();
}

std::string mac(const std::string& secret, const std::string& text) {
  unsigned char code[mac_bytes];
  const bool done = HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
                         reinterpret_cast<const unsigned char*>(text.data()), text.size(), code,
                         nullptr) != nullptr;
  require<CommError>(done, "side channel: OpenSSL does not offer HMAC-SHA256 here");
  return {reinterpret_cast<const char*>(code), mac_bytes};
}

/// What the ranks exchange about each other through MPI.
struct Peer {
  std::string network, host, secret;
  pid_t process = 0;
  std::int64_t timeout = 0;  // ms
  std::string name;          // of the Unix domain socket on which it listens, or empty
  int port = 0;              // for its TCP addresses, or 0
  std::vector<std::string> addresses;
};

std::vector<Peer> gather_peers(Communicator& comm, const SideChannelOptions& options) {
  std::ostringstream mine;
  mine << std::quoted(network()) << ' ' << std::quoted(host_name()) << ' '
       << hex(random_bytes(secret_bytes)) << ' ' << getpid() << ' ' << options.timeout.count();
  std::vector<Peer> peers;
  for (const std::string& text : comm.all_gather_bytes(std::move(mine).str())) {
    std::istringstream in(text);
    Peer peer;
    in >> std::quoted(peer.network) >> std::quoted(peer.host) >> peer.secret >> peer.process >>
        peer.timeout;
    peers.push_back(std::move(peer));
  }
  return peers;
}

void gather_listeners(Communicator& comm, const std::string& mine, std::vector<Peer>& peers) {
  const std::vector<std::string> texts = comm.all_gather_bytes(mine);
  for (std::size_t r = 0; r < peers.size(); ++r) {
    std::istringstream in(texts[r]);
    in >> std::quoted(peers[r].name) >> peers[r].port;
    for (std::string address; in >> address;) peers[r].addresses.push_back(address);
  }
}

enum class Stage {
  pausing,  // before this rank calls again
  connecting,
  // The caller's stages in this order, then the listener's.
  awaits_nonce,
  awaits_answer,
  awaits_hello,
  awaits_proof,
  awaits_last,
  over
};

/// A connection that is being established.
struct Call {
  Stage stage = Stage::awaits_hello;
  int peer = -1;  // -1: not known yet
  bool is_ours = false;
  Socket socket = {};
  std::string in = {}, out = {};
  std::string own_nonce = {}, their_nonce = {};
  std::size_t attempt = 0;
  Clock::time_point since = Clock::now();  // when the attempt, or the pause before it, started
};

class Connecting {
 public:
  Connecting(Communicator& comm, const SideChannelOptions& options)
      : transport_(comm.transport()),
        rank_(comm.rank()),
        options_(options),
        peers_(gather_peers(comm, options)) {
    for (const int peer : SideChannel::neighbours(rank_, comm.world_size())) missing_.insert(peer);
    gather_listeners(comm, listen(), peers_);
    for (const int peer : missing_)
      if (peer < rank_)
        calls_.push_back({.stage = Stage::pausing, .peer = peer, .is_ours = true, .since = {}});
  }

  std::vector<Link> run() {
    now_ = Clock::now();
    const auto end = now_ + options_.time_to_connect;
    while (!missing_.empty()) {
      // A caller may use a connection that this rank has answered but does not count yet.
      const auto until = std::max(end, last_answer_ + time_for_last);
      if (now_ >= until) break;
      wait(until);
      for (Call& call : calls_) advance(call);
      for (const Socket* listener : {&unix_, &tcp_}) accept(*listener);
      calls_.remove_if([](const Call& call) { return call.stage == Stage::over; });
    }
    return std::move(links_);
  }

 private:
  const Peer& self() const { return peers_[static_cast<std::size_t>(rank_)]; }
  const Peer& peer_of(int rank) const { return peers_[static_cast<std::size_t>(rank)]; }
  bool is_local(int rank) const { return peer_of(rank).network == self().network; }

  /// Opens the listeners that callers need; returns their addresses.
  std::string listen() {
    const auto calls_from = [&](bool local) {
      return std::ranges::any_of(missing_,
                                 [&](int peer) { return peer > rank_ && is_local(peer) == local; });
    };
    std::string name;
    int port = 0;
    std::vector<std::string> addresses;
    if (calls_from(true)) {
      name = "rondo-" + hex(random_bytes(nonce_bytes));
      unix_ = listen_unix(name);
    }
    const char* chosen = std::getenv("RONDO_SOCKET_IFNAME");
    const std::string interface = chosen == nullptr ? "" : chosen;
    own_addresses_ = own_addresses(interface);
    if (calls_from(false)) tcp_ = listen_tcp(interface, port);
    std::ostringstream out;
    out << std::quoted(name) << ' ' << port;
    if (tcp_)
      for (const std::string& address : own_addresses_) out << ' ' << address;
    return std::move(out).str();
  }

  void wait(Clock::time_point until) {
    std::vector<pollfd> files = {{.fd = unix_.file(), .events = POLLIN, .revents = 0},
                                 {.fd = tcp_.file(), .events = POLLIN, .revents = 0}};
    for (const Call& call : calls_) {
      if (call.is_ours) until = std::min(until, deadline_of(call));
      const bool writes = call.stage == Stage::connecting || !call.out.empty();
      files.push_back({.fd = call.socket.file(),
                       .events = static_cast<short>(writes ? POLLOUT : POLLIN),
                       .revents = 0});
    }
    const auto left = std::chrono::ceil<milliseconds>(until - Clock::now());
    poll(files.data(), files.size(),
         static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000)));
    now_ = Clock::now();
  }

  static Clock::time_point deadline_of(const Call& call) {
    return call.since + (call.stage == Stage::pausing ? pause_between_calls : patience_with_call);
  }

  void accept(const Socket& listener) {
    const auto is_stranger = [](const Call& call) {
      return call.stage == Stage::awaits_hello || call.stage == Stage::awaits_proof;
    };
    for (int i = 0; listener && i < accepted_at_once; ++i) {
      bool is_full = false;  // this process cannot open more files
      Socket socket = accept_from(listener, is_full);
      if (is_full || (socket && std::ranges::count_if(calls_, is_stranger) >= most_strangers))
        if (const auto oldest = std::ranges::find_if(calls_, is_stranger); oldest != calls_.end())
          calls_.erase(oldest);
      if (!socket) return;
      if (&listener != &unix_ || socket.is_of_same_user())
        calls_.push_back({.socket = std::move(socket)});
    }
  }

  /// Advances as far as possible without waiting.
  void advance(Call& call) {
    if (call.is_ours && now_ >= deadline_of(call))
      return call.stage == Stage::pausing ? begin(call) : give_up(call);
    if (call.stage == Stage::pausing) return;
    if (call.stage == Stage::connecting) {
      pollfd file = {.fd = call.socket.file(), .events = POLLOUT, .revents = 0};
      if (poll(&file, 1, 0) == 0) return;
      if (!call.socket.is_connected()) return give_up(call);
      if (is_local(call.peer) && !call.socket.is_of_same_user()) return give_up(call);
      greet(call);
    }
    const Socket::Line line = call.socket.receive(call.in, hello_bytes + mac_bytes);
    // Ignores what the listener sent before it hung up.
    if (call.is_ours && line != Socket::Line::open) return give_up(call);
    bool goes_on = true;
    while (goes_on && call.stage != Stage::over) goes_on = answer(call);
    if (call.stage == Stage::over) return;
    call.socket.send(call.out);
    if (line != Socket::Line::open) give_up(call);
  }

  void begin(Call& call) {
    std::vector<std::string> addresses;
    const Peer& peer = peer_of(call.peer);
    if (!is_local(call.peer)) {
      // An address that both machines have leads to this machine, for example that of a container
      // bridge.
      std::ranges::remove_copy_if(peer.addresses, std::back_inserter(addresses),
                                  [&](const std::string& address) {
                                    return std::ranges::count(own_addresses_, address) > 0;
                                  });
      if (addresses.empty()) return give_up(call);
    }
    call.socket = addresses.empty()
                      ? connect_unix(peer.name)
                      : connect_tcp(addresses[call.attempt % addresses.size()], peer.port);
    if (!call.socket) return give_up(call);
    call.stage = Stage::connecting;
    call.since = now_;
  }

  /// Calls of this rank are tried again, others' calls are not.
  void give_up(Call& call) {
    call = {.stage = call.is_ours ? Stage::pausing : Stage::over,
            .peer = call.peer,
            .is_ours = call.is_ours,
            .attempt = call.attempt + 1};
  }

  void greet(Call& call) {
    const std::int32_t ranks[] = {rank_, call.peer};
    call.own_nonce = random_bytes(nonce_bytes);
    call.out.assign(reinterpret_cast<const char*>(ranks), sizeof ranks);
    call.out += call.own_nonce;
    call.stage = Stage::awaits_nonce;
  }

  /// What `role` sends to prove that it knows the secret.
  std::string proof_of(const Call& call, const char* role) const {
    const int caller = call.is_ours ? rank_ : call.peer;
    const int listener = call.is_ours ? call.peer : rank_;
    const std::string& first = call.is_ours ? call.own_nonce : call.their_nonce;
    const std::string& second = call.is_ours ? call.their_nonce : call.own_nonce;
    return mac(peers_[0].secret, concat(role, ' ', caller, ' ', listener, ' ') + first + second);
  }
  bool proves(const Call& call, const std::string& proof, const char* role) const {
    return CRYPTO_memcmp(proof.data(), proof_of(call, role).data(), mac_bytes) == 0;
  }

  /// Handles the next part of the handshake. Returns false if it has not arrived completely.
  bool answer(Call& call) {
    const auto take = [&](std::size_t n) {
      std::string part = call.in.substr(0, n);
      call.in.erase(0, n);
      return part;
    };
    switch (call.stage) {
      case Stage::awaits_nonce:
        if (call.in.size() < nonce_bytes) return false;
        call.their_nonce = take(nonce_bytes);
        call.out += proof_of(call, "caller");
        call.stage = Stage::awaits_answer;
        return true;
      case Stage::awaits_answer:
        if (call.in.size() < mac_bytes) return false;
        if (proves(call, take(mac_bytes), "listener")) {
          call.out += '.';
          join(call);
        } else {
          give_up(call);
        }
        return false;
      case Stage::awaits_hello: {
        if (call.in.size() < hello_bytes) return false;
        std::int32_t ranks[2];
        std::memcpy(ranks, take(sizeof ranks).data(), sizeof ranks);
        call.their_nonce = take(nonce_bytes);
        call.peer = ranks[0];
        if (call.peer <= rank_ || ranks[1] != rank_ || !missing_.contains(call.peer)) {
          give_up(call);
          return false;
        }
        call.own_nonce = random_bytes(nonce_bytes);
        call.out += call.own_nonce;
        call.stage = Stage::awaits_proof;
        return true;
      }
      case Stage::awaits_proof:
        if (call.in.size() < mac_bytes) return false;
        if (!proves(call, take(mac_bytes), "caller")) {
          give_up(call);
          return false;
        }
        call.out += proof_of(call, "listener");
        last_answer_ = now_;
        call.stage = Stage::awaits_last;
        return true;
      case Stage::awaits_last:
        if (call.in.empty()) return false;
        take(1);
        join(call);
        return false;
      default:
        return false;
    }
  }

  void join(Call& call) {
    call.socket.send(call.out);
    const Peer& peer = peer_of(call.peer);
    if (missing_.erase(call.peer) > 0)
      links_.push_back({.rank = call.peer,
                        .name = transport_.name_of(call.peer),
                        .process = peer.process,
                        .on = peer.host == self().host ? "" : " on " + peer.host,
                        .limit = std::max(options_.timeout, milliseconds(peer.timeout)),
                        .socket = std::move(call.socket),
                        .in = std::move(call.in),
                        .out = std::move(call.out),
                        // Until then the peer may be waiting for its other neighbours.
                        .heard = now_ + options_.time_to_connect + time_for_last});
    call.stage = Stage::over;
  }

  const Transport& transport_;
  int rank_;
  SideChannelOptions options_;
  std::vector<Peer> peers_;
  std::set<int> missing_;  // neighbours that are not connected yet
  std::vector<std::string> own_addresses_;
  Socket unix_, tcp_;
  std::list<Call> calls_;  // oldest first
  std::vector<Link> links_;
  Clock::time_point now_ = Clock::now(), last_answer_ = {};
};

}  // namespace

std::vector<Link> connect_neighbours(Communicator& comm, const SideChannelOptions& options) {
  return Connecting(comm, options).run();
}

}  // namespace rondo::dist::side
