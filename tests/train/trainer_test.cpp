// Trainer on small known data, alone and on ranks that are threads.

#include "train/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <sstream>

#include "autograd/ops/loss.h"
#include "dist/launch/init.h"
#include "nn/activation.h"
#include "nn/containers.h"
#include "nn/dropout.h"
#include "nn/linear.h"
#include "optim/sgd.h"
#include "support/ddp_checks.h"
#include "support/errors.h"
#include "support/files.h"
#include "support/ranks.h"
#include "support/support.h"
#include "tensor/creation.h"

namespace rondo {
namespace {

/// Two clouds of points, one per class.
std::shared_ptr<data::TensorDataset> clouds(std::int64_t n) {
  Generator generator(7);
  Tensor x = randn({n, 4}, {}, generator), y = Tensor::empty({n}, {.dtype = i64});
  for (std::int64_t i = 0; i < n; ++i) {
    y.data_ptr<std::int64_t>()[i] = i % 2;
    x.data_ptr<float>()[4 * i] += i % 2 ? 2.0f : -2.0f;
  }
  return std::make_shared<data::TensorDataset>(x, y);
}

struct Net : nn::Module {
  nn::Linear fc1{4, 8}, fc2{8, 2};
  Tensor forward(const Tensor& x) override { return fc2(relu(fc1(x))); }
  void visit(nn::Visitor& v) override {
    v.child("fc1", fc1);
    v.child("fc2", fc2);
  }
};

std::vector<double> weights_of(nn::Module& model) {
  std::vector<double> all;
  for (const Tensor& p : model.parameters()) {
    for (double v : p.to_vector<double>()) all.push_back(v);
  }
  return all;
}

// One program on 1, 2 and 4 ranks: the same weights up to rounding, the same accuracy.
TEST(Trainer, SameProgramOnAnyNumberOfRanks) {
  std::vector<double> alone;
  for (int n : {1, 2, 4}) {
    test::on_ranks_sharing_memory(n, [&](std::shared_ptr<dist::Communicator> comm) {
      Net net;
      test::set_weights(net, 5);
      optim::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9});
      std::ostringstream out;
      train::Trainer trainer(
          net, sgd, {.epochs = 3, .batch_size = 16, .comm = comm, .threads = 1, .out = &out});
      const train::FitResult result = trainer.fit(clouds(64), clouds(31));
      EXPECT_EQ(result.epochs, 3);
      EXPECT_EQ(result.test.total, 31);
      EXPECT_GT(result.test.accuracy(), 0.85);
      EXPECT_EQ(trainer.evaluate(clouds(31)).correct, result.test.correct);
      EXPECT_EQ(out.str().empty(), comm->rank() != 0);
      EXPECT_EQ(sgd.lr(), 0.1);  // no schedule: the rate stays
      const std::vector<double> weights = weights_of(net);
      if (n == 1) alone = weights;
      for (std::size_t i = 0; i < weights.size(); ++i) ASSERT_NEAR(weights[i], alone[i], 2e-5);
    });
  }
}

TEST(Trainer, ScheduleAndCallback) {
  test::on_ranks(2, [](std::shared_ptr<dist::Communicator> comm) {
    Net net;
    optim::SGD sgd(net.parameters(), {.lr = 0.1});
    std::int64_t steps = 0;
    std::vector<std::int64_t> epochs;
    train::Trainer trainer(
        net, sgd,
        {.epochs = 9,
         .batch_size = 16,
         .comm = comm,
         .schedule =
             [&](optim::Optimizer& optimizer, std::int64_t n) {
               steps = n;
               return std::make_unique<optim::LambdaLR>(optimizer, [n](std::int64_t step) {
                 return 1.0 - static_cast<double>(step) / static_cast<double>(n);
               });
             },
         .threads = 1,
         .out = nullptr,
         .fit = {.on_epoch = [&](const train::EpochReport& report) {
           epochs.push_back(report.epoch);
           EXPECT_EQ(report.test.total, 31);
           return report.epoch < 2 || comm->rank() == 0;  // one rank ends the run
         }}});
    const train::FitResult result = trainer.fit(clouds(64), clouds(31));
    EXPECT_EQ(steps, 9 * 4);
    EXPECT_EQ(epochs, (std::vector<std::int64_t>{1, 2}));
    EXPECT_TRUE(result.stopped_early);
    EXPECT_EQ(result.epochs, 2);
    EXPECT_NEAR(sgd.lr(), 0.1 * (1 - 8.0 / 36), 1e-12);
  });
}

