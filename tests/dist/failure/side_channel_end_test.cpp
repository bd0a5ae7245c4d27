// The normal and abnormal end of a program. Ranks are threads or are simulated by sockets.

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "dist/failure/side_channel.h"
#include "support/played_rank.h"
#include "support/ranks.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

using std::chrono::milliseconds;
using test::comes_true;
using test::expect_ended;
using test::on_ranks;
using test::open_files;
using test::Played;
using test::with_one_played;

TEST(SideChannelEnd, AnOrderlyEndSaysNothing) {
  const std::size_t files = open_files();
  for (int n : {2, 3, 9}) {
    on_ranks(n, [n](auto comm) {
      auto channel = std::make_unique<SideChannel>(*comm);
      EXPECT_EQ(channel->connected().size(), SideChannel::neighbours(comm->rank(), n).size());
      comm->barrier();
      for (int r = 0; r < n; ++r) {  // one after another: the last has seen all others leave
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

TEST(SideChannelEnd, AnEndAfterAGoodbyeIsNotADeath) {
  with_one_played(
      2,
      [](const Played& played, Communicator& comm) {
        {
          const Socket socket = played.join(0);
          Played::say(socket, Played::message('l', "1") + Played::message('b'));
          socket.close_for_writing();
          EXPECT_TRUE(Played::is_closed(socket));
        }
        comm.barrier();
      },
      [](auto channel, Communicator& comm) {
        comm.barrier();
        EXPECT_TRUE(channel->finalized(1).has_value());
        EXPECT_EQ(channel->ended(), "");
      });
}

// For example in MPI_Finalize, where the others wait for it.
TEST(SideChannelEnd, AnEndWithoutAGoodbyeIsADeath) {
  with_one_played(
      2,
      [](const Played& played, Communicator& comm) {
        const Socket socket = played.join(0);
        Played::say(socket, Played::message('l', "1"));
        comm.barrier();
      },
      [](auto channel, Communicator& comm) {
        comm.barrier();
        expect_ended(*channel, "rank 1 (process 4242 on node7) has ended");
      });
}

// A stopped process blocks the launcher, and the other ranks in MPI_Finalize.
TEST(SideChannelEnd, SilenceAtTheEndOfAProgramIsNamed) {
  with_one_played(
      2,
      [](const Played& played, Communicator& comm) {
        const Socket socket = played.join(0);
        Played::say(socket, Played::message('l', "1"));
        comm.barrier();
      },
      [](auto channel, Communicator& comm) {
        expect_ended(*channel, "rank 1 on node7 has not been heard of for 0.3 s");
        comm.barrier();
      },
      {.timeout = milliseconds(300),
       .beat = milliseconds(50),
       .time_to_connect = milliseconds(500)});
}

// Even if unread data has arrived for it.
TEST(SideChannelEnd, AGoodbyeIsReadBeforeTheEndOfFile) {
  with_one_played(
      2,
      [](const Played& played, Communicator& comm) {
        const Socket socket = played.join(0);
        comm.barrier();
        for (int i = 0; i < 100; ++i) Played::say(socket, Played::message('.'));
        std::string heard;
        EXPECT_TRUE(comes_true([&] { return socket.receive(heard) != Socket::Line::open; }));
        EXPECT_TRUE(heard.ends_with(Played::message('l', "0") + Played::message('b'))) << heard;
      },
      [](auto channel, Communicator& comm) {
        comm.barrier();
        channel.reset();
      });
}

// In a world of 9, rank 4 is not a neighbour of rank 1.
TEST(SideChannelEnd, OneThatIsLeavingIsKnownToAll) {
  for (int n : {3, 9}) {
    on_ranks(n, [](auto comm) {
      SideChannel channel(*comm);
      comm->barrier();
      if (comm->rank() == 1) channel.finalize();
      EXPECT_TRUE(comes_true([&] { return channel.finalized(1).has_value(); }));
      EXPECT_FALSE(channel.finalized(2).has_value());
      EXPECT_EQ(channel.ended(), "");
      comm->barrier();
    });
  }
}

// Each leaves before it has received the other's goodbye.
TEST(SideChannelEnd, AllThatAreLeavingAreKnownToAll) {
  on_ranks(9, [](auto comm) {
    auto channel = std::make_unique<SideChannel>(*comm);
    comm->barrier();
    if (comm->rank() != 0) channel->finalize();
    for (int r = 1; r < 9; ++r)
      EXPECT_TRUE(comes_true([&] { return channel->finalized(r).has_value(); })) << r;
    EXPECT_FALSE(channel->finalized(0).has_value());
    comm->barrier();
  });
}

}  // namespace
}  // namespace rondo::dist
