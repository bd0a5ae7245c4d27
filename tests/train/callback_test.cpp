// Callbacks: when they are called, and which of them may end a run.

#include "train/callback.h"

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "support/files.h"
#include "support/ranks.h"
#include "support/trainer_checks.h"

namespace rondo {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Comm = std::shared_ptr<dist::Communicator>;

/// Records its calls.
struct Notes : train::Callback {
  std::vector<std::string> calls;
  std::vector<double> losses, rates;
  void on_train_begin(std::int64_t epochs) override { calls.push_back(concat("begin ", epochs)); }
  void on_step_end(const train::StepReport& report) override {
    calls.push_back(concat("step ", report.step, " of ", report.epoch));
    losses.push_back(report.loss);
    rates.push_back(report.lr);
  }
  bool on_epoch_end(const train::EpochReport& report) override {
    calls.push_back(concat("epoch ", report.epoch));
    EXPECT_EQ(report.metrics.at("epoch"), static_cast<double>(report.epoch));
    EXPECT_EQ(report.metrics.at("test_accuracy"), report.test.accuracy());
    EXPECT_EQ(report.metrics.at("train_loss"), report.train_loss);
    return true;
  }
  void on_train_end(const train::FitResult& result) override {
    calls.push_back(concat("end ", result.epochs));
  }
};

/// Ends the run after this many epochs, on one rank.
struct Bored : train::Callback {
  std::int64_t epochs;
  bool is_here;
  Bored(std::int64_t epochs, bool is_here) : epochs(epochs), is_here(is_here) {}
  bool on_epoch_end(const train::EpochReport& report) override {
    return !is_here || report.epoch < epochs;
  }
};

TEST(Callback, IsToldOfEachStepAndEpochOnAllRanks) {
  for (int n : {1, 2}) {
    test::on_ranks(n, [&](Comm comm) {
      auto notes = std::make_shared<Notes>();
      bool last_was_called = false;
      const test::TrainerRun run = test::train_clouds(
          {.epochs = 5,
           .batch_size = 16,
           .comm = comm,
           .fit = {.accumulate_grad_batches = 2,
                   .callbacks = {std::make_shared<Bored>(2, comm->rank() == n - 1), notes},
                   .on_epoch = [&](const auto&) { return last_was_called = true; }}},
          48);
      EXPECT_THAT(notes->calls, ElementsAre("begin 0", "step 1 of 1", "step 2 of 1", "epoch 1",
                                            "step 3 of 2", "step 4 of 2", "epoch 2", "end 2"));
      EXPECT_EQ(notes->losses, run.result.steps.loss);
      EXPECT_EQ(notes->rates, run.result.steps.lr);
      EXPECT_TRUE(run.result.stopped_early);
      EXPECT_TRUE(last_was_called);
    });
  }
  EXPECT_THAT(test::failure_of([] {
                test::train_clouds({.comm = test::alone(), .fit = {.callbacks = {nullptr}}}, 48);
              }),
              HasSubstr("one of the callbacks is null"));
}

train::EpochReport with_loss(double loss) {
  train::EpochReport report;
  report.metrics = {{"test_loss", loss}, {"test_accuracy", 1 - loss}};
  return report;
}

/// The number of these losses after which it stops; 0: it does not stop.
std::size_t stops_after(train::EarlyStopping stopping, const std::vector<double>& losses) {
  for (std::size_t i = 0; i < losses.size(); ++i)
    if (!stopping.on_epoch_end(with_loss(losses[i]))) return i + 1;
  return 0;
}

TEST(EarlyStopping, WaitsForPatienceEpochsInARow) {
  using Mode = train::EarlyStoppingOptions::Mode;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> losses = {0.9, 0.5, 0.6, 0.45, 0.44, 0.46, 0.45};
  EXPECT_EQ(stops_after(train::EarlyStopping(), losses), 0U);
  EXPECT_EQ(stops_after(train::EarlyStopping({.patience = 1}), losses), 3U);
  EXPECT_EQ(stops_after(train::EarlyStopping({.patience = 2}), losses), 7U);
  EXPECT_EQ(stops_after(train::EarlyStopping({.min_delta = 0.06, .patience = 2}), losses), 4U);
  // 1 - loss, for which larger is better.
  EXPECT_EQ(stops_after(train::EarlyStopping(
                            {.monitor = "test_accuracy", .mode = Mode::max, .patience = 2}),
                        losses),
            7U);
  EXPECT_EQ(stops_after(train::EarlyStopping({.mode = Mode::max, .patience = 2}), losses), 3U);
  EXPECT_EQ(stops_after(train::EarlyStopping({.patience = 2}), {0.9, nan, nan}), 3U);
}

TEST(EarlyStopping, BadInput) {
  EXPECT_THAT(test::failure_of([] { train::EarlyStopping({.patience = 0}); }),
              HasSubstr("patience is 0"));
  EXPECT_THAT(test::failure_of([] { train::EarlyStopping({.min_delta = -1}); }),
              HasSubstr("min_delta is -1"));
  train::EarlyStopping other({.monitor = "test_top5"});
  EXPECT_THAT(test::failure_of([&] { other.on_epoch_end(with_loss(1)); }),
              HasSubstr("unknown metric test_top5; the metrics are test_accuracy, test_loss"));
}

// For example, rank 0 alone writes a log.
TEST(Callback, OnSomeRanksOnly) {
  test::on_ranks(3, [](Comm comm) {
    train::TrainerOptions options{.epochs = 3, .batch_size = 24, .comm = comm};
    if (comm->rank() == 1) options.fit.callbacks = {std::make_shared<Bored>(2, true)};
    EXPECT_EQ(test::train_clouds(options, 48).result.epochs, 2);
  });
}

TEST(Callback, TwoThatRememberTheSameAreRefused) {
  const auto run = [](train::EarlyStoppingOptions second) {
    return test::failure_of([&] {
      test::train_clouds({.epochs = 1,
                          .batch_size = 24,
                          .comm = test::alone(),
                          .fit = {.callbacks = {std::make_shared<train::EarlyStopping>(),
                                                std::make_shared<train::EarlyStopping>(second)}}},
                         48);
    });
  };
  EXPECT_THAT(
      run({.patience = 9}),
      HasSubstr("fit: two callbacks have state with the name early_stopping.test_loss.min.best"));
  EXPECT_EQ(run({.mode = train::EarlyStoppingOptions::Mode::max}), "nothing was thrown");
  EXPECT_EQ(run({.monitor = "train_loss"}), "nothing was thrown");
}

// The error comes before the first epoch, on all ranks.
TEST(Callback, ATableWithOtherColumnsIsNotGoneOnWith) {
  const test::TemporaryFolder folder;
  test::on_ranks(2, [&](Comm comm) {
    train::TrainerOptions options{
        .epochs = 1,
        .batch_size = 24,
        .comm = comm,
        .fit = {.checkpoint_dir = folder.path(), .csv = folder.path() / "table.csv"}};
    test::train_clouds(options, 48);
    auto notes = std::make_shared<Notes>();
    options.epochs = 2;
    options.fit.resume = true;
    options.fit.callbacks = {notes};
    options.fit.metrics = {{"zero", [](const Tensor&, const Tensor&) { return zeros({}); }}};
    EXPECT_THAT(test::failure_of([&] { test::train_clouds(options, 48); }),
                HasSubstr("table.csv: its columns are"));
    EXPECT_EQ(notes->calls.size(), 0U);
  });
}

/// A run that is interrupted and resumed stops at the same epoch as one that is not: the checkpoint
/// contains how long it has waited.
TEST(EarlyStopping, GoesOnWaitingWhereARunIsResumed) {
  for (int n : {1, 2}) {
    const test::TemporaryFolder folder;
    test::on_ranks(n, [&](Comm comm) {
      // No epoch is better than the first by 100.
      auto stopping = [] {
        return std::make_shared<train::EarlyStopping>(
            train::EarlyStoppingOptions{.min_delta = 100, .patience = 3});
      };
      struct PowerCut : train::Callback {
        void on_step_end(const train::StepReport& report) override {
          require(report.epoch < 3, "the power went out");
        }
      };
      train::TrainerOptions options{
          .epochs = 9,
          .batch_size = 24,
          .comm = comm,
          .fit = {.checkpoint_dir = folder.path(),
                  .callbacks = {stopping(), std::make_shared<PowerCut>()}}};
      EXPECT_THAT(test::failure_of([&] { test::train_clouds(options, 48); }),
                  HasSubstr("the power went out"));
      auto notes = std::make_shared<Notes>();
      const auto resumed = stopping();
      options.fit.callbacks = {resumed, notes};
      options.fit.resume = true;
      EXPECT_EQ(test::train_clouds(options, 48).result.epochs, 4);
      EXPECT_EQ(notes->calls.front(), "begin 2");
      EXPECT_EQ(resumed->wait_count(), 3);
    });
  }
}

}  // namespace
}  // namespace rondo