/// A layer that draws random numbers, so that a lost generator is noticed.
struct DropNet : Net {
  nn::Dropout drop{0.5};
  Tensor forward(const Tensor& x) override { return fc2(drop(relu(fc1(x)))); }
  void visit(nn::Visitor& v) override {
    Net::visit(v);
    v.child("drop", drop);
  }
};

/// The run's own generator continues from its state, whatever the program has seeded since. Changes
/// that would give another order of samples are refused.
TEST(Trainer, ResumesToTheSameBitsOrSaysWhatDiffers) {
  test::TemporaryFolder folder;
  auto train = [&](const char* name, bool resume, std::uint64_t generator_seed, bool dies = false,
                   std::uint64_t seed = 1, std::int64_t batch = 8, std::int64_t samples = 64) {
    DropNet net;
    test::set_weights(net, 5);
    optim::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9});
    manual_seed(generator_seed);
    int losses = 0;
    train::Trainer trainer(net, sgd,
                           {.epochs = 3,
                            .batch_size = batch,
                            .comm = dist::init({.backend = "self"}),
                            .seed = seed,
                            .threads = 1,
                            .out = nullptr,
                            .fit = {.criterion =
                                        [&](const Tensor& y, const Tensor& target) {
                                          if (dies && ++losses == 12)
                                            throw Error("the power went out");
                                          return cross_entropy(y, target);
                                        },
                                    .checkpoint_dir = folder / name,
                                    .checkpoint_every = 3,
                                    .resume = resume}});
    trainer.fit(clouds(samples), clouds(31));
    return weights_of(net);
  };
  const std::vector<double> straight = train("straight", false, 3);
  EXPECT_THROW(train("cut", false, 3, true), Error);
  auto refused = [&](auto... changes) {
    return test::message_of<Error>([&] { train("cut", true, 3, false, changes...); });
  };
  EXPECT_THAT(refused(std::uint64_t{2}), testing::HasSubstr("with seed 1, this one has seed 2"));
  EXPECT_THAT(refused(std::uint64_t{1}, std::int64_t{16}),
              testing::HasSubstr("with batch_size 8, this one has batch_size 16"));
  EXPECT_THAT(refused(std::uint64_t{1}, std::int64_t{8}, std::int64_t{72}),
              testing::HasSubstr("with train_samples 64, this one has train_samples 72"));
  EXPECT_EQ(train("cut", true, 99), straight);
}

TEST(Trainer, ARunThatWasStoppedEarlyStaysSo) {
  test::TemporaryFolder folder;
  auto train = [&](bool resume, std::int64_t last) {
    Net net;
    test::set_weights(net, 5);
    optim::SGD sgd(net.parameters(), {.lr = 0.1});
    std::ostringstream out;
    train::Trainer trainer(net, sgd,
                           {.epochs = 5,
                            .batch_size = 16,
                            .comm = dist::init({.backend = "self"}),
                            .threads = 1,
                            .out = &out,
                            .fit = {.checkpoint_dir = folder.path(),
                                    .resume = resume,
                                    .on_epoch = [=](const train::EpochReport& report) {
                                      return report.epoch < last;
                                    }}});
    const train::FitResult result = trainer.fit(clouds(64), clouds(31));
    EXPECT_TRUE(result.stopped_early);
    EXPECT_EQ(result.epochs, 2);
    EXPECT_EQ(result.test.total, 31);
    return out.str();
  };
  train(false, 2);
  EXPECT_THAT(train(true, 5), testing::HasSubstr("is complete: 2 epochs, stopped early"));
}

