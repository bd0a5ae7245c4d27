#pragma once
// A rank of a side channel that is simulated by sockets, which speak its protocol themselves. It
// dies, hangs or attacks, while the other ranks are threads.

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iomanip>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "dist/failure/side_channel.h"
#include "dist/failure/sockets.h"
#include "support/ranks.h"

namespace rondo::test {

/// Whether `what` becomes true soon.
inline bool comes_true(const std::function<bool()>& what) {
  const auto until = dist::Clock::now() + std::chrono::seconds(20);
  while (!what() && dist::Clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  return what();
}

inline void expect_ended(const dist::SideChannel& channel, const std::string& sentence) {
  EXPECT_TRUE(comes_true([&] { return !channel.ended().empty(); }));
  EXPECT_EQ(channel.ended(), sentence);
}

inline std::size_t open_files() {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

/// A rank on another machine, node7. It tells the others its address, and then does only what the
/// test tells it to do.
class Played {
 public:
  /// `port`: where it listens on 127.0.0.1, or 0. `network`: the name that dist::network() returns.
  explicit Played(dist::Communicator& comm, int port = 0, const std::string& network = "elsewhere")
      : rank_(comm.rank()) {
    std::ostringstream mine;
    mine << std::quoted(network) << " \"node7\" " << secret_ << " 4242 0";
    const auto all = comm.all_gather_bytes(std::move(mine).str());
    std::istringstream first(all[0]);
    std::string other, host;
    first >> std::quoted(other) >> std::quoted(host) >> secret_;
    for (const std::string& text : comm.all_gather_bytes(concat("\"\" ", port, " 127.0.0.1"))) {
      std::istringstream in(text);
      std::string name;
      in >> std::quoted(name) >> ports_.emplace_back();
    }
  }

  static std::string message(char kind, const std::string& text = {}) {
    return std::string{kind, static_cast<char>(text.size()), 0} + text;
  }
  static std::string hello(std::int32_t from, std::int32_t to, const std::string& nonce) {
    std::string bytes(reinterpret_cast<const char*>(&from), sizeof from);
    bytes.append(reinterpret_cast<const char*>(&to), sizeof to);
    return bytes + nonce;
  }
  static std::string proof(const std::string& secret, const char* role, int caller, int listener,
                           const std::string& nonces) {
    const std::string text = concat(role, ' ', caller, ' ', listener, ' ') + nonces;
    unsigned char code[32];
    HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
         reinterpret_cast<const unsigned char*>(text.data()), text.size(), code, nullptr);
    return {reinterpret_cast<const char*>(code), sizeof code};
  }

  const std::string& secret() const { return secret_; }
  std::string hello(int peer) const { return hello(rank_, peer, nonce); }
  /// A connection to `peer` that has sent `words`.
  dist::Socket call(int peer, std::string words) const {
    dist::Socket socket = dist::connect_tcp("127.0.0.1", ports_[static_cast<std::size_t>(peer)]);
    say(socket, std::move(words));
    return socket;
  }
  static void say(const dist::Socket& socket, std::string words) {
    EXPECT_TRUE(comes_true([&] {
      socket.send(words);
      return words.empty() || !socket.is_connected();
    }));
  }
  /// The next `n` bytes, or fewer if the other side closes the connection.
  static std::string hear(const dist::Socket& socket, std::size_t n) {
    std::string heard;
    EXPECT_TRUE(comes_true(
        [&] { return socket.receive(heard, n) != dist::Socket::Line::open || heard.size() == n; }));
    return heard;
  }
  /// An accepted connection. Like a real rank it connects again if it is rejected.
  dist::Socket join(int peer) const {
    dist::Socket socket;
    EXPECT_TRUE(comes_true([&] {
      if (socket) return true;
      dist::Socket called = call(peer, hello(peer));
      const std::string nonces = nonce + hear(called, 16);
      say(called, proof(secret_, "caller", rank_, peer, nonces));
      if (hear(called, 32) != proof(secret_, "listener", rank_, peer, nonces)) return false;
      say(called, ".");
      socket = std::move(called);
      return true;
    }));
    return socket;
  }
  /// Waits until the other side closes it.
  static bool is_closed(const dist::Socket& socket, std::string heard = {}) {
    return comes_true([&] { return socket.receive(heard) != dist::Socket::Line::open; });
  }

  inline static const std::string nonce = "0123456789abcdef";

 private:
  int rank_;
  std::string secret_ = std::string(64, '0');
  std::vector<int> ports_;
};

/// Ranks 0 … n - 2 run `watch`, and rank n - 1 is simulated by `play`.
inline void with_one_played(
    int n, const std::function<void(const Played&, dist::Communicator&)>& play,
    const std::function<void(std::unique_ptr<dist::SideChannel>, dist::Communicator&)>& watch,
    const dist::SideChannelOptions& options = {}) {
  on_ranks(n, [&](auto comm) {
    if (comm->rank() == n - 1) return play(Played(*comm), *comm);
    watch(std::make_unique<dist::SideChannel>(*comm, options), *comm);
  });
}

}  // namespace rondo::test
