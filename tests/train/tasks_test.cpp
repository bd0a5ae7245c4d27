// fit and evaluate for other tasks than classes: their losses, metrics and averages against the
// same computation by hand, on several ranks and with a smaller last batch.

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/composed.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "io/checkpoint.h"
#include "nn/linear.h"
#include "optim/clip.h"
#include "optim/swa.h"
#include "support/errors.h"
#include "support/files.h"
#include "support/ranks.h"
#include "support/trainer_checks.h"
#include "tensor/creation.h"
#include "train/ema.h"
#include "train/evaluate.h"
#include "train/metrics.h"
#include "train/share_of_data.h"

namespace rondo {
namespace {

using testing::HasSubstr;
using Comm = std::shared_ptr<dist::Communicator>;

/// y = x w + b, with noise.
std::shared_ptr<data::TensorDataset> a_line(std::int64_t n) {
  Generator generator(3);
  const Tensor x = randn({n, 4}, {.dtype = f64}, generator);
  const Tensor noise = randn({n, 2}, {.dtype = f64}, generator);
  return std::make_shared<data::TensorDataset>(x, x.narrow(1, 0, 2) * 2.0 + 1.0 + noise * 0.1);
}

test::CloudNet net_in_f64() {
  test::CloudNet net;
  net.to(f64);
  test::set_weights(net, 5);
  return net;
}

const train::Measure mean_square = [](const Tensor& y, const Tensor& target) {
  return mse_loss(y, target);
};
const train::Metric mean_absolute = {
    "mae", [](const Tensor& y, const Tensor& target) { return l1_loss(y, target); }};

TEST(Tasks, ARegressionHasNoAccuracyAndKeepsTheLowestLoss) {
  for (int n : {1, 2, 3}) {
    const test::TemporaryFolder folder;
    test::on_ranks(n, [&](Comm comm) {
      test::CloudNet net = net_in_f64();
      optim::SGD sgd(net.parameters(), {.lr = 0.05});
      std::ostringstream out;
      train::Trainer trainer(net, sgd,
                             {.epochs = 3,
                              .batch_size = 12,
                              .comm = comm,
                              .threads = 1,
                              .out = &out,
                              .fit = {.criterion = mean_square,
                                      .metrics = {mean_absolute},
                                      .train_metrics = true,
                                      .checkpoint_dir = folder.path(),
                                      .csv = folder / "run.csv"}});
      const auto set = a_line(31);
      const train::FitResult result = trainer.fit(a_line(24), set);
      const Tensor y = net(set->inputs());
      EXPECT_NEAR(result.test.loss, mse_loss(y, set->targets()).item(), 1e-12);
      EXPECT_NEAR(result.test.metrics.at("mae"), l1_loss(y, set->targets()).item(), 1e-12);
      EXPECT_EQ(result.test.total, 0);
      EXPECT_EQ(result.test.samples, 31);
      EXPECT_EQ(result.best_test_loss, result.test.loss);  // it falls in each epoch
      EXPECT_NEAR(trainer.evaluate(set).loss, result.test.loss, 1e-12);
      if (comm->rank() != 0) return;
      EXPECT_THAT(out.str(), HasSubstr(", test loss "));
      const train::Metrics row = train::read_metrics(folder / "run.csv").at(2);
      EXPECT_FALSE(row.contains("test_accuracy"));
      EXPECT_FALSE(row.contains("train_accuracy"));
      EXPECT_NEAR(row.at("test_mae"), result.test.metrics.at("mae"), 1e-12);
      EXPECT_GT(row.at("train_mae"), 0);
      EXPECT_TRUE(std::filesystem::equivalent(folder / "best.safetensors",
                                              folder / "checkpoint.safetensors"));
    });
  }
}

/// The metrics of the training batches are those of an evaluation, as long as no step changes the
/// weights. The samples that pad an epoch count, too.
TEST(Tasks, TrainingIsMeasuredAsEvaluationIs) {
  for (int n : {1, 2, 3}) {
    test::on_ranks(n, [&](Comm comm) {
      test::CloudNet net = net_in_f64();
      optim::SGD sgd(net.parameters(), {.lr = 0});
      train::Metrics row;
      const train::Metric first = {
          "first", [](const Tensor& y, const Tensor&) { return mean(y.narrow(1, 0, 1)); }};
      train::Trainer trainer(
          net, sgd,
          {.batch_size = 18,
           .comm = comm,
           .threads = 1,
           .out = nullptr,
           .fit = {.metrics = {first}, .train_metrics = true, .on_epoch = [&](const auto& report) {
                     row = report.metrics;
                     return true;
                   }}});
      trainer.fit(test::clouds(42));  // fit without a test set
      EXPECT_FALSE(row.contains("test_loss"));
      EXPECT_FALSE(row.contains("test_accuracy"));
      const train::Evaluation whole = trainer.evaluate(test::clouds(42));
      EXPECT_NEAR(row.at("train_accuracy"), whole.accuracy(), 1e-12);
      EXPECT_NEAR(row.at("train_first"), whole.metrics.at("first"), 1e-12);
      EXPECT_NEAR(row.at("train_loss"), whole.loss, 0.05);  // a mean of the steps' losses
    });
  }
}

/// Shards are measured by several threads at once, and parameter averaging by each rank alone.
TEST(Tasks, EachWayToSynchroniseIsMeasured) {
  const auto measured = [](Comm comm, train::FitOptions fit) {
    nn::AnyModule net = net_in_f64();
    optim::SGD sgd(net.parameters(), {.lr = 0});
    train::Metrics row;
    fit.train_metrics = true;
    fit.max_grad_norm = 0.5;
    fit.on_epoch = [&](const train::EpochReport& report) {
      row = report.metrics;
      return true;
    };
    train::Trainer trainer(
        net, sgd, {.batch_size = 24, .comm = comm, .threads = 1, .out = nullptr, .fit = fit});
    trainer.fit(test::clouds(48));
    return row;
  };
  const train::Metrics alone = measured(test::alone(), {});
  test::on_ranks(2, [&](Comm comm) {
    for (const train::FitOptions& fit :
         {train::FitOptions{.shards = 4}, train::FitOptions{.comm_hook = "bf16"},
          train::FitOptions{.zero = true}}) {
      const train::Metrics row = measured(comm, fit);
      EXPECT_NEAR(row.at("train_accuracy"), alone.at("train_accuracy"), 1e-12);
      EXPECT_NEAR(row.at("grad_norm"), alone.at("grad_norm"), 1e-2 * alone.at("grad_norm"));
    }
    const train::Metrics row = measured(comm, {.sync = train::Sync::average});
    EXPECT_NEAR(row.at("train_accuracy"), alone.at("train_accuracy"), 1e-12);
    EXPECT_GT(row.at("grad_norm"), 0);  // of each rank's own gradients
  });
}

/// A class for each position of a sequence; padding has the target -100.
TEST(Tasks, PaddingCountsNowhere) {
  struct Tagger : test::CloudNet {  // (N, 3, 4) -> (N, 2, 3)
    Tensor forward(const Tensor& x) override {
      return CloudNet::forward(x.reshape({-1, 4})).reshape({-1, 3, 2}).transpose(1, 2);
    }
  } net;
  net.to(f64);
  test::set_weights(net, 5);
  Generator generator(3);
  const std::int64_t n = 11;
  const Tensor x = randn({n, 3, 4}, {.dtype = f64}, generator), y = zeros({n, 3}, {.dtype = i64});
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t t = 0; t < 3; ++t)
      y.data_ptr<std::int64_t>()[3 * i + t] = t > i % 3 ? -100 : (i + t) % 2;
  const auto set = std::make_shared<data::TensorDataset>(x, y);
  const Tensor output = net(x), counted = ge(y, 0);
  const double loss = cross_entropy(output, y).item();
  const auto correct = sum(eq(argmax(output, 1), y)).item<std::int64_t>(),
             total = sum(counted).item<std::int64_t>();
  const train::Metric tokens = {
      "tokens",
      [](const Tensor& out, const Tensor& target) {
        return cross_entropy(out, target, {.label_smoothing = 0.1});
      },
      [](const Tensor&, const Tensor& target) { return sum(ge(target, 0)); }};
  const double smooth = cross_entropy(output, y, {.label_smoothing = 0.1}).item();
  for (int ranks : {1, 2, 3}) {
    test::on_ranks(ranks, [&](Comm comm) {
      Tagger mine;
      mine.to(f64);
      test::set_weights(mine, 5);
      const auto result = train::evaluate(mine, set, {}, *comm,
                                          {.batch_size = 2, .workers = 0, .metrics = {tokens}});
      EXPECT_EQ(result.correct, correct);
      EXPECT_EQ(result.total, total);
      EXPECT_NEAR(result.loss, loss, 1e-12);
      EXPECT_NEAR(result.metrics.at("tokens"), smooth, 1e-12);
    });
  }
}

/// A batch that has only padding has no mean.
TEST(Tasks, ABatchOfPaddingIsIgnored) {
  test::CloudNet net = net_in_f64();
  const auto set = test::clouds(5);
  set->targets().data_ptr<std::int64_t>()[4] = -100;
  const auto result =
      train::evaluate(net, set, {}, *test::alone(), {.batch_size = 4, .workers = 0});
  EXPECT_EQ(result.total, 4);
  EXPECT_NEAR(result.loss, cross_entropy(net(set->inputs()), set->targets()).item(), 1e-12);
}

/// fit with clipping is a loop with clip_grad_norm_; with ZeRO, too.
TEST(Tasks, GradientsAreClippedAndTheirNormIsReported) {
  test::CloudNet wanted = net_in_f64();
  optim::SGD own(wanted.parameters(), {.lr = 0.5});
  double norms = 0;
  const auto set = test::clouds(24);
  for (std::int64_t step = 0; step < 2; ++step) {
    own.zero_grad();
    cross_entropy(wanted(set->inputs()), set->targets()).backward();
    norms += optim::clip_grad_norm_(wanted.parameters(), 0.1).item();
    own.step();
  }
  EXPECT_GT(norms / 2, 0.1);
  for (int n : {1, 2}) {
    for (const bool zero : {false, true}) {
      test::on_ranks(n, [&](Comm comm) {
        test::CloudNet net = net_in_f64();
        optim::SGD sgd(net.parameters(), {.lr = 0.5});
        double mean = 0;
        train::Trainer trainer(net, sgd,
                               {.epochs = 2,
                                .batch_size = 24,
                                .comm = comm,
                                .threads = 1,
                                .out = nullptr,
                                .fit = {.zero = zero,
                                        .max_grad_norm = 0.1,
                                        .on_epoch = [&](const train::EpochReport& report) {
                                          mean += report.metrics.at("grad_norm") / 2;
                                          return true;
                                        }}});
        trainer.fit(test::clouds(24));
        EXPECT_NEAR(mean, norms / 2, 1e-9);
        test::expect_near(test::values_of(net), test::values_of(wanted));
      });
    }
  }
  const auto weights = [](double max_grad_norm) {
    return test::train_clouds(
               {.batch_size = 12, .comm = test::alone(), .fit = {.max_grad_norm = max_grad_norm}},
               24)
        .weights;
  };
  EXPECT_EQ(weights(std::numeric_limits<double>::infinity()), weights(0));
}

/// The averages of fit are AveragedModel's. The evaluation sees them, the training does not.
TEST(Tasks, AveragesOfWeightsAreEvaluated) {
  test::CloudNet model = net_in_f64();
  optim::SGD own(model.parameters(), {.lr = 0.5});
  optim::AveragedModel average(model, {.multi_avg_fn = optim::get_ema_multi_avg_fn(0.8)});
  const auto set = test::clouds(24);
  for (int step = 0; step < 4; ++step) {
    own.zero_grad();
    cross_entropy(model(set->inputs()), set->targets()).backward();
    own.step();
    average.update_parameters(model);
  }
  for (int n : {1, 2}) {
    test::on_ranks(n, [&](Comm comm) {
      test::CloudNet net = net_in_f64();
      optim::SGD sgd(net.parameters(), {.lr = 0.5});
      train::Trainer trainer(net, sgd,
                             {.epochs = 4,
                              .batch_size = 24,
                              .comm = comm,
                              .threads = 1,
                              .out = nullptr,
                              .fit = {.ema_decay = 0.8}});
      const train::FitResult result = trainer.fit(test::clouds(24), test::clouds(31));
      test::expect_near(test::values_of(net), test::values_of(model));
      test::CloudNet averaged = net_in_f64();
      averaged.load_state_dict(result.ema);
      test::expect_near(test::values_of(averaged), test::values_of(average.module()));
      const auto tested = test::clouds(31);
      EXPECT_NEAR(result.test.loss,
                  cross_entropy(averaged(tested->inputs()), tested->targets()).item(), 1e-9);
    });
  }
}

/// A run that is cut in the middle of an epoch ends with the same averages and reports.
TEST(Tasks, AveragesAndTrainingMetricsAreResumed) {
  struct Cut : train::Callback {
    void on_step_end(const train::StepReport& report) override {
      require(report.step < 5, "the power went out");
    }
  };
  for (int n : {1, 2}) {
    const test::TemporaryFolder folder;
    test::on_ranks(n, [&](Comm comm) {
      std::vector<train::Metrics> rows;
      const auto run = [&](const char* name, bool resume, bool is_cut) {
        rows.clear();
        train::FitOptions fit{.train_metrics = true,
                              .max_grad_norm = 1,
                              .ema_decay = 0.8,
                              .checkpoint_dir = folder / name,
                              .checkpoint_every = 4,
                              .async_checkpoints = true,
                              .resume = resume,
                              .on_epoch = [&](const train::EpochReport& report) {
                                rows.push_back(report.metrics);
                                return true;
                              }};
        if (is_cut) fit.callbacks = {std::make_shared<Cut>()};
        return test::train_clouds({.epochs = 3, .batch_size = 12, .comm = comm, .fit = fit}, 36)
            .result.ema;
      };
      const nn::StateDict straight = run("straight", false, false);
      const std::vector<train::Metrics> wanted = rows;
      EXPECT_THAT(test::failure_of([&] { run("cut", false, true); }), HasSubstr("power"));
      comm->barrier();
      const nn::StateDict resumed = run("cut", true, false);
      for (std::size_t i = 0; i < straight.size(); ++i)
        EXPECT_EQ(resumed[i].tensor.to_vector<double>(), straight[i].tensor.to_vector<double>());
      ASSERT_EQ(rows.size(), 2U);  // those of the second and the third epoch
      for (const char* column : {"train_accuracy", "grad_norm", "test_loss"}) {
        EXPECT_NEAR(rows[0].at(column), wanted[1].at(column), 1e-14) << column;
        EXPECT_NEAR(rows[1].at(column), wanted[2].at(column), 1e-14) << column;
      }
      const io::Checkpoint last =
          io::load_checkpoint((folder / "cut" / "checkpoint.safetensors").string());
      EXPECT_EQ(last.ema.size(), 4U);
      comm->barrier();
    });
  }
}

TEST(Tasks, AShareOfTheSamplesInOneCall) {
  test::on_ranks(2, [](Comm comm) {
    const auto sampler =
        train::distributed_sampler(5, *comm, {.shuffle = false, .drop_last = true});
    EXPECT_EQ(sampler->indices(), (data::Indices{comm->rank(), comm->rank() + 2}));
  });
}

TEST(Tasks, ARegressionWithoutACriterionIsRefused) {
  const Tensor x = zeros({4, 1}), target = ones({4, 1});
  EXPECT_ERROR(train::default_criterion(x, target), ShapeError,
               "cross_entropy: the model's output [4, 1] has one number");
  EXPECT_ERROR(train::default_criterion(zeros({4}), ones({4})), ShapeError,
               "cross_entropy: the model's output [4] has one number");
  EXPECT_EQ(train::default_criterion(x, zeros({4}, {.dtype = i64})).item(), 0);
  EXPECT_GT(train::default_criterion(zeros({4, 2}), ones({4, 2}) / 2).item(), 0.6);
}

TEST(Tasks, BadOptions) {
  const auto refused = [](train::FitOptions fit) {
    return test::failure_of(
        [&] { test::train_clouds({.batch_size = 12, .comm = test::alone(), .fit = fit}, 24); });
  };
  EXPECT_THAT(refused({.max_grad_norm = -1}), HasSubstr("max_grad_norm is -1"));
  EXPECT_THAT(refused({.ema_decay = 1.5}), HasSubstr("ema_decay is 1.5, but must be in [0, 1)"));
  EXPECT_THAT(refused({.sync = train::Sync::average, .ema_decay = 0.9}),
              HasSubstr("ema_decay cannot be combined with parameter averaging"));
  test::CloudNet net = net_in_f64();
  const train::Metric bad = {"a", mean_square,
                             [](const Tensor&, const Tensor& target) { return target; }};
  EXPECT_ERROR(train::evaluate(net, a_line(5), {}, *test::alone(),
                               {.workers = 0, .criterion = mean_square, .metrics = {bad}}),
               ShapeError, "the count of the metric a for a batch has shape [5, 2]");
}

/// One logit for a class of two: one column has no largest score, so no accuracy is measured.
TEST(Tasks, ABinaryCriterionHasNoAccuracy) {
  const Tensor x = randn({30, 2}, {.dtype = f64}),
               y = (x.narrow(1, 0, 1) > 0.0).to(i64).reshape({30});
  const train::Measure binary = [](const Tensor& out, const Tensor& target) {
    return bce_with_logits(out.squeeze(1), target.to(f64));
  };
  const train::Measure square = [](const Tensor& out, const Tensor& target) {
    return mse_loss(out.squeeze(1), target.to(f64));
  };
  test::on_ranks(1, [&](Comm comm) {
    nn::Linear net(2, 1);
    net.to(f64);
    // With negative targets, too: for classes these would not be counted.
    for (const auto& [criterion, target] : {std::pair(binary, y), std::pair(square, y - 1)}) {
      const auto set = std::make_shared<data::TensorDataset>(x, target);
      const train::Evaluation got = train::evaluate(
          net, set, {}, *comm, {.batch_size = 7, .workers = 0, .criterion = criterion});
      EXPECT_EQ(got.total, 0);
      EXPECT_NEAR(got.loss, criterion(net(x), target).item(), 1e-12);
    }
  });
}

}  // namespace
}  // namespace rondo
