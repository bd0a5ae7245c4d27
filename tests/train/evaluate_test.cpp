// A program's own metrics: means over all samples, for any ranks and batches, and the places where
// they are shown.

#include "train/evaluate.h"

#include <gmock/gmock.h>

#include <sstream>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/reduce.h"
#include "support/files.h"
#include "support/ranks.h"
#include "support/trainer_checks.h"
#include "train/metrics.h"

namespace rondo {
namespace {

using testing::HasSubstr;
using Comm = std::shared_ptr<dist::Communicator>;

/// The mean square of the first output, and of the target as a number.
const std::vector<train::Metric> metrics = {
    {"square",
     [](const Tensor& output, const Tensor&) {
       const Tensor first = output.narrow(1, 0, 1);
       return mean(first * first);
     }},
    {"share_of_ones", [](const Tensor&, const Tensor& target) { return mean(target.to(f64)); }}};

TEST(Evaluate, MetricsAreMeansOverAllSamples) {
  test::CloudNet net;
  net.to(f64);
  test::set_weights(net, 5);
  const auto set = test::clouds(31);
  const std::vector<double> output = net(set->inputs()).to_vector<double>();
  double square = 0;
  for (std::size_t i = 0; i < output.size(); i += 2) square += output[i] * output[i];
  for (int n : {1, 2, 3}) {
    test::on_ranks(n, [&](Comm comm) {
      test::CloudNet mine;
      mine.to(f64);
      test::set_weights(mine, 5);
      const auto result = train::evaluate(
          mine, set, {}, *comm, {.batch_size = 4, .workers = 0, .metrics = metrics});  // 4, …, 3
      EXPECT_NEAR(result.metrics.at("square"), square / 31, 1e-12);
      EXPECT_NEAR(result.metrics.at("share_of_ones"), 15.0 / 31, 1e-12);
    });
  }
}

TEST(Evaluate, MetricsAreShownAndLogged) {
  for (int n : {1, 2}) {
    const test::TemporaryFolder folder;
    test::on_ranks(n, [&](Comm comm) {
      test::CloudNet net;
      net.to(f64);
      test::set_weights(net, 5);
      optim::SGD sgd(net.parameters(), {.lr = 0.1});
      std::ostringstream out;
      double told = 0;
      train::Trainer trainer(net, sgd,
                             {.batch_size = 12,
                              .comm = comm,
                              .threads = 1,
                              .out = &out,
                              .fit = {.metrics = metrics,
                                      .checkpoint_dir = folder.path(),
                                      .csv = folder / "run.csv",
                                      .on_epoch = [&](const train::EpochReport& report) {
                                        told = report.metrics.at("test_square");
                                        return true;
                                      }}});
      const auto result = trainer.fit(test::clouds(24), test::clouds(31));
      EXPECT_EQ(told, result.test.metrics.at("square"));
      EXPECT_NEAR(trainer.evaluate(test::clouds(31)).metrics.at("square"), told, 1e-12);
      if (comm->rank() != 0) return;
      EXPECT_THAT(out.str(), HasSubstr("test share_of_ones 0.4839"));
      for (const char* file : {"run.csv", "metrics.jsonl"})
        EXPECT_NEAR(train::read_metrics(folder / file).at(0).at("test_square"), told, 1e-12);
    });
  }
}

TEST(Evaluate, BadMetrics) {
  auto refused = [](std::vector<train::Metric> bad) {
    return test::failure_of([&] {
      test::train_clouds({.batch_size = 12, .comm = test::alone(), .fit = {.metrics = bad}}, 24);
    });
  };
  const auto one = metrics[0].function;
  EXPECT_THAT(refused({{"accuracy", one}}), HasSubstr("there are two metrics called accuracy"));
  EXPECT_THAT(refused({{"a", one}, {"a", one}}), HasSubstr("there are two metrics called a"));
  EXPECT_THAT(refused({{"a,b", one}}), HasSubstr("\"a,b\" cannot be the name of a metric"));
  EXPECT_THAT(refused({{"", one}}), HasSubstr("cannot be the name"));
  EXPECT_THAT(refused({{"a", {}}}), HasSubstr("the metric a has no function"));
  EXPECT_THAT(refused({{"a", [](const Tensor& y, const Tensor&) { return y; }}}),
              HasSubstr("the metric a of a batch has shape"));
}

}  // namespace
}  // namespace rondo