train::TrainerOptions alone(std::int64_t epochs, train::FitOptions fit = {}) {
  return {.epochs = epochs,
          .batch_size = 8,
          .comm = dist::init({.backend = "self"}),
          .threads = 1,
          .out = nullptr,
          .fit = std::move(fit)};
}

/// Without a schedule the rate is the program's: callbacks and later runs may set it.
TEST(Trainer, WithoutAScheduleTheRateIsLeftAlone) {
  Net net;
  optim::SGD sgd(net.parameters(), {.lr = 0.1});
  const auto rates = [&](train::FitOptions options) {
    return train::Trainer(net, sgd, alone(2, std::move(options))).fit(clouds(16)).steps.lr;
  };
  EXPECT_EQ(rates({.on_epoch =
                       [&](const train::EpochReport&) {
                         sgd.set_lr(0.01);
                         return true;
                       }}),
            (std::vector<double>{0.1, 0.1, 0.01, 0.01}));
  sgd.set_lr(0.5);
  EXPECT_EQ(rates({}), (std::vector<double>{0.5, 0.5, 0.5, 0.5}));
}

/// The program may go on with another run, and would never learn of the signal.
TEST(Trainer, ASignalInTheLastEpochIsReported) {
  Net net;
  optim::SGD sgd(net.parameters(), {.lr = 0.1});
  const train::FitResult result =
      train::Trainer(net, sgd,
                     alone(2, {.on_epoch =
                                   [](const train::EpochReport& report) {
                                     if (report.epoch == 2) std::raise(SIGTERM);
                                     return true;
                                   }}))
          .fit(clouds(16));
  EXPECT_EQ(result.epochs, 2);
  EXPECT_EQ(result.stopped_by, SIGTERM);
}

TEST(Trainer, ARunThatStoppedAfterAnEpochsLastBatchHasNoNegativeSpeed) {
  test::TemporaryFolder folder;
  struct Stop final : train::Callback {
    void on_step_end(const train::StepReport& report) override {
      if (report.step == 4) std::raise(SIGTERM);
    }
  };
  for (const bool resume : {false, true}) {
    Net net;
    optim::SGD sgd(net.parameters(), {.lr = 0.1});
    train::FitOptions options{.checkpoint_dir = folder.path(), .resume = resume};
    if (!resume) options.callbacks = {std::make_shared<Stop>()};
    options.on_epoch = [](const train::EpochReport& report) {
      EXPECT_GE(report.img_per_s, 0);
      return true;
    };
    const auto result = train::Trainer(net, sgd, alone(1, options)).fit(clouds(28));  // 8 8 8 4
    EXPECT_EQ(result.stopped_by, resume ? 0 : SIGTERM);
    EXPECT_GE(result.img_per_s, 0);
  }
}

TEST(Trainer, AStoppedRunSaysSo) {
  test::TemporaryFolder folder;
  struct Stop final : train::Callback {
    void on_step_end(const train::StepReport&) override { std::raise(SIGINT); }
  };
  for (const bool saves : {false, true}) {
    Net net;
    optim::SGD sgd(net.parameters(), {.lr = 0.1});
    std::ostringstream out;
    train::TrainerOptions options = alone(3, {});
    options.out = &out;
    options.fit.callbacks = {std::make_shared<Stop>()};
    if (saves) options.fit.checkpoint_dir = folder.path();
    EXPECT_EQ(train::Trainer(net, sgd, options).fit(clouds(16)).stopped_by, SIGINT);
    EXPECT_THAT(out.str(), testing::HasSubstr("stopped by a signal in epoch 1 of 3"));
    EXPECT_THAT(out.str(),
                testing::HasSubstr(saves ? "/checkpoint.safetensors\nto continue"
                                         : "to be able to continue, set checkpoint_dir"));
  }
}

