// fit with accumulated gradients, a sharded optimizer, and uneven inputs, compared with one
// process. Ranks are threads; tests/mpi/trainer_test.cpp does the same over MPI.

#include "train/model_sync.h"

#include <gmock/gmock.h>

#include "nn/containers.h"
#include "support/files.h"
#include "support/ranks.h"
#include "support/trainer_checks.h"

namespace rondo {
namespace {

using testing::HasSubstr;
using Comm = std::shared_ptr<dist::Communicator>;

class ModelSync : public ::testing::TestWithParam<int> {};

TEST_P(ModelSync, AccumulatedBatchesAreOneLargeBatch) {
  for (const bool zero : {false, true})
    test::on_ranks(GetParam(), [=](Comm comm) { test::check_accumulate(comm, zero); });
}

TEST_P(ModelSync, UnevenRanksJoin) {
  for (const int accumulate : {1, 2})
    test::on_ranks(GetParam(), [=](Comm comm) { test::check_join(comm, accumulate); });
}

TEST_P(ModelSync, ZeroGoesOnFromTheMiddleOfAnEpoch) {
  const test::TemporaryFolder folder;
  test::on_ranks(GetParam(), [&](Comm comm) { test::check_zero_resumes(comm, folder.path()); });
}

// The number of steps in an epoch of 73 samples with batches of 24.
TEST_P(ModelSync, UnevenSamplesArePaddedOrDropped) {
  test::on_ranks(GetParam(), [&](Comm comm) {
    auto losses = [&](train::Uneven uneven) {
      return test::train_clouds({.batch_size = 24, .uneven = uneven, .comm = comm}, 73)
          .result.steps.loss.size();
    };
    EXPECT_EQ(losses(train::Uneven::pad), 4U);
    // One rank divides every number of samples.
    EXPECT_EQ(losses(train::Uneven::drop), comm->world_size() == 1 ? 4U : 3U);
  });
}

// A rank's own gradients are added up too.
TEST_P(ModelSync, AccumulatesBetweenAverages) {
  test::on_ranks(GetParam(), [&](Comm comm) {
    const train::FitOptions average{.sync = train::Sync::average, .averaging = {.every = 2}};
    train::FitOptions accumulated = average;
    accumulated.accumulate_grad_batches = 2;
    const auto whole =
        test::train_clouds({.epochs = 2, .batch_size = 48, .comm = comm, .fit = average}, 144);
    const auto parts =
        test::train_clouds({.epochs = 2, .batch_size = 24, .comm = comm, .fit = accumulated}, 144);
    test::expect_same(parts, whole);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, ModelSync, ::testing::Values(1, 2));

TEST(ModelSyncErrors, OptionsThatDoNotGoTogether) {
  auto refused = [](train::FitOptions fit) {
    return test::failure_of(
        [&] { test::train_clouds({.batch_size = 12, .comm = test::alone(), .fit = fit}, 24); });
  };
  EXPECT_THAT(refused({.accumulate_grad_batches = 0}), HasSubstr("accumulate_grad_batches is 0"));
  EXPECT_THAT(refused({.sync = train::Sync::average, .zero = true}), HasSubstr("fit: zero cannot"));
  EXPECT_THAT(refused({.comm_hook = "fp16", .zero = true}), HasSubstr("a comm hook"));
  EXPECT_THAT(refused({.zero = true, .amp = f16}), HasSubstr("use bf16"));
  EXPECT_THAT(refused({.accumulate_grad_batches = 2, .shards = 4}), HasSubstr("AnyModule"));
  EXPECT_THAT(refused({.ddp = {.unused = dist::Unused::zeros}, .zero = true}),
              HasSubstr("ZeroSharding: Unused::zeros"));
  auto joining = [](train::FitOptions fit) {
    return test::failure_of([&] {
      test::train_clouds(
          {.batch_size = 12, .uneven = train::Uneven::join, .comm = test::alone(), .fit = fit}, 24);
    });
  };
  test::on_ranks(4, [](Comm comm) {
    EXPECT_THAT(test::failure_of([&] {
                  test::train_clouds(
                      {.batch_size = 12, .uneven = train::Uneven::join, .comm = comm}, 3);
                }),
                HasSubstr("the 3 training samples are fewer than the 4 ranks"));
  });
  EXPECT_THAT(joining({.checkpoint_every = 5}), HasSubstr("fit: join needs DDP"));
  EXPECT_THAT(joining({.sync = train::Sync::average}), HasSubstr("fit: join needs"));
  EXPECT_THAT(joining({.shards = 4}), HasSubstr("by repeating samples"));
}

TEST(ModelSyncErrors, AShardedRunNeedsItsRanksAndANewOptimizer) {
  const test::TemporaryFolder folder;
  train::TrainerOptions options{.batch_size = 12,
                                .fit = {.zero = true, .checkpoint_dir = folder.path()}};
  test::on_ranks(2, [&](Comm comm) {
    train::TrainerOptions mine = options;
    mine.comm = comm;
    test::train_clouds(mine, 24);
  });
  options.comm = test::alone();
  options.fit.resume = true;
  EXPECT_THAT(test::failure_of([&] { test::train_clouds(options, 24); }),
              HasSubstr("was written by 2 ranks that had state of their own"));
  test::CloudNet net;
  net.to(f64);
  optim::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  train::Trainer trainer(net, sgd,
                         {.batch_size = 12,
                          .comm = test::alone(),
                          .threads = 1,
                          .out = nullptr,
                          .fit = {.zero = true}});
  trainer.fit(test::clouds(24), test::clouds(31));
  EXPECT_THAT(test::failure_of([&] { trainer.fit(test::clouds(24), test::clouds(31)); }),
              HasSubstr("an optimizer can be sharded only once"));
}

}  // namespace
}  // namespace rondo
