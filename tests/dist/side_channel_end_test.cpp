// How ranks part: the end of a program, in order and otherwise. Ranks are threads here, or played.

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "dist/side_channel.h"
#include "support/played_rank.h"
#include "support/ranks.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

using std::chrono::milliseconds;
using test::comes_true;
using test::expect_connections;
using test::on_ranks;
using test::open_files;
using test::Played;
using test::with_one_played;

TEST(SideChannelEnd, AnOrderlyEndSaysNothing) {
  const std::size_t files = open_files();
  for (int n : {2, 3, 9}) {
    on_ranks(n, [n](auto comm) {
      auto channel = std::make_unique<SideChannel>(*comm);
      expect_connections(*channel, std::ssize(SideChannel::neighbours(comm->rank(), n)));
      comm->barrier();
      for (int r = 0; r < n; ++r) {  // one after another: the last has seen all others go
        if (comm->rank() == r) {
          EXPECT_EQ(channel->ended(), "");
          channel.reset();
        }
        comm->barrier();
      }
    });
  }
  EXPECT_EQ(open_files(), files);
}

TEST(SideChannelEnd, AnEndAtOnceAndBeforeTheyAreConnected) {
  const std::size_t files = open_files();
  for (int round = 0; round < 50; ++round) {
    on_ranks(4, [&](auto comm) {
      const SideChannel channel(*comm);
      if (round % 2 == 0) comm->barrier();
      EXPECT_EQ(channel.ended(), "");
    });
  }
  EXPECT_EQ(open_files(), files);
}

TEST(SideChannelEnd, ByeIsNoDeath) {
  with_one_played(
      2,
      [](const Played& played, Communicator& comm) {
        const Socket socket = played.join(0);
        const std::string bye = Played::message('b');
        std::string words = bye, heard;
        socket.send(words);
        comm.barrier();
        EXPECT_TRUE(comes_true([&] {  // before the other side closes
          return socket.receive(heard) != Socket::Line::open || heard.ends_with(bye);
        }));
        EXPECT_TRUE(heard.ends_with(bye));
      },
      [](auto channel, Communicator& comm) {
        comm.barrier();
        expect_connections(*channel, 0);
        EXPECT_EQ(channel->ended(), "");
      });
}

// In a world of 9, rank 4 is no neighbour of rank 1.
TEST(SideChannelEnd, OneThatIsLeavingIsKnownToAll) {
  for (int n : {3, 9}) {
    on_ranks(n, [n](auto comm) {
      SideChannel channel(*comm);
      expect_connections(channel, std::ssize(SideChannel::neighbours(comm->rank(), n)));
      comm->barrier();
      if (comm->rank() == 1) channel.leave();
      EXPECT_TRUE(comes_true([&] { return channel.left(1).has_value(); }));
      EXPECT_FALSE(channel.left(2).has_value());
      EXPECT_EQ(channel.ended(), "");
      comm->barrier();
    });
  }
}

// The second of two that leave has not heard of the first when it does.
TEST(SideChannelEnd, AllThatAreLeavingAreKnownToAll) {
  on_ranks(9, [](auto comm) {
    auto channel = std::make_unique<SideChannel>(*comm);
    expect_connections(*channel, std::ssize(SideChannel::neighbours(comm->rank(), 9)));
    comm->barrier();
    if (comm->rank() != 0) channel->leave();
    for (int r = 1; r < 9; ++r)
      EXPECT_TRUE(comes_true([&] { return channel->left(r).has_value(); })) << r;
    EXPECT_FALSE(channel->left(0).has_value());
    comm->barrier();
  });
}

// What a rank has heard before it is connected to another, it tells it then.
TEST(SideChannelEnd, WhoIsConnectedLaterHearsWhoHasLeft) {
  with_one_played(
      3,
      [](const Played& played, Communicator& comm) {
        comm.barrier();
        const Socket socket = played.join(1);
        std::string heard;
        EXPECT_TRUE(comes_true([&] {
          socket.receive(heard);
          return heard.find(Played::message('l', "0 ")) != std::string::npos;
        }));
        comm.barrier();
      },
      [](auto channel, Communicator& comm) {
        if (comm.rank() == 0) channel->leave();
        EXPECT_TRUE(comes_true([&] { return channel->left(0).has_value(); }));
        comm.barrier();
        comm.barrier();
      });
}

// However long it takes, as long as something is heard of it.
TEST(SideChannelEnd, PartingWaitsForTheOthers) {
  std::atomic<bool> has_parted = false;
  on_ranks(3, [&](auto comm) {
    SideChannel channel(*comm, {.timeout = milliseconds(400), .beat = milliseconds(20)});
    expect_connections(channel, 2);
    comm->barrier();
    if (comm->rank() == 2) {
      std::this_thread::sleep_for(milliseconds(1000));
      EXPECT_FALSE(has_parted);
    }
    EXPECT_EQ(channel.part(), "");
    has_parted = true;
  });
}

// Whose process is gone, by _exit say, keeps nobody; the launcher knows how it went.
TEST(SideChannelEnd, WhoIsSilentWhileTheOthersPartIsNamed) {
  const SideChannelOptions options = {.timeout = milliseconds(300), .beat = milliseconds(50)};
  for (const bool dies : {false, true}) {
    with_one_played(
        3,
        [&](const Played& played, Communicator& comm) {
          Socket all[] = {played.join(0), played.join(1)};
          comm.barrier();
          if (dies) return;
          for (const Socket& socket : all) EXPECT_TRUE(Played::is_closed(socket));
        },
        [&](auto channel, Communicator& comm) {
          expect_connections(*channel, 2);
          comm.barrier();
          EXPECT_EQ(channel->part(), dies ? "" : "rank 2 on node7 has not been heard of for 0.3 s");
        },
        options);
  }
}

// It may still write a file, so it is neither blamed nor ended.
TEST(SideChannelEnd, OneThatHasLeftAndDoesNotEndIsWarnedOfOnce) {
  std::mutex mutex;
  std::vector<std::string> warnings;
  on_ranks(3, [&](auto comm) {
    SideChannel channel(*comm, {.timeout = milliseconds(200), .beat = milliseconds(20)});
    expect_connections(channel, 2);
    comm->barrier();
    if (comm->rank() == 2) {
      channel.leave();
      EXPECT_TRUE(comes_true([&] {
        std::lock_guard lock(mutex);
        return warnings.size() >= 2;
      }));
      std::this_thread::sleep_for(milliseconds(300));
    } else {
      EXPECT_TRUE(comes_true([&] { return channel.left(2).has_value(); }));
    }
    const auto warn = [&](const std::string& who) {
      std::lock_guard lock(mutex);
      warnings.push_back(who);
    };
    EXPECT_EQ(channel.part(warn), "");
  });
  const std::string expected = concat("rank 2 (process ", getpid(), ") is leaving and still runs");
  EXPECT_EQ(warnings, std::vector<std::string>(2, expected));
}

// It is not lost, then: it has said why it ends.
TEST(SideChannelEnd, WhoHasFailedIsNotWaitedForAtTheEnd) {
  with_one_played(
      2,
      [](const Played& played, Communicator& comm) {
        const Socket socket = played.join(0);
        std::string why = Played::message('f', "rank 1: no such file");
        socket.send(why);
        comm.barrier();
        EXPECT_TRUE(Played::is_closed(socket));
      },
      [](auto channel, Communicator& comm) {
        comm.barrier();
        EXPECT_EQ(channel->part(), "");
        EXPECT_EQ(channel->failed(), "rank 1: no such file");
      });
}

}  // namespace
}  // namespace rondo::dist
