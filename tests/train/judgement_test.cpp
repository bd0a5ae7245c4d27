// A model's answers for single samples, on data with known answers, over several ranks.

#include "train/judgement.h"

#include <cmath>

#include "nn/linear.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "support/support.h"
#include "tensor/creation.h"
#include "train/evaluate.h"

namespace rondo::train {
namespace {

/// The logits are x itself, for three classes.
struct Identity : nn::Module {
  Tensor forward(const Tensor& x) override { return x; }
};

/// 7 samples. The model predicts class 2 for numbers 3 and 5, with more confidence for 5.
class Samples : public data::TensorDataset {
 public:
  Samples() : TensorDataset(given_logits(), given_targets()) {}
  const std::vector<std::string>& class_names() const override { return names_; }

 private:
  static Tensor given_logits() {
    Tensor x = zeros({7, 3});
    const int called[] = {0, 1, 2, 2, 0, 2, 1};
    const float by[] = {1, 1, 1, 2, 3, 4, 1};
    for (int i = 0; i < 7; ++i) x.data_ptr<float>()[3 * i + called[i]] = by[i];
    return x;
  }
  static Tensor given_targets() {
    Tensor t = zeros({7}, {.dtype = i64});
    const int is[] = {0, 1, 2, 0, 0, 1, 1};
    for (int i = 0; i < 7; ++i) t.data_ptr<std::int64_t>()[i] = is[i];
    return t;
  }
  std::vector<std::string> names_ = {"a", "b", "c"};
};

TEST(Judge, CountsAndRanksEachSampleOnceOnAnyNumberOfRanks) {
  for (int ranks : {1, 2, 3, 5}) {
    test::on_ranks(ranks, [&](std::shared_ptr<dist::Communicator> comm) {
      Identity model;
      const Judgement judgement =
          judge(model, std::make_shared<Samples>(), {}, *comm, /*worst=*/3, /*batch_size=*/2);
      EXPECT_EQ(judgement.confusion,
                (std::vector<std::vector<std::int64_t>>{{2, 0, 1}, {0, 2, 1}, {0, 0, 1}}));
      ASSERT_EQ(judgement.worst.size(), 3U);
      const Judged& first = judgement.worst[0];
      EXPECT_EQ(first.index, 5);
      EXPECT_EQ(first.target, 1);
      EXPECT_EQ(first.predicted, 2);
      // For logits (0, 0, 4) and target 1.
      EXPECT_NEAR(first.loss, std::log(2 + std::exp(4)), 1e-12);
      EXPECT_NEAR(first.probability, std::exp(4) / (2 + std::exp(4)), 1e-12);
      EXPECT_NEAR(first.probability_of_target, 1 / (2 + std::exp(4)), 1e-12);
      EXPECT_EQ(judgement.worst[1].index, 3);
      EXPECT_EQ(judgement.worst[2].index, 0);  // among equal losses the first
    });
  }
}

TEST(Judge, AgreesWithEvaluate) {
  test::on_ranks(2, [](std::shared_ptr<dist::Communicator> comm) {
    Identity model;
    const auto data = std::make_shared<Samples>();
    const Evaluation evaluation = evaluate(model, data, {}, *comm);
    const Judgement judgement = judge(model, data, {}, *comm, /*worst=*/100);
    std::int64_t correct = 0;
    double loss = 0;
    for (std::size_t c = 0; c < 3; ++c) correct += judgement.confusion[c][c];
    for (const Judged& judged : judgement.worst) loss += judged.loss;
    EXPECT_EQ(correct, evaluation.correct);
    EXPECT_NEAR(loss / 7, evaluation.loss, 1e-6);
  });
}

TEST(Judge, WhatIsNoNumberIsTheWorst) {
  test::on_ranks(1, [](std::shared_ptr<dist::Communicator> comm) {
    const auto data = std::make_shared<Samples>();
    data->inputs().data_ptr<float>()[3 * 2] = std::nanf("");
    Identity model;
    const Judgement judgement = judge(model, data, {}, *comm);
    EXPECT_EQ(judgement.worst[0].index, 2);
    EXPECT_TRUE(std::isinf(judgement.worst[0].loss));
  });
}

TEST(Judge, ModelsAndDataThatDoNotFitAreErrors) {
  test::on_ranks(1, [](std::shared_ptr<dist::Communicator> comm) {
    nn::Linear narrow(3, 2);
    EXPECT_ERROR(judge(narrow, std::make_shared<Samples>(), {}, *comm), ShapeError,
                 "the data set has 3 classes");
    const auto data = std::make_shared<Samples>();
    data->targets().data_ptr<std::int64_t>()[4] = 3;
    Identity model;
    EXPECT_ERROR(judge(model, data, {}, *comm), Error, "the target of sample 4 is 3");
    const auto none =
        std::make_shared<data::TensorDataset>(zeros({0, 3}), zeros({0}, {.dtype = i64}));
    EXPECT_ERROR(judge(model, none, {}, *comm), Error, "the data set is empty");
  });
}

}  // namespace
}  // namespace rondo::train
