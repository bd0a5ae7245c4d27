// Batch norm over ranks, against batch norm over all their images in one process.

#include "dist/data_parallel/sync_batch_norm.h"

#include <gtest/gtest.h>

#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "dist/collectives/functional.h"
#include "support/ddp_checks.h"
#include "support/ranks.h"
#include "support/sync_batch_norm_checks.h"

namespace rondo::dist {
namespace {

class SyncBatchNormTest : public ::testing::TestWithParam<int> {};

// With parts of different sizes, down to one image: outputs, gradients, running statistics.
TEST_P(SyncBatchNormTest, EqualsOneProcess) {
  test::on_ranks(GetParam(), [](std::shared_ptr<Communicator> comm) {
    const int n = comm->world_size(), r = comm->rank();
    test::SyncNormed whole, mine;
    whole.to(f64);
    mine.to(f64);
    test::set_weights(whole, 3);
    test::set_weights(mine, 3);
    EXPECT_EQ(convert_sync_batch_norm(mine, comm), n > 1 ? 2 : 0);
    for (int step = 0; step < 2; ++step) {
      Generator generator(static_cast<std::uint64_t>(step));
      const std::int64_t images = n * (n + 1) / 2 + 1;  // rank r has r + 1, the last one more
      const Tensor x = randn({images, 3, 4, 4}, {.dtype = f64}, generator),
                   weights = randn({images, 5}, {.dtype = f64}, generator);
      const std::int64_t first = r * (r + 1) / 2, count = r + 1 + (r + 1 == n ? 1 : 0);
      whole.zero_grad();
      mine.zero_grad();
      const Tensor want = whole(x), got = mine(x.narrow(0, first, count));
      sum(want * weights).backward();
      sum(got * weights.narrow(0, first, count)).backward();
      const Tensor part = want.narrow(0, first, count);
      auto a = part.contiguous().to_vector<double>(), b = got.to_vector<double>();
      for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-11);
      auto pa = whole.named_parameters(), pb = mine.named_parameters();
      for (std::size_t i = 0; i < pa.size(); ++i) {
        const Tensor g = pb[i].tensor.grad().clone();
        comm->all_reduce(g);  // the loss is the sum of the ranks' losses
        auto x1 = pa[i].tensor.grad().to_vector<double>(), x2 = g.to_vector<double>();
        for (std::size_t k = 0; k < x1.size(); ++k)
          ASSERT_NEAR(x1[k], x2[k], 1e-10) << pa[i].name << " in step " << step;
      }
    }
    auto ba = whole.named_buffers(), bb = mine.named_buffers();
    for (std::size_t i = 0; i < ba.size(); ++i) {
      auto x1 = ba[i].tensor.to_vector<double>(), x2 = bb[i].tensor.to_vector<double>();
      for (std::size_t k = 0; k < x1.size(); ++k) ASSERT_NEAR(x1[k], x2[k], 1e-11) << ba[i].name;
    }
    // In evaluation no rank waits for another.
    mine.eval();
    if (r == 0) mine(randn({2, 3, 4, 4}, {.dtype = f64}));
    comm->barrier();
  });
}

/// A rank without images takes part in the sums, and changes nothing.
TEST_P(SyncBatchNormTest, ARankMayHaveNoImages) {
  test::on_ranks(GetParam(), [](std::shared_ptr<Communicator> comm) {
    const bool is_last = comm->rank() + 1 == comm->world_size();
    test::SyncNormed whole, mine;
    test::set_weights(whole, 3);
    test::set_weights(mine, 3);
    convert_sync_batch_norm(mine, comm);
    Generator generator(1);
    const Tensor x = randn({3, 3, 4, 4}, {}, generator);
    const Tensor want = whole(x), got = mine(is_last ? x : x.narrow(0, 0, 0));
    sum(square(want)).backward();
    sum(square(got)).backward();
    if (is_last) {
      EXPECT_TRUE(test::all_close(got, want, 1e-5, 1e-5));
    }
    const auto buffers = whole.named_buffers(), own_buffers = mine.named_buffers();
    for (std::size_t i = 0; i < buffers.size(); ++i)
      EXPECT_TRUE(test::all_close(own_buffers[i].tensor, buffers[i].tensor, 1e-5, 1e-5));
    const auto parameters = whole.named_parameters(), own = mine.named_parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const Tensor g = own[i].tensor.grad().clone();
      comm->all_reduce(g);
      EXPECT_TRUE(test::all_close(g, parameters[i].tensor.grad(), 1e-4, 1e-4)) << own[i].name;
    }
  });
}

TEST_P(SyncBatchNormTest, UnderDdp) {
  test::on_ranks_sharing_memory(GetParam(),
                                [](auto comm) { test::check_sync_batch_norm_under_ddp(comm); });
}

TEST_P(SyncBatchNormTest, TheSumHasAGradient) {
  test::on_ranks(GetParam(), [](std::shared_ptr<Communicator> comm) {
    const double n = comm->world_size(), mine = 1.0 + comm->rank(), total = n * (n + 1) / 2;
    Tensor x = full({1}, mine, {.dtype = f64}).requires_grad_();
    Tensor y = all_reduce_sum(x, comm);  // every rank's loss is y^2: in total n y^2
    sum(y * y).backward();
    EXPECT_EQ(y.item<double>(), total);
    EXPECT_EQ(x.grad().item<double>(), 2 * n * total);
  });
}

TEST_P(SyncBatchNormTest, Extremes) {
  test::on_ranks(GetParam(), [](auto comm) { test::check_sync_batch_norm_extremes(comm); });
}

INSTANTIATE_TEST_SUITE_P(Ranks, SyncBatchNormTest, ::testing::Values(1, 2, 3, 4));

}  // namespace
}  // namespace rondo::dist