TEST(Trainer, AnEmptyTestSetIsAnErrorBeforeTraining) {
  Net net;
  const Tensor before = net.fc1.weight.clone();
  optim::SGD sgd(net.parameters(), {.lr = 0.1});
  EXPECT_ERROR(train::Trainer(net, sgd, alone(1, {})).fit(clouds(16), clouds(0)), Error,
               "fit: the test data is empty");
  EXPECT_TRUE(test::identical(net.fc1.weight, before));
}

TEST(Trainer, ResumesOnlyWhatExists) {
  test::TemporaryFolder folder;
  Net net;
  optim::SGD sgd(net.parameters(), {.lr = 0.1});
  train::Trainer trainer(net, sgd, alone(1, {.checkpoint_dir = folder / "none", .resume = true}));
  EXPECT_ERROR(trainer.fit(clouds(16)), IoError,
               "there is nothing to resume: start without resume");
}

/// Numbers that print alike differ all the same.
TEST(Trainer, RanksCompareAllDigits) {
  test::on_ranks(2, [](std::shared_ptr<dist::Communicator> comm) {
    Net net;
    optim::SGD sgd(net.parameters(), {.lr = comm->rank() == 0 ? 0.1 : 0.1000004});
    train::Trainer trainer(net, sgd, {.batch_size = 8, .comm = comm, .threads = 1, .out = nullptr});
    EXPECT_THAT(test::message_of<Error>([&] { trainer.fit(clouds(16)); }),
                testing::HasSubstr("0.1000004"));
  });
}

TEST(Trainer, NamesWhatVisitLeavesOut) {
  for (int n : {1, 2}) {
    test::on_ranks(n, [](std::shared_ptr<dist::Communicator> comm) {
      struct Leaky : Net {
        void visit(nn::Visitor& v) override { v.child("fc1", fc1); }
      } net;
      optim::SGD sgd(net.parameters(), {.lr = 0.1});
      train::Trainer trainer(net, sgd, {.batch_size = 16, .comm = comm, .out = nullptr});
      EXPECT_ERROR(trainer.fit(clouds(64), clouds(31)), Error,
                   "used by linear in the forward of Linear, which Leaky runs, but no visit shows");
    });
  }
}

TEST(Trainer, BadInput) {
  test::on_ranks(1, [](std::shared_ptr<dist::Communicator> comm) {
    Net net;
    optim::SGD sgd(net.parameters(), {.lr = 0.1});
    train::Trainer trainer(net, sgd, {.comm = comm, .threads = 1, .out = nullptr});
    EXPECT_THAT(test::failure_of([&] { trainer.fit(nullptr, clouds(3)); }),
                ::testing::HasSubstr("train must not be null"));
    EXPECT_THROW(train::Trainer(net, sgd, {.device = "tpu", .comm = comm}), Error);
  });
  test::on_ranks(1, [](std::shared_ptr<dist::Communicator> comm) {
    Net net, other;
    optim::SGD sgd({{.params = net.parameters(), .options = {.lr = 0.1}},
                    {.params = other.parameters(), .options = {.lr = 0.1}}});
    train::Trainer trainer(net, sgd, {.comm = comm, .threads = 1, .out = nullptr});
    EXPECT_ERROR(trainer.fit(clouds(64), clouds(31)), Error,
                 "parameter 0 of the optimizer's group 1, of shape [8, 4], is not a parameter of "
                 "the model");
  });
  EXPECT_THAT(test::failure_of([] {
                test::on_ranks(2, [](std::shared_ptr<dist::Communicator> comm) {
                  Net net;
                  optim::SGD sgd(net.parameters(), {.lr = 0.1});
                  train::Trainer trainer(net, sgd,
                                         {.batch_size = 15, .comm = comm, .out = nullptr});
                  trainer.fit(clouds(30), clouds(3));
                });
              }),
              ::testing::HasSubstr("a batch of 15 is not divisible by the 2 ranks"));
}

}  // namespace
}  // namespace rondo
