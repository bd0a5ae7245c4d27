// The collectives over MPI, with 1 to 4 ranks: the same checks as over threads.

#include "support/collectives.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "dist/collectives/tuner.h"
#include "support/collective_matrix.h"
#include "support/mpi_main.h"
#include "tensor/creation.h"

namespace rondo::dist {
namespace {

using test::world;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Mpi, InMemory) { test::check_all_reduce(*world(), AllReduce::shared); }
TEST(Mpi, Ring) { test::check_all_reduce(*world(), AllReduce::ring); }
TEST(Mpi, EveryAlgorithm) {
  for (AllReduce algorithm :
       {AllReduce::direct, AllReduce::tree, AllReduce::recursive_doubling,
        AllReduce::halving_doubling, AllReduce::pairwise, AllReduce::hierarchical})
    test::check_all_reduce(*world(), algorithm);
}
TEST(Mpi, Native) { test::check_all_reduce(*world(), AllReduce::mpi); }
TEST(Mpi, NativeBlocking) { test::check_all_reduce(*world(), AllReduce::mpi_blocking); }
TEST(Mpi, Broadcast) { test::check_broadcast(*world()); }
TEST(Mpi, GatherAndScatter) { test::check_gather_and_scatter(*world()); }
TEST(Mpi, Reduce) { test::check_reduce(*world()); }
TEST(Mpi, Bits) { test::check_bits(*world()); }
TEST(Mpi, NativeBits) {
  Tensor x = full({3}, 1 << world()->rank(), {.dtype = i32});
  world()->all_reduce_async(x, ReduceOp::bor, AllReduce::mpi).wait();
  EXPECT_EQ(x[2].item<int>(), (1 << world()->world_size()) - 1);
}
// MPI's own min and max may lose a NaN, so rondo uses its own.
TEST(Mpi, NanWinsInMinAndMax) {
  for (const int bad : {0, world()->world_size() - 1}) {
    for (const ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
      for (const AllReduce algorithm : {AllReduce::automatic, AllReduce::ring, AllReduce::mpi}) {
        const Tensor x = full({3}, world()->rank() == bad ? NAN : 1.0);
        world()->all_reduce_async(x, op, algorithm).wait();
        EXPECT_TRUE(std::isnan(x[1].item<double>()))
            << bad << ' ' << op << ' ' << name_of(algorithm);
      }
    }
  }
}
TEST(Mpi, EveryCollectiveOpAndDtype) { test::check_every_collective(*world()); }
TEST(Mpi, Exchanges) { test::check_exchanges(*world()); }
TEST(Mpi, RandomLayouts) { test::check_layouts(*world(), 200); }
TEST(Mpi, Groups) { test::check_groups(*world()); }
TEST(Mpi, Messages) { test::check_messages(*world()); }
TEST(Mpi, Order) { test::check_order(*world()); }
TEST(Mpi, Agree) { test::check_agree(*world()); }

TEST(Mpi, LooksForNoNetworksOnOneMachine) {
  if (std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr) GTEST_SKIP() << "not started by Open MPI";
  world();
  const bool is_chosen =
      std::getenv("OMPI_MCA_pml") != nullptr || std::getenv("OMPI_MCA_mtl") != nullptr;
  EXPECT_TRUE(is_chosen);  // by rondo or by the user
}
// Between machines, messages of the two directions do not wait for each other.
TEST(Mpi, TcpGoesBothWays) {
  world();
  const char* flags = std::getenv("OMPI_MCA_btl_tcp_flags");
  ASSERT_NE(flags, nullptr);  // rondo's or the user's setting
}

// The next one is for dtypes that MPI lacks. 16-bit sums use neither of the two.
TEST(Mpi, WhereMpisOwnIsTheFastestTheNextOneIsKnownToo) {
  const std::string file = ::testing::TempDir() + "rondo_mpi_tuner_" +
                           world()->broadcast_bytes(std::to_string(getpid()));
  if (world()->rank() == 0)
    std::ofstream(file) << "mpi " << world()->world_size() << " 64 mpi tree\n";
  world()->barrier();
  auto tuned = init({.backend = "mpi",
                     .share_memory = false,
                     .communicator = {.tune = true, .tuning_file = file}});
  const Tuner tuner(*tuned, file);
  EXPECT_EQ(tuner.fastest(64), AllReduce::mpi);
  EXPECT_EQ(tuner.fastest(64, [](AllReduce algorithm) { return algorithm != AllReduce::mpi; }),
            AllReduce::tree);
  tuned->tune(64);
  for (const DType dtype : {f32, bf16}) {
    Tensor x = full({20}, 1.0, {.dtype = dtype});
    tuned->all_reduce(x);
    test::expect_elements(
        x, [](auto) { return world()->world_size(); }, "a tuned all_reduce");
  }
  tuned->barrier();
  if (world()->rank() == 0) std::filesystem::remove(file);
}

TEST(Mpi, LargeByEveryAlgorithm) {
  for (AllReduce algorithm : {AllReduce::ring, AllReduce::automatic, AllReduce::halving_doubling,
                              AllReduce::pairwise, AllReduce::hierarchical}) {
    // Many blocks of the ring and of stages; data that are read from private memory.
    for (std::int64_t count : {300'007, 5'000'011}) {
      Tensor x =
          test::filled(f32, count, [](auto i) { return test::value_at(world()->rank(), i); });
      world()->all_reduce_async(x, ReduceOp::sum, algorithm).wait();
      test::expect_elements(
          x,
          [](auto i) {
            double sum = 0;
            for (int r = 0; r < world()->world_size(); ++r) sum += test::value_at(r, i);
            return sum;
          },
          "sum");
    }
  }
}

TEST(Mpi, TwoCommunicatorsDoNotMixTheirMessages) {
  auto other = init({.backend = "mpi"});
  Tensor a = full({1000}, 1.0), b = full({1000}, 2.0);
  // Even and odd ranks issue them in different orders. This is legal, because each communicator has
  // its own order.
  bool even = world()->rank() % 2 == 0;
  Work first = even ? world()->all_reduce_async(a) : other->all_reduce_async(b);
  Work second = even ? other->all_reduce_async(b) : world()->all_reduce_async(a);
  first.wait();
  second.wait();
  int n = world()->world_size();
  test::expect_elements(
      a, [&](auto) { return 1.0 * n; }, "first communicator");
  test::expect_elements(
      b, [&](auto) { return 2.0 * n; }, "second communicator");
}

/// The errors of all ranks but the last, if only the last did not call their first all-reduce
/// within a second. Over messages its right neighbour notices it and tells the others.
std::string sentence_about_the_last() {
  const int r = world()->rank(), last = world()->world_size() - 1;
  return concat("rank ", r, ": all_reduce 0 ",
                r == 0 ? concat("gave up after 1 s of waiting for rank ", last, " to call it")
                       : concat("failed: rank ", last, " has not called all_reduce 0 for 1 s"));
}

// The last rank is late. On the others the deadline expires, and one message has all details. The
// test uses its own communicator, which is out of step afterwards.
TEST(Mpi, DeadlineNamesRankAndCollective) {
  int n = world()->world_size(), r = world()->rank();
  if (n < 2) return;
  auto hasty = init({.backend = "mpi",
                     .share_memory = false,
                     .communicator = {.timeout = std::chrono::seconds(1)}});
  if (r != n - 1) {
    std::string message;
    try {
      hasty->all_reduce_async(ones({100}), ReduceOp::sum, AllReduce::ring).wait();
    } catch (const CommError& e) {
      message = e.what();
    }
    EXPECT_EQ(message, sentence_about_the_last());
  }
  world()->barrier();
}

// In shared memory every rank notices it itself.
TEST(Mpi, ADeadlineInMemoryNamesTheRankThatIsMissing) {
  int n = world()->world_size(), r = world()->rank();
  if (n < 2) return;
  auto hasty = init({.backend = "mpi", .communicator = {.timeout = std::chrono::seconds(1)}});
  if (r != n - 1) {
    std::string message;
    try {
      hasty->all_reduce(ones({100}));
    } catch (const CommError& e) {
      message = e.what();
    }
    // The rank whose deadline expires first tells the others.
    EXPECT_THAT(message,
                AllOf(StartsWith(concat("rank ", r, ": all_reduce 0 ")),
                      EndsWith(concat("all_reduce 0 gave up after 1 s of waiting for rank ", n - 1,
                                      " to call it"))));
  }
  world()->barrier();
}

// The same for MPI's own all-reduce, which the last rank calls after the others have given up.
TEST(Mpi, NativeHasADeadlineToo) {
  int n = world()->world_size(), r = world()->rank();
  if (n < 2) return;
  auto hasty =
      init({.backend = "mpi",
            .share_memory = false,
            .communicator = {.all_reduce = AllReduce::mpi, .timeout = std::chrono::seconds(1)}});
  std::string message;
  if (r == n - 1) world()->barrier();
  try {
    hasty->all_reduce(ones({100}));
  } catch (const CommError& e) {
    message = e.what();
  }
  if (r == n - 1) return;
  EXPECT_EQ(message, sentence_about_the_last());
  world()->barrier();
}

}  // namespace
}  // namespace rondo::dist
