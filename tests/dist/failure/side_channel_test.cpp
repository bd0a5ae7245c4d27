// How ranks learn about each other's end. Ranks are threads; ranks that die or hang are simulated
// by sockets that speak the protocol themselves.

#include "dist/failure/side_channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <thread>

#include "dist/launch/host.h"
#include "support/environment.h"
#include "support/errors.h"
#include "support/played_rank.h"
#include "support/ranks.h"
#include "tensor/creation.h"

namespace rondo::dist {
namespace {

using std::chrono::milliseconds;
using test::comes_true;
using test::expect_ended;
using test::on_ranks;
using test::Played;
using test::with_one_played;
using ::testing::AnyOf;
using ::testing::HasSubstr;

TEST(SideChannel, EveryRankReachesAllOthersInFewSteps) {
  EXPECT_EQ(SideChannel::neighbours(0, 1), (std::vector<int>{}));
  EXPECT_EQ(SideChannel::neighbours(1, 2), (std::vector<int>{0}));
  EXPECT_EQ(SideChannel::neighbours(2, 5), (std::vector<int>{0, 1, 3, 4}));
  EXPECT_EQ(SideChannel::neighbours(7, 8), (std::vector<int>{0, 1, 3, 5, 6}));
  EXPECT_EQ(SideChannel::neighbours(0, 1024).size(), 19u);
  for (int n = 2; n < 70; ++n) {
    for (int r = 0; r < n; ++r) {
      for (int peer : SideChannel::neighbours(r, n)) {
        EXPECT_NE(peer, r);
        EXPECT_THAT(SideChannel::neighbours(peer, n), testing::Contains(r)) << "of " << n;
      }
    }
  }
}

TEST(SideChannel, OneThatEndsWithoutByeIsNamedOnAllOthers) {
  with_one_played(
      4,
      [](const Played& played, Communicator& comm) {
        const Socket all[] = {played.join(0), played.join(1), played.join(2)};
        comm.barrier();
      },
      [](auto channel, Communicator& comm) {
        EXPECT_EQ(channel->connected().size(), 3u);
        EXPECT_EQ(channel->ended(), "");
        comm.barrier();
        expect_ended(*channel, "rank 3 (process 4242 on node7) has ended");
      });
}

// Rank 7 connects only to rank 0; 2 and 4 are not its neighbours anyway.
TEST(SideChannel, ARankThatHearsOfADeathTellsTheOthers) {
  with_one_played(
      8,
      [](const Played& played, Communicator& comm) {
        const Socket socket = played.join(0);
        comm.barrier();
      },
      [](auto channel, Communicator& comm) {
        const int rank = comm.rank();
        const bool misses_seven = rank == 1 || rank == 3 || rank == 5 || rank == 6;
        EXPECT_EQ(std::ssize(channel->connected()),
                  std::ssize(SideChannel::neighbours(rank, 8)) - misses_seven);
        comm.barrier();
        expect_ended(*channel, "rank 7 (process 4242 on node7) has ended");
      },
      {.time_to_connect = milliseconds(1000)});
}

TEST(SideChannel, SilenceHasALimit) {
  with_one_played(
      3,
      [](const Played& played, Communicator& comm) {
        const Socket first = played.join(0), second = played.join(1);
        comm.barrier();
        comm.barrier();
        // If it ever continues, it receives the reason why the others have ended.
        std::string heard;
        EXPECT_TRUE(Played::is_closed(first));
        while (second.receive(heard) == Socket::Line::open) std::this_thread::yield();
        EXPECT_THAT(heard, HasSubstr("rank 2 on node7 has not been heard of for 2 s"));
      },
      [](auto channel, Communicator& comm) {
        comm.barrier();
        expect_ended(*channel, "rank 2 on node7 has not been heard of for 2 s");
        comm.barrier();
      },
      {.timeout = milliseconds(2000),
       .beat = milliseconds(50),
       .time_to_connect = milliseconds(500)});
}

TEST(SideChannel, ARankThatIsGivenUpIsToldSo) {
  with_one_played(
      2,
      [](const Played& played, Communicator& comm) {
        const Socket socket = played.join(0);
        Played::say(socket, Played::message('e', "rank 0 has not been heard of for 3 s"));
        comm.barrier();
      },
      [](auto channel, Communicator& comm) {
        expect_ended(
            *channel,
            "the other ranks have given up this rank: rank 0 has not been heard of for 3 s");
        comm.barrier();
      });
}

TEST(SideChannel, HeartbeatsKeepItOpen) {
  on_ranks(2, [](auto comm) {
    const SideChannel channel(*comm, {.timeout = milliseconds(1500), .beat = milliseconds(20)});
    std::this_thread::sleep_for(milliseconds(2500));
    EXPECT_EQ(channel.ended(), "");
    comm->barrier();
  });
}

// A process starts two ranks and ends; a pipe returns what they received.
TEST(SideChannel, RanksWhoseLauncherHasEndedAreToldSo) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t launcher = fork();
  if (launcher == 0) {
    int ready[2];
    if (pipe(ready) == 0 && fork() == 0) {
      std::string heard[2];
      on_ranks(2, [&](auto comm) {
        const SideChannel channel(*comm, {.beat = milliseconds(20)});
        comm->barrier();
        if (comm->rank() == 0) close(ready[1]);
        comes_true([&] { return !channel.ended().empty(); });
        heard[comm->rank()] = channel.ended();
        comm->barrier();
      });
      const std::string all = heard[0] + "; " + heard[1];
      _exit(write(pipe_ends[1], all.data(), all.size()) == std::ssize(all) ? 0 : 1);
    }
    close(ready[1]);
    char nothing;
    _exit(static_cast<int>(read(ready[0], &nothing, 1)));  // at end of file both are connected
  }
  close(pipe_ends[1]);
  std::string heard;
  char text[200];
  for (ssize_t n; (n = read(pipe_ends[0], text, sizeof text)) > 0;) heard.append(text, n);
  close(pipe_ends[0]);
  EXPECT_EQ(waitpid(launcher, nullptr, 0), launcher);
  const auto sentence = [&](int rank) {
    return concat("the launcher (mpirun, srun, …) of rank ", rank, " (process ", launcher, " on ",
                  host_name(), ") has ended");
  };
  EXPECT_THAT(heard, AnyOf(sentence(0) + "; " + sentence(1), sentence(0) + "; " + sentence(0),
                           sentence(1) + "; " + sentence(1)));
}

TEST(SideChannel, ACollectiveFailsWithTheSentence) {
  on_ranks(3, [](auto comm) {
    if (comm->rank() == 2) {
      const Played played(*comm);
      const Socket first = played.join(0), second = played.join(1);
      return;
    }
    comm->open_side_channel({});
    try {
      comm->all_reduce(ones({10}));
      ADD_FAILURE() << "no error";
    } catch (const CommError& e) {
      EXPECT_EQ(e.what(),
                concat("rank ", comm->rank(),
                       ": all_reduce 0 failed: rank 2 (process 4242 on node7) has ended"));
    }
    EXPECT_EQ(comm->watch()->ended(), "rank 2 (process 4242 on node7) has ended");
  });
}

// Over messages, only the neighbours of the rank with the other collective notice it.
TEST(SideChannel, ADisagreementEndsTheCollectiveOnAllRanks) {
  on_ranks(6, [](auto comm) {
    comm->open_side_channel({});
    const auto begin = Clock::now();
    const std::string message = test::message_of<CommError>([&] {
      if (comm->rank() == 4)
        comm->broadcast(ones({2, 5}));
      else
        comm->all_reduce(ones({10}));
    });
    EXPECT_THAT(message, AnyOf(HasSubstr("rank 3 calls all_reduce 0 (sum, f32 [10]) where rank 4 "
                                         "calls broadcast 0 (f32 [2, 5], root 0)"),
                               HasSubstr("rank 4 calls broadcast 0 (f32 [2, 5], root 0) where "
                                         "rank 5 calls all_reduce 0 (sum, f32 [10])")));
    EXPECT_LT(Clock::now() - begin, std::chrono::minutes(1)) << "long before the deadline";
    EXPECT_EQ(comm->watch()->ended(), "") << "nobody has";
    comm->watch()->tell("what is told later does not count");
    EXPECT_THAT(comm->watch()->failed(), HasSubstr(" calls "));
  });
}

// The same for a missing rank: its neighbour knows, while the other ranks wait for each other.
TEST(SideChannel, AtTheDeadlineAllRanksSayWhoIsMissing) {
  on_ranks(6,
           [](auto comm) {
             comm->open_side_channel({});
             comm->barrier();
             if (comm->rank() == 2) {
               EXPECT_TRUE(comes_true([&] { return !comm->watch()->failed().empty(); }));
               EXPECT_EQ(comm->watch()->failed(), "rank 2 has not called all_reduce 1 for 2 s");
               return;
             }
             const std::string message =
                 test::message_of<CommError>([&] { comm->all_reduce(ones({10})); });
             const std::string itself =
                 "rank 3: all_reduce 1 gave up after 2 s of waiting for rank 2 to call it";
             const std::string heard = concat("rank ", comm->rank(),
                                              ": all_reduce 1 failed: rank 2 has not called "
                                              "all_reduce 1 for 2 s");
             EXPECT_EQ(message, comm->rank() == 3 ? itself : heard);
           },
           {.timeout = std::chrono::seconds(2)});
}

// A rank that joins after the failure learns about it, and so does a group.
TEST(SideChannel, AFailureIsToldToLateRanksAndGroups) {
  for (const bool in_memory : {false, true}) {
    std::atomic<int> groups = 0;
    on_ranks(4, [&, in_memory](auto comm) {
      if (in_memory) comm->share_memory();
      comm->open_side_channel({});
      auto group = comm->new_group({0, 1, 2});
      ++groups;
      EXPECT_TRUE(comes_true([&] { return groups == 4; })) << "the making of them would fail, too";
      if (group != nullptr) {
        EXPECT_EQ(group->shares_memory(), in_memory);
        EXPECT_TRUE(group->watch()->tells_others());
      }
      if (comm->rank() == 3) comm->watch()->tell("rank 3: its loss is NaN");
      EXPECT_TRUE(comes_true([&] { return !comm->watch()->failed().empty(); }));
      if (group != nullptr) {
        EXPECT_THAT(test::message_of<CommError>([&] {
                      if (comm->rank() == 0) std::this_thread::sleep_for(milliseconds(100));
                      for (int i = 0; i < 100'000; ++i) group->barrier();
                    }),
                    HasSubstr("of group {0, 1, 2} failed: rank 3: its loss is NaN"));
      }
    });
  }
}

/// Captures the error stream, and can be read during the capture.
class ErrorStream {
 public:
  ErrorStream() : file_(std::tmpfile()), before_(dup(STDERR_FILENO)) {
    dup2(fileno(file_), STDERR_FILENO);
  }
  ~ErrorStream() {
    dup2(before_, STDERR_FILENO);
    close(before_);
    std::fclose(file_);
  }
  ErrorStream(const ErrorStream&) = delete;
  ErrorStream& operator=(const ErrorStream&) = delete;

  std::string text() const {
    std::string all(1000, '\0');
    const ssize_t bytes = pread(fileno(file_), all.data(), all.size(), 0);
    all.resize(static_cast<std::size_t>(std::max<ssize_t>(bytes, 0)));
    return all;
  }

 private:
  std::FILE* file_;
  int before_;
};

TEST(SideChannel, WhoComputesTellsOfADeathBeforeItMeetsTheOthers) {
  const ErrorStream errors;
  on_ranks(2, [&](auto comm) {
    if (comm->rank() == 1) {
      const Played played(*comm);
      played.join(0);
      return;
    }
    comm->open_side_channel({});
    const std::string sentence =
        "warning: rank 0: the next collective will fail: rank 1 (process 4242 on node7) has "
        "ended\n";
    EXPECT_TRUE(comes_true([&] { return errors.text() == sentence; })) << errors.text();
    EXPECT_THROW(comm->all_reduce(ones({10})), CommError);
    EXPECT_EQ(errors.text(), sentence) << "once is enough";
  });
}

TEST(SideChannel, TheTimeoutComesFromTheEnvironment) {
  {
    const test::Environment none("RONDO_HEARTBEAT_TIMEOUT", nullptr);
    EXPECT_EQ(SideChannelOptions::from_environment().timeout, std::chrono::seconds(30));
  }
  {
    const test::Environment two("RONDO_HEARTBEAT_TIMEOUT", "2.5");
    EXPECT_EQ(SideChannelOptions::from_environment().timeout, milliseconds(2500));
    EXPECT_EQ(SideChannelOptions::from_environment().beat, milliseconds(500));
  }
  for (const char* wrong : {"", "soon", "0", "-1", "5s", "nan"}) {
    const test::Environment set("RONDO_HEARTBEAT_TIMEOUT", wrong);
    EXPECT_THROW(SideChannelOptions::from_environment(), CommError) << wrong;
  }
}

}  // namespace
}  // namespace rondo::dist
