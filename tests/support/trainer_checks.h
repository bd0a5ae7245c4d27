#pragma once
// Trainer on any number of ranks must have the result of one process with all data. Run over
// threads by tests/train/gradient_sync_test.cpp and over MPI by tests/mpi/trainer_test.cpp. All
// ranks call each function; there are 1, 2, 3 or 4.

#include <gtest/gtest.h>

#include <filesystem>

#include "dist/transports/thread/thread_transport.h"
#include "nn/activation.h"
#include "nn/linear.h"
#include "optim/adam.h"
#include "optim/sgd.h"
#include "support/ddp_checks.h"
#include "tensor/creation.h"
#include "train/trainer.h"

namespace rondo::test {

/// Two clouds of points, one per class.
inline std::shared_ptr<data::TensorDataset> clouds(std::int64_t n) {
  Generator generator(7);
  const Tensor x = randn({n, 4}, {.dtype = f64}, generator), y = Tensor::empty({n}, {.dtype = i64});
  for (std::int64_t i = 0; i < n; ++i) {
    y.data_ptr<std::int64_t>()[i] = i % 2;
    x.data_ptr<double>()[4 * i] += i % 2 ? 0.5 : -0.5;
  }
  return std::make_shared<data::TensorDataset>(x, y);
}

struct CloudNet : nn::Module {
  nn::Linear fc1{4, 8}, fc2{8, 2};
  Tensor forward(const Tensor& x) override { return fc2(relu(fc1(x))); }
  void visit(nn::Visitor& v) override {
    v.child("fc1", fc1);
    v.child("fc2", fc2);
  }
};

inline std::vector<double> values_of(nn::Module& model) {
  std::vector<double> all;
  for (const Tensor& p : model.parameters()) {
    for (double v : p.to_vector<double>()) all.push_back(v);
  }
  return all;
}

struct TrainerRun {
  std::vector<double> weights;
  train::FitResult result;
};

/// Trains a new net from the same weights with AdamW, whose rate changes with each step.
inline TrainerRun train_clouds(train::TrainerOptions options, std::int64_t samples) {
  CloudNet net;
  net.to(f64);
  set_weights(net, 5);
  optim::AdamW adam(net.parameters(), {.lr = 0.02, .weight_decay = 0.1});
  options.threads = 1;
  options.out = nullptr;
  options.schedule = [](optim::Optimizer& optimizer, std::int64_t steps) {
    return std::make_unique<optim::LambdaLR>(optimizer, [steps](std::int64_t step) {
      return 1.0 - 0.5 * static_cast<double>(step) / static_cast<double>(steps);
    });
  };
  train::Trainer trainer(net, adam, std::move(options));
  train::FitResult result = trainer.fit(clouds(samples), clouds(31));
  return {values_of(net), std::move(result)};
}

inline std::shared_ptr<dist::Communicator> alone() {
  return std::make_shared<dist::Communicator>(dist::thread_transports(1)[0]);
}

inline void expect_near(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-9) << i;
}

inline void expect_same(const TrainerRun& got, const TrainerRun& want) {
  expect_near(got.weights, want.weights);
  expect_near(got.result.steps.loss, want.result.steps.loss);
  expect_near(got.result.steps.lr, want.result.steps.lr);
  EXPECT_NEAR(got.result.final_loss, want.result.final_loss, 1e-9);
  EXPECT_EQ(got.result.test.correct, want.result.test.correct);
}

/// N ranks with three batches per step equal one process with batches three times as large. An
/// epoch's last step has two whole batches and a half one, which counts half.
inline void check_accumulate(std::shared_ptr<dist::Communicator> comm, bool zero) {
  const TrainerRun whole = train_clouds({.epochs = 3, .batch_size = 72, .comm = alone()}, 132);
  const TrainerRun parts = train_clouds({.epochs = 3,
                                         .batch_size = 24,
                                         .comm = std::move(comm),
                                         .fit = {.zero = zero, .accumulate_grad_batches = 3}},
                                        132);
  EXPECT_EQ(whole.result.steps.loss.size(), 6U);
  expect_same(parts, whole);
}

/// Each sample is used once, including the last odd one: ranks without a batch at the end take part
/// in that step. (The ranks that have samples must have equally many; otherwise the mean of their
/// means is not the mean of all.)
inline void check_join(std::shared_ptr<dist::Communicator> comm, int accumulate) {
  const TrainerRun whole =
      train_clouds({.epochs = 3, .batch_size = 24 * accumulate, .comm = alone()}, 97);
  const TrainerRun joined = train_clouds(
      {.epochs = 3,
       .batch_size = 24,
       .uneven = train::Uneven::join,
       .comm = std::move(comm),
       .fit = {.ddp = {.divide_by_active_ranks = true}, .accumulate_grad_batches = accumulate}},
      97);
  expect_same(joined, whole);
}

/// A run that resumes in the middle of an epoch is bit-identical to one that was not stopped.
/// `folder` is the same on all ranks, and empty.
inline void check_zero_resumes(std::shared_ptr<dist::Communicator> comm,
                               const std::filesystem::path& folder) {
  struct PowerCut : train::Callback {
    void on_step_end(const train::StepReport& report) override {
      require(report.step < 4, "the power went out");
    }
  };
  train::TrainerOptions options{.epochs = 3,
                                .batch_size = 12,
                                .comm = comm,
                                .fit = {.zero = true,
                                        .accumulate_grad_batches = 2,
                                        .checkpoint_dir = folder / "straight",
                                        .checkpoint_every = 1}};
  const TrainerRun straight = train_clouds(options, 60);  // 3 steps per epoch
  options.fit.checkpoint_dir = folder / "stopped";
  options.fit.callbacks = {std::make_shared<PowerCut>()};
  EXPECT_NE(failure_of([&] { train_clouds(options, 60); }).find("the power went out"),
            std::string::npos);
  comm->barrier();
  options.fit.callbacks = {};
  options.fit.resume = true;
  const TrainerRun resumed = train_clouds(options, 60);
  EXPECT_EQ(resumed.weights, straight.weights);
  EXPECT_EQ(resumed.result.final_loss, straight.result.final_loss);
  EXPECT_EQ(resumed.result.steps.first, 4);
  options.fit.zero = false;
  EXPECT_NE(failure_of([&] {
              train_clouds(options, 60);
            }).find("belongs to a run with zero 1, this one has zero unset"),
            std::string::npos);
  comm->barrier();
}

}  // namespace rondo::test
