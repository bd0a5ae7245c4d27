// fit with accumulated gradients, a sharded optimizer, and uneven inputs, compared with one
// process. Ranks are threads; tests/mpi/trainer_test.cpp does the same over MPI.

#include "train/gradient_sync.h"

#include <gmock/gmock.h>
#include <omp.h>

#include "nn/containers.h"
#include "nn/linear.h"
#include "optim/grad_scaler.h"
#include "optim/sgd.h"
#include "support/files.h"
#include "support/fill.h"
#include "support/ranks.h"
#include "support/trainer_checks.h"
#include "tensor/creation.h"
#include "tensor/random.h"
#include "train/fit.h"
#include "train/step.h"

namespace rondo {
namespace {

using testing::HasSubstr;
using Comm = std::shared_ptr<dist::Communicator>;

class GradientSyncTest : public ::testing::TestWithParam<int> {};

TEST_P(GradientSyncTest, AccumulatedBatchesAreOneLargeBatch) {
  for (const bool zero : {false, true})
    test::on_ranks(GetParam(), [=](Comm comm) { test::check_accumulate(comm, zero); });
}

TEST_P(GradientSyncTest, UnevenRanksJoin) {
  for (const int accumulate : {1, 2})
    test::on_ranks(GetParam(), [=](Comm comm) { test::check_join(comm, accumulate); });
}

TEST_P(GradientSyncTest, ZeroGoesOnFromTheMiddleOfAnEpoch) {
  const test::TemporaryFolder folder;
  test::on_ranks(GetParam(), [&](Comm comm) { test::check_zero_resumes(comm, folder.path()); });
}

// The number of steps in an epoch of 73 samples with batches of 24.
TEST_P(GradientSyncTest, UnevenSamplesArePaddedOrDropped) {
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
TEST_P(GradientSyncTest, AccumulatesBetweenAverages) {
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

INSTANTIATE_TEST_SUITE_P(Ranks, GradientSyncTest, ::testing::Values(1, 2));

TEST(GradientSyncErrors, OptionsThatDoNotGoTogether) {
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

TEST(GradientSyncErrors, AStepHasOneStrategy) {
  test::on_ranks(1, [](Comm comm) {
    nn::Sequential model(nn::Linear(2, 2));
    optim::SGD sgd(model.parameters(), {.lr = 0.1});
    dist::DistributedDataParallel ddp(model, comm);
    const auto sync = train::no_sync(0);
    EXPECT_THAT(
        test::failure_of([&] {
          train::TrainStep({.model = model, .optimizer = sgd, .ddp = &ddp, .sync = sync.get()});
        }),
        HasSubstr("ddp and sync cannot be combined"));
    EXPECT_THAT(test::failure_of([&] { sync->join([] {}); }), HasSubstr("join needs gradients"));
  });
}

/// A strategy of one's own: TrainStep calls it, and takes the losses that it gives.
TEST(GradientSyncStrategy, CanBeWrittenOutside) {
  struct Halved final : train::GradientSync {
    std::vector<double> losses;
    int steps = 0;
    Tensor backward(const Step& step) override {
      const Tensor loss = step.loss(step.batches[0]);
      step.zero_grad();
      (step.scaled(loss) * 0.5).backward();
      losses.push_back(loss.item());
      return {};
    }
    void after_step() override { ++steps; }
    std::vector<double> take_losses(bool) override { return std::exchange(losses, {}); }
  };
  const auto weights = [](double lr, train::GradientSync* sync) {
    manual_seed(1);
    nn::Sequential model(nn::Linear(3, 2));
    optim::SGD sgd(model.parameters(), {.lr = lr});
    train::TrainStep step({.model = model, .optimizer = sgd, .sync = sync});
    step({randn({4, 3}), zeros({4}, {.dtype = i64})}, {});
    EXPECT_EQ(step.take_losses(true).size(), 1U);
    return model.parameters()[0].to_vector<float>();
  };
  Halved halved;
  EXPECT_EQ(weights(0.5, &halved), weights(0.25, nullptr));
  EXPECT_EQ(halved.steps, 1);
}

/// The gradients of a frozen part that still requires them are neither clipped nor kept.
TEST(TrainStep, ParametersThatNoOptimizerTrainsDoNotCount) {
  manual_seed(1);
  nn::Linear body(3, 4), head(4, 2);
  nn::Sequential model(body, head);
  const Tensors all = model.parameters(), of_head(all.begin() + 2, all.end());
  optim::SGD sgd(of_head, {.lr = 0});
  std::vector<double> norms;
  train::TrainStep step(
      {.model = model,
       .optimizer = sgd,
       .max_grad_norm = INFINITY,
       .observe_norm = [&](const Tensor& norm) { norms.push_back(norm.item()); }});
  const data::Batch batch{randn({4, 3}), zeros({4}, {.dtype = i64})};
  std::vector<std::vector<float>> of_body;
  for (int i = 0; i < 3; ++i) {
    step(batch, {});
    of_body.push_back(all[0].grad().to_vector());
  }
  EXPECT_EQ(of_body[2], of_body[0]);
  double squares = 0;
  for (const Tensor& p : of_head)
    for (const double g : p.grad().to_vector<double>()) squares += g * g;
  for (const double norm : norms) EXPECT_NEAR(norm, std::sqrt(squares), 1e-6);
}

// The scale is a power of two, so scaled and unscaled gradients are bit-identical.
TEST(GradientSyncStrategy, ReproducibleStepsScaleTheirLoss) {
  test::on_ranks(2, [](Comm comm) {
    const auto trained = [&](optim::GradScaler* scaler) {
      nn::AnyModule model = nn::Sequential(nn::Linear(3, 2));
      for (Tensor& p : model.parameters()) {  // the ranks are threads, which share the generator
        NoGradGuard no_grad;
        p.copy_(test::fill32(p.shape(), 1));
      }
      optim::SGD sgd(model.parameters(), {.lr = 0.5});
      const auto sync = train::make_sync(model, sgd, comm, train::FitOptions{.shards = 2});
      train::TrainStep step(
          {.model = model, .optimizer = sgd, .sync = sync.get(), .scaler = scaler});
      const data::Batch batch{test::fill32({4, 3}, 2), zeros({4}, {.dtype = i64})};
      step(batch, {});
      EXPECT_THAT(test::failure_of([&] {
                    step(std::vector{batch, batch}, {});
                  }),
                  HasSubstr("cannot be combined with reproducible training"));
      return std::pair(step.take_losses(true), model.parameters()[0].to_vector<float>());
    };
    optim::GradScaler scaler(Device::cpu(), {.growth_interval = 1});
    EXPECT_EQ(trained(&scaler), trained(nullptr));
    EXPECT_EQ(scaler.get_scale(), 2 * 65536.0);  // update() saw a step with finite gradients
  });
}

TEST(GradientSyncStrategy, MeansAndWhatAResumedRunChanges) {
  test::on_ranks(2, [](Comm comm) {
    nn::AnyModule model = nn::Sequential(nn::Linear(2, 2));
    optim::SGD sgd(model.parameters(), {.lr = 0.1});
    io::Checkpoint four, other;
    four.world_size = 4;
    other.world_size = 2;
    other.threads = omp_get_max_threads() + 1;
    const auto changes = [&](const train::FitOptions& options, const io::Checkpoint& from) {
      return train::make_sync(model, sgd, comm, options)->differences(from, *comm);
    };
    EXPECT_EQ(changes({}, four), " (4 ranks then, 2 now: the last digits will differ)");
    EXPECT_THAT(changes({}, other), HasSubstr(" threads then, "));
    EXPECT_EQ(changes({.shards = 2}, four), "");
    const auto mean = [&](const train::FitOptions& options) {
      return train::make_sync(model, sgd, comm, options)->mean_over_ranks(comm->rank());
    };
    EXPECT_EQ(mean({.sync = train::Sync::average}), 0.5);
    EXPECT_EQ(mean({}), comm->rank());  // DDP's losses are means already
  });
}

TEST(GradientSyncErrors, AShardedRunNeedsItsRanksAndANewOptimizer) {
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
