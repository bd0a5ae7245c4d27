#include "dist/data_parallel/averager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nn/batch_norm.h"
#include "support/ddp_checks.h"
#include "support/errors.h"
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

// All floating-point tensors become 1, 2, 3, … on ranks 0, 1, 2, …, so the average is known.
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
  on_ranks(n, [n](std::shared_ptr<Communicator> comm) {
    Normed model;
    fill_all(model, 10.0 + comm->rank());
    ParameterAverager averager(model, comm, {.every = 3});
    expect_all(model, 10);  // rank 0's values at the start
    double mine = 1.0 + comm->rank(), average = (n + 1) / 2.0;
    for (int step = 1; step <= 6; ++step) {
      fill_all(model, mine);
      averager.step();
      expect_all(model, step % 3 == 0 ? average : mine);
      EXPECT_EQ(averager.steps_since_average(), step % 3);
    }
    fill_all(model, mine);
    averager.finish();  // no step since the last average
    expect_all(model, mine);
    averager.step();
    averager.finish();
    expect_all(model, average);
  });
}

TEST_P(AveragerTest, EveryStepIsDdpForPlainSgd) {
  // One step of SGD without momentum is linear in the gradient, so averaging the results is
  // averaging the gradients.
  on_ranks(GetParam(), [](std::shared_ptr<Communicator> comm) {
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

// First an average after every step, later one every 4 steps.
TEST_P(AveragerTest, WarmsUp) {
  int n = GetParam();
  on_ranks(n, [n](std::shared_ptr<Communicator> comm) {
    Normed model;
    ParameterAverager averager(model, comm, {.every = 4, .warmup_steps = 3});
    double mine = 1.0 + comm->rank(), average = (n + 1) / 2.0;
    for (int step = 1; step <= 11; ++step) {
      fill_all(model, mine);
      averager.step();
      expect_all(model, step <= 3 || step == 7 || step == 11 ? average : mine);
    }
  });
}

TEST_P(AveragerTest, WithinGroupsMoreOften) {
  int n = GetParam();
  on_ranks(n, [n](std::shared_ptr<Communicator> comm) {
    const int r = comm->rank();
    // Ranks 0 and 1, 2 and 3, …
    std::shared_ptr<Communicator> group;
    for (int first = 0; first < n; first += 2) {
      std::vector<int> pair = {first};
      if (first + 1 < n) pair.push_back(first + 1);
      if (auto made = comm->new_group(pair)) group = made;
    }
    Normed model;
    ParameterAverager averager(model, comm, {.every = 6, .group = group, .group_every = 2});
    const int other = r ^ 1;
    const double mine = 1.0 + r, of_pair = other < n ? (mine + 1.0 + other) / 2 : mine;
    for (int step = 1; step <= 12; ++step) {
      fill_all(model, mine);
      averager.step();
      expect_all(model, step % 6 == 0 ? (n + 1) / 2.0 : step % 2 == 0 ? of_pair : mine);
    }
  });
}

// Against the formula, in f64; buffers are only averaged.
TEST_P(AveragerTest, OuterStep) {
  int n = GetParam();
  on_ranks(n, [n](std::shared_ptr<Communicator> comm) {
    Normed model;
    fill_all(model, 2.0);
    const double lr = 0.7, mu = 0.9;
    ParameterAverager averager(model, comm, {.every = 2, .outer_lr = lr, .outer_momentum = mu});
    double met = 2.0, velocity = 0;
    for (int round = 1; round <= 3; ++round) {
      averager.step();
      fill_all(model, round + comm->rank());  // the average is round + (n - 1) / 2
      averager.step();
      const double average = round + (n - 1) / 2.0, moved = met - average;
      velocity = mu * velocity + moved;
      met -= lr * (moved + mu * velocity);
      for (auto& [name, p] : model.named_parameters()) {
        for (double v : p.to_vector<double>()) EXPECT_NEAR(v, met, 1e-5) << name;
      }
      for (double v : model.bn.running_mean.to_vector<double>()) EXPECT_NEAR(v, average, 1e-6);
    }
  });
}

// What rank r adds between two averages reaches the others one average later.
TEST_P(AveragerTest, Asynchronous) {
  int n = GetParam();
  on_ranks(n, [n](std::shared_ptr<Communicator> comm) {
    NoGradGuard no_grad;
    Normed model;
    fill_all(model, 0.0);
    ParameterAverager averager(model, comm, {.every = 2, .async = true});
    auto add = [&](double value) {
      for (auto& [name, p] : model.named_parameters()) p.add_(full({1}, value));
    };
    const double mine = 1.0 + comm->rank(), average = (n + 1) / 2.0;
    auto expect = [&](double value) {
      for (auto& [name, p] : model.named_parameters()) {
        for (double v : p.to_vector<double>()) EXPECT_NEAR(v, value, 1e-6) << name;
      }
    };
    add(mine);
    averager.step();
    averager.step();  // sends mine
    expect(mine);
    add(10 * mine);
    averager.step();
    expect(11 * mine);
    averager.step();  // applies average - mine, sends average + 10 mine
    expect(average + 10 * mine);
    add(100 * mine);
    averager.step();
    averager.step();
    expect(average + 10 * average + 100 * mine);
    averager.finish();
    expect(111 * average);
    EXPECT_EQ(averager.steps_since_average(), 0);
  });
}

// An averager that loads another's state continues as that one would.
TEST_P(AveragerTest, GoesOnFromItsState) {
  on_ranks(GetParam(), [](std::shared_ptr<Communicator> comm) {
    for (bool async : {false, true}) {
      AveragerOptions options{.every = 3, .warmup_steps = 2, .async = async};
      if (!async) options.outer_momentum = 0.5;
      auto train = [&](Normed& model, ParameterAverager& averager, int from, int to) {
        NoGradGuard no_grad;
        for (int step = from; step < to; ++step) {
          for (auto& [name, p] : model.named_parameters())
            p.add_(full({1}, 0.1 * (step + 1) * (comm->rank() + 1)));
          averager.step();
        }
      };
      Normed whole, first, second;
      for (Normed* model : {&whole, &first, &second}) test::set_weights(*model, 4);
      ParameterAverager all(whole, comm, options);
      train(whole, all, 0, 11);
      nn::StateDict weights, state;
      {
        ParameterAverager averager(first, comm, options);
        train(first, averager, 0, 7);
        for (auto& [name, t] : averager.state()) state.push_back({name, t.clone()});
        for (auto& [name, t] : first.state_dict()) weights.push_back({name, t.clone()});
      }
      ParameterAverager averager(second, comm, options);
      second.load_state_dict(weights);
      auto live = averager.state();
      for (std::size_t i = 0; i < live.size(); ++i) live[i].tensor.copy_(state[i].tensor);
      averager.restored();
      train(second, averager, 7, 11);
      auto a = whole.parameters(), b = second.parameters();
      for (std::size_t i = 0; i < a.size(); ++i)
        EXPECT_EQ(a[i].to_vector<double>(), b[i].to_vector<double>());
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, AveragerTest, ::testing::Values(1, 2, 3, 4));

TEST(Averager, BadInput) {
  on_ranks(1, [](std::shared_ptr<Communicator> comm) {
    Normed model;
    for (const AveragerOptions& bad :
         {AveragerOptions{.every = 0}, AveragerOptions{.warmup_steps = -1},
          AveragerOptions{.group_every = 2}, AveragerOptions{.outer_lr = 0},
          AveragerOptions{.outer_momentum = 1},
          AveragerOptions{.outer_momentum = 0.5, .async = true}})
      EXPECT_THROW(ParameterAverager(model, comm, bad), CommError);
  });
  EXPECT_THROW(on_ranks(2,
                        [](std::shared_ptr<Communicator> comm) {
                          nn::Linear model(3, 2 + comm->rank());
                          ParameterAverager averager(model, comm);
                        }),
               CommError);
}

TEST(Averager, NoticesThatAParameterWasReplaced) {
  for (bool async : {false, true}) {
    on_ranks(2, [async](std::shared_ptr<Communicator> comm) {
      nn::Linear model(3, 2);
      ParameterAverager averager(model, comm, {.async = async});
      averager.step();
      model.weight.requires_grad_(false);  // its values are averaged anyway
      averager.step();
      model.bias = zeros({2});
      EXPECT_ERROR(averager.step(), CommError,
                   "bias has been added or replaced since ParameterAverager was made");
    });
  }
}

TEST(Averager, NoticesAnotherDtype) {
  on_ranks(2, [](std::shared_ptr<Communicator> comm) {
    nn::Linear model(3, 2);
    ParameterAverager averager(model, comm);
    averager.step();
    model.to(f64);
    EXPECT_ERROR(averager.step(), CommError, "is f64 on cpu, but was f32 on cpu when Param");
  });
}

TEST(Averager, NoticesThatABufferWasReplaced) {
  on_ranks(2, [](std::shared_ptr<Communicator> comm) {
    nn::BatchNorm1d model(3);
    ParameterAverager averager(model, comm);
    model(ones({2, 3}));  // written in place
    averager.step();
    model.running_mean = zeros({3});
    EXPECT_ERROR(averager.step(), CommError, "running_mean has been added or replaced since");
  });
}

TEST(Averager, RanksAgreeOnTheOptions) {
  const std::string sentence = test::failure_of([] {
    on_ranks(2, [](std::shared_ptr<Communicator> comm) {
      nn::Linear model(3, 2);
      ParameterAverager averager(model, comm,
                                 {.every = 2, .outer_lr = comm->rank() == 0 ? 0.9 : 1});
    });
  });
  EXPECT_THAT(sentence, ::testing::HasSubstr(
                            "rank 1 has averages every 2 steps after 0 to warm up where rank 0 "
                            "has averages every 2 steps after 0 to warm up, with outer lr 0.9"));
}

}  // namespace
}  // namespace rondo::dist
