// How ranks connect, and how they reject other processes. Ranks are threads; attackers and missing
// ranks are simulated by sockets.

#include "dist/failure/side_connect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dist/launch/host.h"
#include "support/environment.h"
#include "support/errors.h"
#include "support/played_rank.h"
#include "support/ranks.h"

namespace rondo::dist {
namespace {

using std::chrono::milliseconds;
using test::comes_true;
using test::on_ranks;
using test::Played;
using test::with_one_played;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// The number of sockets of this process that listen on `domain`.
int listeners(int domain) {
  int n = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int file = std::stoi(entry.path().filename());
    int listens = 0, its_domain = 0;
    socklen_t size = sizeof listens;
    getsockopt(file, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size);
    getsockopt(file, SOL_SOCKET, SO_DOMAIN, &its_domain, &size);
    n += listens != 0 && its_domain == domain ? 1 : 0;
  }
  return n;
}
int tcp_listeners() { return listeners(AF_INET) + listeners(AF_INET6); }

TEST(SideConnect, RanksOfOneMachineUseNoTcpAndTheLastListensNowhere) {
  with_one_played(
      3,
      [](const Played&, Communicator& comm) {
        EXPECT_TRUE(comes_true([] { return tcp_listeners() == 2; })) << "rank 2 is elsewhere";
        comm.barrier();
        EXPECT_EQ(tcp_listeners(), 0) << "all listeners are closed by now";
        EXPECT_EQ(listeners(AF_UNIX), 0);
      },
      [](auto channel, Communicator& comm) {
        EXPECT_EQ(channel->connected(), std::set<int>{1 - comm.rank()});
        comm.barrier();
      },
      {.time_to_connect = milliseconds(1000)});
  on_ranks(4, [](auto comm) {
    if (comm->rank() == 3) {  // does not connect to them
      const Played played(*comm, 0, network());
      EXPECT_TRUE(comes_true([] { return listeners(AF_UNIX) == 3; }));
      EXPECT_EQ(tcp_listeners(), 0);
      return;
    }
    const SideChannel channel(*comm, {.time_to_connect = milliseconds(1000)});
    EXPECT_EQ(channel.connected().size(), 2u);
  });
}

TEST(SideConnect, StrangersAreSentAwayAndHoldNobodyUp) {
  with_one_played(
      3,
      [](const Played& played, Communicator& comm) {
        std::vector<Socket> idle;
        for (int i = 0; i < 600; ++i) idle.push_back(played.call(0, ""));
        for (const std::string& words :
             {Played::hello(2, 1, Played::nonce), Played::hello(0, 0, Played::nonce),
              Played::hello(7, 0, Played::nonce), Played::hello(-1, 0, Played::nonce),
              std::string("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), std::string(3000, '\0')})
          EXPECT_TRUE(Played::is_closed(played.call(0, words))) << words.substr(0, 20);
        EXPECT_TRUE(Played::is_closed(idle.front())) << "the oldest makes room";
        const Socket first = played.join(0), second = played.join(1);
        for (const Socket& socket : idle) EXPECT_TRUE(Played::is_closed(socket));
        comm.barrier();
      },
      [](auto channel, Communicator& comm) {
        EXPECT_EQ(channel->connected().size(), 2u);
        comm.barrier();
      });
}

TEST(SideConnect, AProofIsGoodForItsConnectionAlone) {
  with_one_played(
      3,
      [](const Played& played, Communicator& comm) {
        const auto proof = [&](const std::string& secret, const char* role, int caller,
                               const std::string& nonce) {
          return Played::proof(secret, role, caller, 0, Played::nonce + nonce);
        };
        const Socket recorded = played.call(0, played.hello(0));
        const std::string nonce = Played::hear(recorded, 16);
        const std::string& secret = played.secret();
        Played::say(recorded, proof(secret, "caller", 2, nonce));
        const std::string answer = Played::hear(recorded, 32);
        EXPECT_EQ(answer, proof(secret, "listener", 2, nonce));
        for (const std::string& words :
             {proof(secret, "caller", 2, nonce), answer, proof("guessed", "caller", 2, nonce)}) {
          const Socket replayed = played.call(0, played.hello(0));
          EXPECT_NE(Played::hear(replayed, 16), nonce);
          Played::say(replayed, words);
          EXPECT_TRUE(Played::is_closed(replayed));
        }
        // A proof for another role or rank is rejected.
        for (const auto& [role, caller] : {std::pair{"listener", 2}, std::pair{"caller", 1}}) {
          const Socket socket = played.call(0, played.hello(0));
          Played::say(socket, proof(secret, role, caller, Played::hear(socket, 16)));
          EXPECT_TRUE(Played::is_closed(socket));
        }
        const Socket first = played.join(0), second = played.join(1);
        comm.barrier();
      },
      [](auto channel, Communicator& comm) {
        EXPECT_EQ(channel->connected().size(), 2u);
        comm.barrier();
      });
}

// A process that listens in a rank's place does not learn the secret and is not accepted.
TEST(SideConnect, TheSecretDoesNotTravelAndAThiefIsNotBelieved) {
  on_ranks(2, [](auto comm) {
    if (comm->rank() == 1) {
      const SideChannel channel(*comm);
      EXPECT_EQ(channel.connected(), std::set<int>{0});
      comm->barrier();
      return;
    }
    int port = 0;
    const Socket listener = listen_tcp("", port);
    const Played played(*comm, port);
    const auto next_caller = [&] {
      Socket caller;
      bool is_full = false;
      EXPECT_TRUE(comes_true([&] {
        if (!caller) caller = accept_from(listener, is_full);
        return static_cast<bool>(caller);
      }));
      return caller;
    };
    {
      const Socket caller = next_caller();
      const std::string hello = Played::hear(caller, 24);
      EXPECT_EQ(hello.substr(0, 8), Played::hello(1, 0, "").substr(0, 8));
      Played::say(caller, Played::nonce);
      const std::string proof = Played::hear(caller, 32);
      EXPECT_THAT(hello + proof, Not(HasSubstr(played.secret())));
      Played::say(caller, proof);  // replays the rank's own proof
      EXPECT_TRUE(Played::is_closed(caller));
    }
    const Socket caller = next_caller();
    const std::string nonces = Played::hear(caller, 24).substr(8) + Played::nonce;
    Played::say(caller, Played::nonce);
    EXPECT_EQ(Played::hear(caller, 32), Played::proof(played.secret(), "caller", 1, 0, nonces));
    Played::say(caller, Played::proof(played.secret(), "listener", 1, 0, nonces));
    EXPECT_EQ(Played::hear(caller, 1), ".");
    comm->barrier();
  });
}

/// Connects to every listener of a rank, as fast as it can.
void flood(const Played& played, const std::atomic<bool>& is_over) {
  while (!is_over) {
    std::vector<Socket> calls;
    for (int i = 0; i < 50; ++i) calls.push_back(played.call(0, ""));
    std::ifstream sockets("/proc/self/net/unix");
    for (std::string line; std::getline(sockets, line);)
      if (const auto at = line.find("@rondo-"); at != std::string::npos)
        for (int i = 0; i < 50; ++i) calls.push_back(connect_unix(line.substr(at + 1)));
  }
}

TEST(SideConnect, AFloodOfCallsKeepsNoRankOut) {
  with_one_played(
      4,
      [](const Played& played, Communicator& comm) {
        std::atomic<bool> is_over = false;
        std::thread attacker([&] { flood(played, is_over); });
        std::this_thread::sleep_for(milliseconds(300));
        std::vector<Socket> all;
        for (const int peer : {0, 1, 2}) all.push_back(played.join(peer));
        comm.barrier();
        comm.barrier();
        is_over = true;
        attacker.join();
      },
      [](auto channel, Communicator& comm) {
        EXPECT_EQ(channel->connected().size(), 3u);
        comm.barrier();
        std::this_thread::sleep_for(milliseconds(2000));
        EXPECT_EQ(channel->ended(), "") << "all heartbeats come in time";
        comm.barrier();
      },
      {.timeout = milliseconds(1500), .beat = milliseconds(50)});
}

TEST(SideConnect, TheInterfaceCanBeChosen) {
  {
    const test::Environment chosen("RONDO_SOCKET_IFNAME", "nosuch0");
    on_ranks(2, [](auto comm) {
      EXPECT_THAT(test::message_of<CommError>([&] { const SideChannel channel(*comm); }),
                  AllOf(HasSubstr("RONDO_SOCKET_IFNAME is \"nosuch0\", which is not a network "
                                  "interface of this machine"),
                        HasSubstr("lo")));
    });
  }
  const test::Environment chosen("RONDO_SOCKET_IFNAME", "lo");
  with_one_played(
      2,
      [](const Played& played, Communicator& comm) {
        const Socket socket = played.join(0);
        comm.barrier();
      },
      [](auto channel, Communicator& comm) {
        EXPECT_EQ(channel->connected(), std::set<int>{1});
        comm.barrier();
      });
  EXPECT_THAT(own_addresses("lo"), testing::Contains("127.0.0.1"));
  EXPECT_THAT(own_addresses(""), Not(testing::Contains("127.0.0.1")));
}

}  // namespace
}  // namespace rondo::dist
