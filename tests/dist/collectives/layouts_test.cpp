// Collectives of tensors with different layouts, or that share memory.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/shape.h"
#include "dist/collectives/communicator.h"
#include "support/collectives.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "support/support.h"

namespace rondo::dist {
namespace {

// Elements arrive at the same indices, whatever the layouts of both sides.
TEST(Layouts, ChannelsLastTensorsKeepTheirElementsInPlace) {
  test::on_ranks(2, [](std::shared_ptr<Communicator> comm) {
    const int r = comm->rank();
    const auto image = [](int rank) {
      return (arange(24).to(f32) + 100.0 * rank).reshape({1, 2, 3, 4});
    };
    const Tensor plain = image(r), nhwc = contiguous(plain, MemoryFormat::channels_last);
    const Tensor both = cat({image(0), image(1)});
    Tensor out = zeros({2, 2, 3, 4});
    comm->all_gather(out, nhwc);
    EXPECT_TRUE(test::identical(out, both));
    Tensor half = zeros({1, 2, 3, 4});
    comm->reduce_scatter(half, contiguous(both, MemoryFormat::channels_last));
    EXPECT_TRUE(test::identical(half, image(r) * 2.0));
    const auto room = [] { return Tensors{zeros({1, 2, 3, 4}), zeros({1, 2, 3, 4})}; };
    // Rank 1's tensor is channels_last, rank 0's is not.
    const Tensor& mine = r == 1 ? nhwc : plain;
    Tensors parts = room();
    comm->all_gather(parts, mine);
    for (int k = 0; k < 2; ++k) EXPECT_TRUE(test::identical(parts[k], image(k)));
    parts = room();
    comm->gather(r == 0 ? parts : Tensors(), mine);
    if (r == 0) {
      EXPECT_TRUE(test::identical(parts[1], image(1)));
    }
    Tensor x = zeros({1, 2, 3, 4});
    comm->scatter(x, r == 0 ? Tensors{nhwc, nhwc} : Tensors());
    EXPECT_TRUE(test::identical(x, image(0)));
    parts = room();
    comm->all_to_all(parts, {mine, mine});
    for (int k = 0; k < 2; ++k) EXPECT_TRUE(test::identical(parts[k], image(k)));
    if (r == 0) {
      comm->send(nhwc, 1);
    } else {
      comm->recv(x, 0);
      EXPECT_TRUE(test::identical(x, image(0)));
    }
    // A layout that all ranks share is sent and received unchanged.
    const Tensor sum = nhwc.clone();
    comm->all_reduce(sum);
    EXPECT_TRUE(test::identical(sum.contiguous(), image(0) + image(1)));
    comm->broadcast(sum);
    EXPECT_TRUE(sum.is_contiguous(MemoryFormat::channels_last));
    for (const char* what : {"all_gather", "recv", "all_to_all"}) {
      const std::string said = test::message_of<ShapeError>([&] {
        if (what == std::string("all_gather")) comm->all_gather({nhwc.clone(), nhwc.clone()}, mine);
        if (what == std::string("recv")) comm->recv(nhwc, 1 - r);
        if (what == std::string("all_to_all"))
          comm->all_to_all({nhwc.clone(), nhwc.clone()}, {mine, mine});
      });
      EXPECT_THAT(said, ::testing::HasSubstr("receive into a contiguous tensor")) << what;
    }
  });
}

TEST(Layouts, RandomTensorsKeepTheirElementsInPlace) {
  const int cases = 200;
  for (const int ranks : {1, 2, 3}) {
    const auto check = [&](auto comm) { test::check_layouts(*comm, cases, cases); };
    test::on_ranks(ranks, check);
    test::on_ranks_sharing_memory(ranks, check);
  }
}

TEST(Layouts, RanksCompareHowATensorLies) {
  for (bool is_broadcast : {false, true}) {
    EXPECT_THAT(test::message_of<CommError>([&] {
                  test::on_ranks(2, [&](std::shared_ptr<Communicator> comm) {
                    const auto format =
                        comm->rank() == 1 ? MemoryFormat::channels_last : MemoryFormat::contiguous;
                    const Tensor x = zeros({2, 3, 4, 5}, {.format = format});
                    is_broadcast ? comm->broadcast(x) : comm->all_reduce(x);
                  });
                }),
                ::testing::HasSubstr("f32 [2, 3, 4, 5] channels_last"));
  }
}

TEST(Layouts, ListsThatOverlapAreRefused) {
  test::on_ranks(2, [](std::shared_ptr<Communicator> comm) {
    const Tensors x = {zeros({4}), zeros({4})};
    const auto said = [&](const Tensors& from, const Tensors& to) {
      return test::message_of<ShapeError>([&] { comm->all_to_all(from, to); });
    };
    const std::string why = "all_to_all: a tensor that is written shares memory with another one";
    EXPECT_THAT(said(x, x), ::testing::HasSubstr(why));
    EXPECT_THAT(said({x[0], x[0]}, {ones({4}), ones({4})}), ::testing::HasSubstr(why));
    const Tensor line = zeros({6});
    EXPECT_THAT(said({line.narrow(0, 0, 4), zeros({4})}, {ones({4}), line.narrow(0, 2, 4)}),
                ::testing::HasSubstr(why));
    // A part that stays on its rank may keep its memory.
    Tensors rows = {zeros({4}), zeros({4})};
    rows[static_cast<std::size_t>(comm->rank())].fill_(1 + comm->rank());
    comm->all_gather(rows, rows[static_cast<std::size_t>(comm->rank())]);
    EXPECT_EQ(rows[1][0].item(), 2);
    // x may be another part of the same tensor, even one that overlaps the rank's own part.
    const std::int64_t n = 100'000;
    const Tensor out = arange(2 * n) + comm->rank();
    comm->all_gather(out, out.narrow(0, n / 2, n));
    EXPECT_TRUE(test::identical(out.narrow(0, 0, n), arange(n) + n / 2));
    EXPECT_TRUE(test::identical(out.narrow(0, n, n), arange(n) + n / 2 + 1));
  });
}

}  // namespace
}  // namespace rondo::dist
