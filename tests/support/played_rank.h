#pragma once
// A rank of a side channel that is played by sockets, which speak its protocol by themselves: one
// that dies, hangs or calls by mistake, while the others are threads.

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <iomanip>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "dist/side_channel.h"
#include "dist/sockets.h"
#include "support/ranks.h"

namespace rondo::test {

/// Whether `what` comes true, soon.
inline bool comes_true(const std::function<bool()>& what) {
  const auto until = dist::Clock::now() + std::chrono::seconds(20);
  while (!what() && dist::Clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  return what();
}

inline void expect_connections(const dist::SideChannel& channel, std::ptrdiff_t n) {
  EXPECT_TRUE(comes_true([&] { return channel.connections() == n; }))
      << channel.connections() << " instead of " << n;
}

inline void expect_ended(const dist::SideChannel& channel, const std::string& sentence) {
  EXPECT_TRUE(comes_true([&] { return !channel.ended().empty(); }));
  EXPECT_EQ(channel.ended(), sentence);
}

inline std::size_t open_files() {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

/// A rank of another machine, node7, that tells the others where it is and then does only what the
/// test wants.
class Played {
 public:
  explicit Played(dist::Communicator& comm) : rank_(comm.rank()) {
    for (const std::string& text : comm.all_gather_bytes("0 \"\" \"node7 boot\" none 127.0.0.1")) {
      std::istringstream in(text);
      std::string name, host, token;
      int port = 0;
      in >> port >> std::quoted(name) >> std::quoted(host) >> std::quoted(token);
      if (ports_.empty()) token_ = token;
      ports_.push_back(port);
    }
  }

  static std::string message(char kind, const std::string& text = {}) {
    return std::string{kind, static_cast<char>(text.size()), 0} + text;
  }
  /// A connection to `peer` that has said `words`.
  dist::Socket call(int peer, std::string words) const {
    dist::Socket socket = dist::connect_to("127.0.0.1", ports_[static_cast<std::size_t>(peer)]);
    EXPECT_TRUE(comes_true([&] {
      socket.send(words);
      return words.empty();
    }));
    return socket;
  }
  std::string hello(int peer) const {
    return message('h', concat(token_, ' ', rank_, ' ', peer, " 4242 0 \"node7 boot\""));
  }
  /// One that counts: greeted from both sides.
  dist::Socket join(int peer) const {
    dist::Socket socket = call(peer, hello(peer));
    std::string heard;
    const std::string answer = concat(token_, ' ', peer, ' ', rank_, ' ');
    EXPECT_TRUE(comes_true([&] {
      socket.receive(heard);
      return heard.starts_with('h') && heard.find(answer) == 3;
    }));
    std::string beat = message('.');
    socket.send(beat);
    return socket;
  }
  /// Until the other side closes it.
  static bool is_closed(const dist::Socket& socket, std::string heard = {}) {
    return comes_true([&] { return socket.receive(heard) != dist::Socket::Line::open; });
  }

 private:
  int rank_;
  std::string token_;
  std::vector<int> ports_;
};

/// Ranks 0 … n - 2 watch, rank n - 1 is played.
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
