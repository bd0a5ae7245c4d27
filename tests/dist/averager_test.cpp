#include "dist/averager.h"

#include <gtest/gtest.h>

#include "nn/batch_norm.h"
#include "support/ddp_checks.h"
#include "support/ranks.h"

namespace rondo::dist {
namespace {

using test::on_ranks;

struct Normed : nn::Module {
  nn::Linear fc{3, 4};
  nn::BatchNorm1d bn{4};
  Tensor forward(const Tensor& x) override { return bn(fc(x)); }
  void visit(nn::Visitor& v) override {
    v.child("fc", fc);
    v.child("bn", bn);
  }
};

// Everything that floats becomes 1, 2, 3, … on ranks 0, 1, 2, …: the average is known.
void fill_all(nn::Module& model, double value) {
  NoGradGuard no_grad;
  for (auto& [name, p] : model.named_parameters()) p.fill_(value);
  for (auto& [name, b] : model.named_buffers()) {
    if (is_floating(b.dtype())) b.fill_(value);
  }
}
void expect_all(nn::Module& model, double value) {
  for (auto& [name, t] : model.state_dict()) {
    if (!is_floating(t.dtype())) continue;
    for (double v : t.to_vector<double>()) EXPECT_EQ(v, value) << name;
  }
}

class AveragerTest : public ::testing::TestWithParam<int> {};

TEST_P(AveragerTest, AveragesEveryKStepsAndAtTheEnd) {
  int n = GetParam();
  on_ranks(n, [n](auto comm) {
    Normed model;
    fill_all(model, 10.0 + comm->rank());
    ParameterAverager averager(model, comm, {.every = 3});
    expect_all(model, 10);  // rank 0's to begin with
    double mine = 1.0 + comm->rank(), average = (n + 1) / 2.0;
    for (int step = 1; step <= 6; ++step) {
      fill_all(model, mine);
      averager.step();
      expect_all(model, step % 3 == 0 ? average : mine);
      EXPECT_EQ(averager.steps_since_average(), step % 3);
    }
    fill_all(model, mine);
    averager.finish();  // nothing has been done since the last average
    expect_all(model, mine);
    averager.step();
    averager.finish();
    expect_all(model, average);
  });
}

TEST_P(AveragerTest, EveryStepIsDdpForPlainSgd) {
  // One step of SGD without momentum is linear in the gradient, so averaging the results is
  // averaging the gradients.
  on_ranks(GetParam(), [](auto comm) {
    test::TinyMlp a, b;
    test::set_weights(a, 9);
    test::set_weights(b, 9);
    DistributedDataParallel ddp(a, comm);
    ParameterAverager averager(b, comm, {.every = 1});
    optim::SGD sgd_a(a.parameters(), {.lr = 0.1}), sgd_b(b.parameters(), {.lr = 0.1});
    for (int step = 0; step < 5; ++step) {
      int seed = 10 * step + comm->rank();
      sgd_a.zero_grad();
      test::one_loss([&](auto& x) { return ddp(x); }, seed).backward();
      sgd_a.step();
      sgd_b.zero_grad();
      test::one_loss([&](auto& x) { return b(x); }, seed).backward();
      sgd_b.step();
      averager.step();
    }
    auto pa = a.parameters(), pb = b.parameters();
    for (std::size_t i = 0; i < pa.size(); ++i) {
      auto va = pa[i].to_vector<double>(), vb = pb[i].to_vector<double>();
      for (std::size_t k = 0; k < va.size(); ++k) ASSERT_NEAR(va[k], vb[k], 2e-6);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, AveragerTest, ::testing::Values(1, 2, 3, 4));

TEST(Averager, BadInput) {
  on_ranks(1, [](auto comm) {
    Normed model;
    EXPECT_THROW(ParameterAverager(model, comm, {.every = 0}), CommError);
  });
  EXPECT_THROW(on_ranks(2,
                        [](auto comm) {
                          nn::Linear model(3, 2 + comm->rank());
                          ParameterAverager averager(model, comm);
                        }),
               CommError);
}

}  // namespace
}  // namespace rondo::dist
