// Ranks that call different collectives, and the errors they get (dist/collectives/checked.h, and
// exchange.h over messages).

#include "dist/collectives/checked.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "dist/collectives/communicator.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "tensor/creation.h"

namespace rondo::dist {
namespace {

using test::on_ranks;
using ::testing::AnyOf;
using ::testing::HasSubstr;

// This includes calls in which every message has the expected size.
TEST(Checked, RanksThatDoNotMeanTheSameAreTold) {
  using Call = std::function<void(Communicator&)>;
  const Call sum = [](auto& comm) { comm.all_reduce(ones({100})); };
  auto told = [&](int n, const Call& odd) {
    return test::message_of<CommError>([&] {
      on_ranks(n, [&](auto comm) {
        comm->barrier();
        (comm->rank() == n - 1 ? odd : sum)(*comm);
        comm->barrier();
      });
    });
  };
  const std::string one = "all_reduce 1 (sum, f32 [100])";
  for (int n : {2, 3}) {
    // Either neighbour may be the first to notice.
    auto either = [&](const std::string& other) {
      const std::string last = std::to_string(n - 1), before = std::to_string(n - 2);
      return AnyOf(
          HasSubstr("rank " + before + " calls " + one + " where rank " + last + " calls " + other),
          HasSubstr("rank " + last + " calls " + other + " where rank 0 calls " + one));
    };
    EXPECT_THAT(told(n, [](auto& comm) { comm.all_reduce(ones({100}), ReduceOp::max); }),
                either("all_reduce 1 (max, f32 [100])"));
    EXPECT_THAT(told(n, [](auto& comm) { comm.all_reduce(ones({100}, {.dtype = i32})); }),
                either("all_reduce 1 (sum, i32 [100])"));
    EXPECT_THAT(told(n, [](auto& comm) { comm.all_reduce(ones({50})); }),
                either("all_reduce 1 (sum, f32 [50])"));
    EXPECT_THAT(told(n, [](auto& comm) { comm.all_reduce(ones({0})); }),
                either("all_reduce 1 (sum, f32 [0])"));
    EXPECT_THAT(told(n, [](auto& comm) { comm.reduce(ones({100}), 1); }),
                either("reduce 1 (sum, f32 [100], root 1)"));
    EXPECT_THAT(told(n, [](auto& comm) { comm.broadcast(ones({100}), 1); }),
                either("broadcast 1 (f32 [100], root 1)"));
    EXPECT_THAT(told(n, [](auto& comm) { comm.barrier(); }), either("barrier 1"));
    EXPECT_THAT(told(n, [](auto& comm) { comm.gather({}, ones({3}), 0); }),
                either("gather 1 (root 0)"));
    EXPECT_THAT(told(n,
                     [](auto& comm) {
                       comm.all_reduce(ones({20, 5}));
                     }),
                either("all_reduce 1 (sum, f32 [20, 5])"));
  }
}

// Rank 2 uses another op. Its left neighbour calls late, its right neighbour sends its data before
// it gets the error, and rank 0's neighbours agree with rank 0. Still no rank may get a result.
TEST(Checked, NobodyGetsAResultOfAMismatch) {
  for (AllReduce algorithm : {AllReduce::recursive_doubling, AllReduce::direct, AllReduce::tree,
                              AllReduce::halving_doubling, AllReduce::pairwise, AllReduce::ring}) {
    std::atomic<int> results = 0;
    on_ranks(4,
             [&](auto comm) {
               const int late[] = {0, 150, 50, 0};
               std::this_thread::sleep_for(std::chrono::milliseconds(late[comm->rank()]));
               const ReduceOp op = comm->rank() == 2 ? ReduceOp::max : ReduceOp::sum;
               try {
                 comm->all_reduce_async(ones({10}), op, algorithm).wait();
                 ++results;
               } catch (const CommError&) {
               }
             },
             {.timeout = std::chrono::milliseconds(400)});
    EXPECT_EQ(results, 0) << name_of(algorithm);
  }
}

// This keeps the messages of one collective apart from those of another.
TEST(Checked, DifferentCollectivesHaveDifferentTags) {
  Signature one("all_reduce", 7);
  one.set_shape({1, 1, 1, 1, 1, 1, 2, 3});
  std::vector<Signature> others(7, one);
  others[0] = Signature("broadcast", 7);
  others[0].set_shape({1, 1, 1, 1, 1, 1, 2, 3});
  others[1].sequence = 8;
  others[2].root = 1;
  others[3].dtype = 1;
  others[4].op = 1;
  others[5].algorithm = 1;
  others[6].set_shape({1, 1, 1, 1, 1, 1, 2});
  for (std::int64_t last = 4; last < 40; ++last) {
    others.push_back(one);
    others.back().set_shape({1, 1, 1, 1, 1, 1, 2, last});
  }
  for (const Signature& other : others) {
    EXPECT_NE(other, one);
    EXPECT_NE(other.tag(), one.tag()) << text_of(other);
    EXPECT_TRUE(other.tag() >= 0 && other.tag() < 16384);
  }
}

// One side sends a tensor and the other expects none: an error, and no side loses data or hangs.
TEST(Checked, NothingIsNotTakenForSomething) {
  auto told = [](std::int64_t sent, std::int64_t wanted) {
    return test::message_of<CommError>([=] {
      on_ranks(2, [=](auto comm) {
        Tensors parts;
        if (comm->rank() == 0) parts = {ones({2}), ones({wanted})};
        comm->gather(parts, ones({comm->rank() == 0 ? 2 : sent}), 0);
        if (comm->rank() == 1) comm->barrier();  // a sender may already have finished
      });
    });
  };
  EXPECT_THAT(told(4, 0), HasSubstr("rank 1 sends f32 [4] where rank 0 wants f32 [0]"));
  EXPECT_THAT(told(0, 4), HasSubstr("rank 1 sends f32 [0] where rank 0 wants f32 [4]"));
  EXPECT_THAT(test::message_of<CommError>([] {
                on_ranks(2, [](auto comm) {
                  const Tensors none(2), some = {ones({3}), ones({3})};
                  const Tensors mine = {ones({3}), Tensor()};
                  const Tensors room = {zeros({3}), Tensor()};
                  if (comm->rank() == 0) return comm->all_to_all(room, mine);
                  comm->all_to_all({zeros({3}), zeros({3})}, some);
                });
              }),
              AnyOf(HasSubstr("rank 0 sends nothing where rank 1 wants f32 [3]"),
                    HasSubstr("rank 1 sends f32 [3] where rank 0 wants nothing")));
  // An undefined and an empty tensor both mean "nothing".
  on_ranks(2, [](auto comm) {
    const Tensors none(2), empty(2, ones({0, 3}));
    comm->all_to_all(comm->rank() == 0 ? none : empty, comm->rank() == 0 ? empty : none);
  });
}

TEST(Checked, RanksThatMeanAnotherRootOrTypeAreTold) {
  using Call = std::function<void(Communicator&)>;
  auto told = [](const Call& call) {
    return test::message_of<CommError>([&] { on_ranks(2, [&](auto comm) { call(*comm); }); });
  };
  auto own_parts = [](Communicator& comm) {
    Tensors parts;
    for (int r = 0; r < comm.world_size(); ++r) parts.push_back(ones({3}));
    return parts;
  };
  EXPECT_THAT(told([&](auto& comm) { comm.gather(own_parts(comm), ones({3}), comm.rank()); }),
              HasSubstr("calls gather 0 (root "));
  EXPECT_THAT(told([&](auto& comm) { comm.scatter(ones({3}), own_parts(comm), comm.rank()); }),
              HasSubstr("calls scatter 0 (root "));
  EXPECT_THAT(told([](auto& comm) {
                comm.broadcast(ones({100}, {.dtype = comm.rank() == 0 ? f32 : i32}));
              }),
              HasSubstr("(i32 [100], root 0)"));
  // The same number of bytes with another dtype.
  EXPECT_THAT(told([&](auto& comm) {
                const auto own = [&] { return ones({3}, {.dtype = comm.rank() == 0 ? f32 : i32}); };
                comm.all_to_all({own(), own()}, {own(), own()});
              }),
              AnyOf(HasSubstr("rank 0 sends f32 [3] where rank 1 wants i32 [3]"),
                    HasSubstr("rank 1 sends i32 [3] where rank 0 wants f32 [3]")));
  EXPECT_THAT(told([](auto& comm) {
                const Tensors parts = {ones({2, 3}), ones({comm.rank() == 0 ? 3 : 2, 3})};
                if (comm.rank() == 0) return comm.gather(parts, ones({2, 3}), 0);
                comm.gather({}, parts[1], 0);
              }),
              HasSubstr("rank 1 sends f32 [2, 3] where rank 0 wants f32 [3, 3]"));
}

}  // namespace
}  // namespace rondo::dist
