#include "dist/collectives/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "dist/transports/thread/thread_transport.h"
#include "support/collective_matrix.h"
#include "support/collectives.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "support/ranks_test.h"
#include "tensor/creation.h"

namespace rondo::dist {
namespace {

using test::on_ranks;
using ::testing::AnyOf;
using ::testing::HasSubstr;

using CommunicatorTest = test::RanksTest;

TEST_P(CommunicatorTest, AllReduce) {
  on_ranks([](auto comm) { test::check_all_reduce(*comm, AllReduce::ring); });
}
TEST_P(CommunicatorTest, AllReduceAutomatic) {
  on_ranks([](auto comm) { test::check_all_reduce(*comm, AllReduce::automatic); });
}
TEST_P(CommunicatorTest, AllReduceByEveryAlgorithm) {
  on_ranks([](auto comm) {
    for (AllReduce algorithm :
         {AllReduce::direct, AllReduce::tree, AllReduce::recursive_doubling,
          AllReduce::halving_doubling, AllReduce::pairwise, AllReduce::hierarchical})
      test::check_all_reduce(*comm, algorithm);
  });
}
TEST_P(CommunicatorTest, EveryCollectiveOpAndDtype) {
  on_ranks([](auto comm) { test::check_every_collective(*comm); });
}
// Sums that round, and the minimum of -0 and +0, are bit-identical on all ranks.
TEST_P(CommunicatorTest, AllRanksGetTheSameBits) {
  on_ranks([](auto comm) {
    for (AllReduce algorithm :
         {AllReduce::automatic, AllReduce::ring, AllReduce::recursive_doubling,
          AllReduce::halving_doubling, AllReduce::tree, AllReduce::direct, AllReduce::pairwise,
          AllReduce::hierarchical}) {
      for (ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::min, ReduceOp::max}) {
        Generator generator(static_cast<std::uint64_t>(comm->rank()));
        Tensor x = randn({1000}, {}, generator);
        x[0].fill_(comm->rank() % 2 ? 0.0 : -0.0);
        comm->all_reduce_async(x, op, algorithm).wait();
        const std::string bits(static_cast<const char*>(x.data_ptr()), 4000);
        for (const std::string& other : comm->all_gather_bytes(bits))
          EXPECT_EQ(other == bits, true);
      }
    }
  });
}
TEST_P(CommunicatorTest, Broadcast) {
  on_ranks([](auto comm) { test::check_broadcast(*comm); });
}
TEST_P(CommunicatorTest, GatherAndScatter) {
  on_ranks([](auto comm) { test::check_gather_and_scatter(*comm); });
}
// Also in memory that all or some of the ranks share.
TEST_P(CommunicatorTest, GatherAndScatterOfAllocatedMemory) {
  on_ranks([](std::shared_ptr<Communicator> comm) {
    const int n = comm->world_size(), me = comm->rank();
    for (std::int64_t part : {1, 17, 50'000}) {
      for (int odd : {-1, 0}) {
        auto own = [&](std::int64_t numel) {
          if (me == odd) return Tensor::empty({numel}, {});
          return comm->empty({numel});
        };
        // Both ranks of a pair must request the same kind of memory.
        if (me == odd) comm->allocate(static_cast<std::size_t>(n * part) * 4);
        Tensor all = own(n * part);
        for (int round = 0; round < 3; ++round) {
          Tensor mine = all.narrow(0, me * part, part);
          mine.fill_(me + 10.0 * round);
          comm->all_gather(all, mine);
          test::expect_elements(
              all, [&](auto i) { return static_cast<double>(i / part) + 10.0 * round; }, "gather");
          Tensor sum = Tensor::empty({part}, {});
          comm->reduce_scatter(sum, all);
          test::expect_elements(
              sum, [&](auto) { return n * (me + 10.0 * round); }, "scatter");
          comm->barrier();
        }
      }
    }
  });
}
TEST_P(CommunicatorTest, Reduce) {
  on_ranks([](auto comm) { test::check_reduce(*comm); });
}
TEST_P(CommunicatorTest, Bits) {
  on_ranks([](auto comm) { test::check_bits(*comm); });
}
TEST_P(CommunicatorTest, Exchanges) {
  on_ranks([](auto comm) { test::check_exchanges(*comm); });
}
TEST_P(CommunicatorTest, Groups) {
  on_ranks([](auto comm) { test::check_groups(*comm); });
}
TEST_P(CommunicatorTest, Messages) {
  on_ranks([](auto comm) { test::check_messages(*comm); });
}
TEST_P(CommunicatorTest, Order) {
  on_ranks([](auto comm) { test::check_order(*comm); });
}
TEST_P(CommunicatorTest, OrderWithoutBackgroundThread) {
  on_ranks([](auto comm) { test::check_order(*comm); },
           {.timeout = std::chrono::seconds(60), .background_thread = false});
}
TEST_P(CommunicatorTest, Agree) {
  on_ranks([](auto comm) { test::check_agree(*comm); });
}

TEST_P(CommunicatorTest, NobodyLeavesABarrierBeforeAllHaveCome) {
  int n = ranks();
  std::atomic<int> arrived = 0;
  on_ranks([&](auto comm) {
    for (int round = 1; round <= 20; ++round) {
      ++arrived;
      comm->barrier();
      EXPECT_GE(arrived.load(), n * round);
      comm->barrier();
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, CommunicatorTest, test::few_ranks(), test::ranks_name);

TEST(Communicator, BackgroundThreadFinishesWithoutAnyWait) {
  on_ranks(2, [](auto comm) {
    Tensor x = ones({100000});
    Work work = comm->all_reduce_async(x);
    auto deadline = Clock::now() + std::chrono::seconds(60);
    while (!work.test() && Clock::now() < deadline) std::this_thread::yield();
    ASSERT_TRUE(work.test());
    test::expect_elements(
        x, [](auto) { return 2.0; }, "all_reduce");
  });
}

// Rank 1 never calls. Rank 0's error names the rank, the collective, its number, and the missing
// rank.
TEST(Communicator, AMissingRankIsAnErrorNotAHang) {
  std::string message;
  on_ranks(2,
           [&](auto comm) {
             comm->barrier();
             if (comm->rank() == 1) return;
             message = test::message_of<CommError>([&] { comm->all_reduce(ones({10})); });
             // The ranks stay out of step, so later calls fail at once with the same cause.
             EXPECT_EQ(test::message_of<CommError>([&] { comm->barrier(); }), message);
           },
           {.timeout = std::chrono::milliseconds(200)});
  EXPECT_EQ(message, "rank 0: all_reduce 1 gave up after 0.2 s of waiting for rank 1 to call it");
}

TEST(Communicator, AWaitMayBeShorterThanTheCollective) {
  std::atomic<bool> tried = false;
  on_ranks(2, [&](auto comm) {
    Tensor x = ones({10});
    if (comm->rank() == 1) {
      while (!tried) std::this_thread::yield();
      comm->all_reduce(x);
      return;
    }
    Work work = comm->all_reduce_async(x);
    std::string message =
        test::message_of<CommError>([&] { work.wait(std::chrono::milliseconds(50)); });
    EXPECT_THAT(message, HasSubstr("rank 0: all_reduce 0 was not complete after 0.05 s"));
    tried = true;
    work.wait();  // it continues nevertheless
    test::expect_elements(
        x, [](auto) { return 2.0; }, "all_reduce");
  });
}

// Either thread may poll: here the waiting one or the background thread.
TEST(Communicator, WhoWaitsWhileItIsDestroyedIsTold) {
  for (const bool background : {true, false}) {
    auto [world, options] = std::pair(thread_transports(2), CommunicatorOptions{});
    options.background_thread = background;
    auto comm = std::make_unique<Communicator>(world[0], options);
    const Tensor x = ones({10}), y = ones({10});
    Work first = comm->all_reduce_async(x), second = comm->all_reduce_async(y);
    std::vector<std::string> said(2);
    std::thread one([&] { said[0] = test::message_of<CommError>([&] { first.wait(); }); });
    std::thread two([&] { said[1] = test::message_of<CommError>([&] { second.wait(); }); });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    comm.reset();
    one.join();
    two.join();
    EXPECT_THAT(said, ::testing::Each("the communicator was destroyed"));
  }
}

TEST(Communicator, NoLimitIsNone) {
  on_ranks(2,
           [](auto comm) {
             if (comm->rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
             Work work = comm->all_reduce_async(ones({10}));
             work.wait(std::chrono::nanoseconds::max());
             comm->all_reduce(ones({10}));
           },
           {.timeout = std::chrono::nanoseconds::max()});
}

// Users know ranks by their numbers in the world, so messages of a group use them too.
TEST(Communicator, AGroupsErrorsNameTheWorldsRanks) {
  std::array<std::string, 4> said;
  on_ranks(4,
           [&](auto comm) {
             auto group = comm->new_group({3, 1, 2});
             comm->barrier();
             if (group == nullptr) return;
             EXPECT_EQ(group->rank_in_world(), comm->rank());
             if (comm->rank() == 2) return;
             said[static_cast<std::size_t>(comm->rank())] =
                 test::message_of<CommError>([&] { group->all_reduce(ones({10})); });
           },
           {.timeout = std::chrono::seconds(1)});
  EXPECT_EQ(said[3],
            "rank 3: all_reduce 0 of group {3, 1, 2} gave up after 1 s of waiting for rank 2 to "
            "call it");
  EXPECT_THAT(said[1], HasSubstr("rank 1: all_reduce 0 of group {3, 1, 2} gave up after 1 s of "
                                 "waiting for rank "));
  EXPECT_THAT(test::message_of<CommError>([] {
                on_ranks(3, [](auto comm) {
                  auto group = comm->new_group({2, 1});
                  if (group) group->all_reduce(ones({group->rank() == 0 ? 2 : 3}));
                });
              }),
              AnyOf(HasSubstr("rank 2 calls all_reduce 0 (sum, f32 [2]) where rank 1 calls"),
                    HasSubstr("rank 1 calls all_reduce 0 (sum, f32 [3]) where rank 2 calls")));
  using Call = std::function<void(Communicator&)>;  // with root 1, which is the world's rank 3
  for (const auto& [what, call] :
       {std::pair<std::string, Call>{"broadcast 0 (f32 [2], root 3)",
                                     [](Communicator& group) { group.broadcast(ones({2}), 1); }},
        {"reduce 0 (sum, f32 [2], root 3)",
         [](Communicator& group) { group.reduce(ones({2}), 1); }},
        {"gather 0 (root 3)", [](Communicator& group) {
           const Tensors parts(group.rank() == 1 ? 2 : 0, ones({2}));
           group.gather(parts, ones({2}), 1);
         }}}) {
    EXPECT_THAT(test::message_of<CommError>([&, &call = call] {
                  on_ranks(4, [&](auto comm) {
                    auto group = comm->new_group({2, 3});
                    if (!group) return;
                    group->rank() == 0 ? call(*group) : group->barrier();
                  });
                }),
                HasSubstr("rank 2 calls " + what));
  }
}

// A receive may be posted and tested long before its message arrives. Its timeout runs only while a
// caller waits.
TEST(Communicator, AMessagesTimeIsThatOfWaiting) {
  on_ranks(2,
           [](auto comm) {
             Tensor x = full({3}, comm->rank());
             if (comm->rank() == 1) {
               std::this_thread::sleep_for(std::chrono::milliseconds(2500));
               comm->all_reduce(ones({1}));
               return comm->send(x, 0);
             }
             Work work = comm->recv_async(x, 1);
             EXPECT_THAT(
                 test::message_of<CommError>([&] { work.wait(std::chrono::milliseconds(100)); }),
                 HasSubstr("was not complete after 0.1 s; it waits for rank 1 to send it"));
             std::this_thread::sleep_for(std::chrono::milliseconds(2400));
             EXPECT_FALSE(work.test());
             comm->all_reduce(ones({1}));
             work.wait();
             EXPECT_EQ(x[2].item(), 1);
             EXPECT_THAT(test::message_of<CommError>([&] { comm->recv(x, 1); }),
                         HasSubstr("gave up after 2 s of waiting for rank 1 to send it"));
           },
           {.timeout = std::chrono::seconds(2)});
}

// The sizes in bytes are equal.
TEST(Communicator, AMessageOfAnotherDtypeOrSizeIsAnError) {
  for (const auto& [sent, received, sentence] :
       {std::tuple{zeros({3}, {.dtype = f64}), zeros({3}, {.dtype = i64}),
                   "rank 1 sends 3 f64 where rank 0 receives 3 i64"},
        std::tuple{zeros({4}, {.dtype = u8}), zeros({4}, {.dtype = boolean}),
                   "rank 1 sends 4 u8 where rank 0 receives 4 bool"},
        std::tuple{zeros({2}), zeros({3}), "rank 1 sends 2 f32 where rank 0 receives 3 f32"},
        std::tuple{zeros({3}), zeros({2}), "rank 1 sends 3 f32 where rank 0 receives 2 f32"}}) {
    on_ranks(2, [&, &sent = sent, &received = received, &sentence = sentence](auto comm) {
      if (comm->rank() == 1) return comm->send(sent, 0, 7);
      EXPECT_EQ(test::message_of<CommError>([&] { comm->recv(received, 1, 7); }),
                concat("rank 0: recv from rank 1 with tag 7 failed: ", sentence));
    });
  }
}

// A receiver that throws may abandon its receive before the sender posts the elements. The sender
// would otherwise wait until its deadline.
TEST(Communicator, AnAbandonedReceiveTakesItsMessage) {
  const auto ranks = thread_transports(2);
  const int sent[2] = {1, 2};
  int abandoned = 0, received = 0;
  Request first = ranks[0]->recv(1, 7, &abandoned, sizeof abandoned);
  ranks[0]->abandon(first);
  Request second = ranks[0]->recv(1, 7, &received, sizeof received);
  for (const int& value : sent) {
    Request send = ranks[1]->send(0, 7, &value, sizeof value);
    EXPECT_TRUE(ranks[1]->test(send));
  }
  EXPECT_TRUE(ranks[0]->test(second));
  EXPECT_EQ(abandoned, 0);
  EXPECT_EQ(received, 2);
}

TEST(Communicator, AMessageThatBothSidesAbandonTakesNoOther) {
  const auto ranks = thread_transports(2);
  const int lost = 1, sent = 2;
  int abandoned = 0, received = 0;
  Request first_send = ranks[1]->send(0, 7, &lost, sizeof lost);
  ranks[1]->abandon(first_send);
  Request first = ranks[0]->recv(1, 7, &abandoned, sizeof abandoned);
  ranks[0]->abandon(first);
  Request second = ranks[0]->recv(1, 7, &received, sizeof received);
  Request send = ranks[1]->send(0, 7, &sent, sizeof sent);
  EXPECT_TRUE(ranks[1]->test(send));
  EXPECT_TRUE(ranks[0]->test(second));
  EXPECT_EQ(abandoned, 0);
  EXPECT_EQ(received, 2);
}

TEST(Communicator, MessagesOfOneTagKeepTheirOrder) {
  on_ranks(2, [](auto comm) {
    std::vector<Tensor> x;
    std::vector<Work> works;
    for (int i = 0; i < 10; ++i) {
      const DType dtype = i % 2 == 0 ? f32 : i64;
      x.push_back(full({i}, comm->rank() == 1 ? i : -1, {.dtype = dtype}));
      works.push_back(comm->rank() == 1 ? comm->send_async(x[i], 0, 3)
                                        : comm->recv_async(x[i], 1, 3));
    }
    for (Work& work : works) work.wait();
    for (int i = 1; i < 10; ++i) EXPECT_EQ(x[i][i - 1].item(), i);
  });
}

// All ranks of the group are present, and one gives up on a wait in shared memory.
TEST(Communicator, AWaitForAGroupInMemoryNamesNobodyWhoIsThere) {
  test::on_ranks_sharing_memory(3, [](auto comm) {
    auto group = comm->new_group({2, 1});
    if (group == nullptr) return;
    for (int i = 0; i < 20; ++i) {
      Tensor x = ones({3'000'000});
      Work work = group->all_reduce_async(x);
      try {
        work.wait(std::chrono::microseconds(500));
      } catch (const CommError& e) {
        EXPECT_THAT(e.what(),
                    AnyOf(HasSubstr("it waits for the others"), HasSubstr("it waits for rank 1 "),
                          HasSubstr("it waits for rank 2 "), HasSubstr("the thread that polls it"),
                          HasSubstr("the collectives issued before it")));
      }
      work.wait();
    }
  });
}

// The tensors need not be the same on two ranks; only sender and receiver must agree.
TEST(Communicator, ExchangesOfSeveralTypes) {
  on_ranks(3, [](auto comm) {
    const Tensors none(3);
    Tensors from(3), to(3);
    if (comm->rank() == 0) to = {Tensor(), ones({2}), full({4}, 7, {.dtype = i32})};
    if (comm->rank() == 1) from[0] = zeros({2});
    if (comm->rank() == 2) from[0] = zeros({4}, {.dtype = i32});
    comm->all_to_all(from, to);
    if (comm->rank() == 1) {
      EXPECT_EQ(from[0].to_vector<float>(), std::vector<float>(2, 1));
    }
    if (comm->rank() == 2) {
      EXPECT_EQ(from[0].to_vector<int>(), std::vector<int>(4, 7));
    }
  });
}

TEST(Communicator, ARankThatFailsEndsTheOthersWaits) {
  std::string message = test::message_of<CommError>([] {
    on_ranks(3, [](auto comm) {
      if (comm->rank() == 2) throw CommError("rank 2: out of paper");
      comm->all_reduce(ones({10}));
    });
  });
  EXPECT_EQ(message, "rank 2: out of paper");
}

TEST(Communicator, StridedTensorsAreRefused) {
  on_ranks(1, [](auto comm) {
    Tensor x = ones({4, 4}).as_view({4, 2}, {4, 2}, 0);
    EXPECT_THROW(comm->all_reduce(x), ShapeError);
    EXPECT_THROW(comm->all_reduce(Tensor()), CommError);
  });
}

TEST(Communicator, ChannelsLastIsDense) {
  on_ranks(2, [](auto comm) {
    Tensor x = Tensor::empty({2, 3, 4, 5}, {.format = MemoryFormat::channels_last});
    float* p = x.data_ptr<float>();
    for (int i = 0; i < 120; ++i) p[i] = static_cast<float>(i);
    comm->all_reduce(x);
    for (int i = 0; i < 120; ++i) EXPECT_EQ(p[i], 2.0f * static_cast<float>(i));
  });
}

TEST(Communicator, MpiAllReduceNeedsMpi) {
  std::string message = test::message_of<CommError>([] {
    on_ranks(2,
             [](auto comm) { comm->all_reduce_async(ones({1}), ReduceOp::sum, AllReduce::mpi); });
  });
  EXPECT_THAT(message, HasSubstr("the backend is thread"));
  EXPECT_THROW(parse_all_reduce("gloo"), CommError);
  for (int algorithm = 0; algorithm <= static_cast<int>(AllReduce::mpi_blocking); ++algorithm)
    EXPECT_EQ(static_cast<int>(parse_all_reduce(name_of(static_cast<AllReduce>(algorithm)))),
              algorithm);
  EXPECT_EQ(parse_all_reduce("mpi"), AllReduce::mpi);
}

}  // namespace
}  // namespace rondo::dist
