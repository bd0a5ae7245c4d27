// A call of a collective, as a value: its name, its signature, and when it is counted.

#include "dist/collectives/collective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "dist/collectives/communicator.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "tensor/creation.h"

namespace rondo::dist {
namespace {

using ::testing::HasSubstr;

TEST(Collective, HasAName) {
  test::on_ranks(3, [](std::shared_ptr<Communicator> comm) {
    const auto group = comm->new_group({2, 0});
    if (group == nullptr) return;
    const auto named = [&](Collective c) {
      c.about = "weights";
      c.group = group->group();
      c.validate(*group);
      c.sign(*group, 17);
      return c;
    };
    const Tensor x = ones({2, 3});
    const Collective sum = named(Collective::all_reduce(x, ReduceOp::sum, AllReduce::ring));
    EXPECT_EQ(sum.title(), "all_reduce 17 of weights of group {2, 0}");
    EXPECT_EQ(text_of(sum.signature), "all_reduce 17 (sum, f32 [2, 3], by ring)");
    // Roots and peers are named by their numbers in the world.
    EXPECT_EQ(text_of(named(Collective::broadcast(x, 0)).signature),
              "broadcast 17 (f32 [2, 3], root 2)");
    EXPECT_EQ(text_of(named(Collective::barrier()).signature), "barrier 17");
    EXPECT_EQ(text_of(named(Collective::all_gather(*group, {x.clone(), x.clone()}, x)).signature),
              "all_gather 17");
    if (group->rank() == 1) {
      EXPECT_EQ(named(Collective::send(x, 0, 3)).title(), "send to rank 2 with tag 3");
      EXPECT_EQ(named(Collective::recv(x, 0, 3)).title(), "recv from rank 2 with tag 3");
    }
  });
}

// A rank that catches the error stays in step with the other ranks.
TEST(Collective, IsCountedOnlyIfItIsValid) {
  test::on_ranks(2, [](std::shared_ptr<Communicator> comm) {
    const Tensor x = ones({4, 4}), strided = x.as_view({4, 2}, {4, 2}, 0);
    const std::uint64_t count = comm->collectives();
    const auto version = x.version();
    EXPECT_THROW(comm->all_reduce(strided), ShapeError);
    EXPECT_THROW(comm->all_gather_async(x, x), ShapeError);
    EXPECT_THROW(comm->reduce(x, 2), CommError);
    EXPECT_THROW(comm->all_reduce(x, ReduceOp::band), DTypeError);
    EXPECT_THAT(test::message_of<CommError>(
                    [&] { comm->all_reduce_async(x, ReduceOp::sum, AllReduce::shared); }),
                HasSubstr("shared memory was requested, but the ranks share none"));
    EXPECT_THAT(test::message_of<CommError>(
                    [&] { comm->all_reduce_async(x, ReduceOp::sum, AllReduce::nccl); }),
                HasSubstr("NCCL was requested, but the tensor is on the CPU"));
    EXPECT_EQ(comm->collectives(), count);
    EXPECT_EQ(x.version(), version);
    comm->rank() == 0 ? comm->send(x, 1) : comm->recv(x, 0);
    EXPECT_EQ(comm->collectives(), count);
    comm->all_reduce(x);
    comm->all_reduce_async(x).wait();
    EXPECT_EQ(comm->collectives(), count + 2);
    EXPECT_EQ(x[0][0].item(), 4);
  });
}

}  // namespace
}  // namespace rondo::dist
