// Sums of bf16 and f16 are computed in f32 and rounded once, by every algorithm.

#include "dist/collectives/sums.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/collectives.h"
#include "support/ranks_test.h"
#include "tensor/creation.h"

namespace rondo::dist {
namespace {

using SumsTest = test::RanksTest;
INSTANTIATE_TEST_SUITE_P(Ranks, SumsTest, test::few_ranks(), test::ranks_name);

/// Every algorithm over messages, and shared memory if there is any.
constexpr AllReduce algorithms[] = {AllReduce::automatic,
                                    AllReduce::ring,
                                    AllReduce::tree,
                                    AllReduce::direct,
                                    AllReduce::recursive_doubling,
                                    AllReduce::halving_doubling,
                                    AllReduce::pairwise,
                                    AllReduce::hierarchical};

// 4 × 30,000 overflows in f16, but its average does not; with every algorithm. In f32 all of it is
// exact.
TEST_P(SumsTest, AnAverageOfF16NeedNotHaveRoomForTheSum) {
  on_ranks([](auto comm) {
    const int n = comm->world_size();
    const TensorOptions half{.dtype = f16};
    const auto mean = [](auto) { return 30'000.0; };
    for (const std::int64_t count : {3, 40'000}) {
      for (const AllReduce algorithm : algorithms) {
        const Tensor x = full({count}, 30'000, half);
        comm->all_reduce_async(x, ReduceOp::avg, algorithm).wait();
        test::expect_elements(x, mean, name_of(algorithm));
      }
      const Tensor all = full({count * n}, 30'000, half), out = Tensor::empty({count}, half);
      comm->reduce_scatter(out, all, ReduceOp::avg);
      test::expect_elements(out, mean, "reduce_scatter");
      const Tensor y = full({count}, 30'000, half);
      comm->reduce(y, 0, ReduceOp::avg);
      test::expect_elements(y, mean, "reduce");
    }
  });
}
/// Numbers that use all bits of the dtype, with different exponents. A sum of two is rounded if it
/// is kept in 16 bits, while in f32 all sums are exact.
void check_rounding(Communicator& comm) {
  const int n = comm.world_size(), me = comm.rank();
  for (const DType dtype : {bf16, f16}) {
    const auto mantissa = dtype == bf16 ? 128 : 1024;
    const auto mine = [=](int r, std::int64_t i) {
      return std::ldexp(static_cast<double>(mantissa + (37 * i + 11 * r) % mantissa),
                        static_cast<int>(i + r) % 3);
    };
    const auto rounded = [=](double x) {
      const auto exact = static_cast<float>(x);
      return static_cast<double>(dtype == bf16 ? static_cast<float>(BFloat16(exact))
                                               : static_cast<float>(Half(exact)));
    };
    const auto sum = [=](std::int64_t i) {
      double all = 0;
      for (int r = 0; r < n; ++r) all += mine(r, i);
      return rounded(all);
    };
    const auto of_rank = [=](std::int64_t i) { return mine(me, i); };
    const auto product = [=](std::int64_t i) {
      double all = 1;
      for (int r = 0; r < n; ++r) all *= static_cast<double>(3 + (i + 2 * r) % 5);
      return rounded(all);
    };
    for (const std::int64_t count : {100, 70'000}) {
      for (const AllReduce algorithm : algorithms) {
        const Tensor x = test::filled(dtype, count, of_rank);
        comm.all_reduce_async(x, ReduceOp::sum, algorithm).wait();
        test::expect_elements(x, sum, name_of(algorithm));
        const Tensor y = test::filled(
            dtype, count, [=](auto i) { return static_cast<double>(3 + (i + 2 * me) % 5); });
        comm.all_reduce_async(y, ReduceOp::prod, algorithm).wait();
        test::expect_elements(y, product, name_of(algorithm));
      }
      const Tensor all = test::filled(dtype, count * n, of_rank);
      for (const bool in_place : {false, true}) {
        const Tensor x = all.clone();
        const Tensor out =
            in_place ? x.narrow(0, 0, count) : Tensor::empty({count}, {.dtype = dtype});
        comm.reduce_scatter(out, x);
        test::expect_elements(
            out, [&](auto i) { return sum(me * count + i); }, "reduce_scatter");
      }
      const Tensor y = test::filled(dtype, count, of_rank);
      comm.reduce(y, n - 1);
      if (me == n - 1) test::expect_elements(y, sum, "reduce");
    }
  }
}

TEST_P(SumsTest, AreRoundedOnce) {
  on_ranks([](auto comm) { check_rounding(*comm); });
}

// Nodes of three ranks, for which two levels send less, and nodes with fewer ranks.
TEST(Sums, AreRoundedOnceInLevels) {
  for (const std::vector<int>& node_of : {std::vector{0, 0, 0, 1, 1}, std::vector{0, 0, 1, 1, 2}})
    test::on_ranks(5, [](auto comm) { check_rounding(*comm); },
                   {.timeout = std::chrono::seconds(60), .node_of = node_of});
}

}  // namespace
}  // namespace rondo::dist
