// ZeroSharding against DistributedDataParallel with the same optimizer.

#include "dist/data_parallel/zero.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "optim/adam.h"
#include "optim/adam_family.h"
#include "optim/adaptive.h"
#include "optim/clip.h"
#include "optim/grad_scaler.h"
#include "optim/layerwise.h"
#include "optim/sgd.h"
#include "support/ddp_checks.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "support/support.h"

namespace rondo::dist {
namespace {

/// Runs f on this number of ranks, over messages or shared memory.
class ZeroTest : public ::testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  void on_ranks(const std::function<void(std::shared_ptr<Communicator>)>& f) const {
    const CommunicatorOptions options{.timeout = std::chrono::seconds(60)};
    auto run = std::get<1>(GetParam()) ? test::on_ranks_sharing_memory : test::on_ranks;
    run(std::get<0>(GetParam()), f, options);
  }
};

constexpr BucketOptions tiny_buckets{.bucket_bytes = 1000, .first_bucket_bytes = 300};

std::int64_t numel_of_all(const Tensors& tensors) {
  std::int64_t numel = 0;
  for (const Tensor& t : tensors) numel += t.numel();
  return numel;
}

/// Two models in f64 with the same weights.
struct Pair {
  test::TinyMlp whole, sharded;
};
Pair two_alike() {
  Pair pair;
  for (test::TinyMlp* model : {&pair.whole, &pair.sharded}) {
    model->to(f64);
    test::set_weights(*model, 5);
  }
  return pair;
}

// Adam with weight decay and clipped gradients, two micro-batches per step.
TEST_P(ZeroTest, EqualsUnsharded) {
  on_ranks([](std::shared_ptr<Communicator> comm) {
    auto [whole, sharded] = two_alike();
    DistributedDataParallel whole_ddp(whole, comm, {.buckets = tiny_buckets});
    DistributedDataParallel ddp(sharded, comm, {.buckets = tiny_buckets});
    ZeroSharding zero(ddp);
    optim::AdamW whole_adam(whole.parameters(), {.lr = 0.01, .weight_decay = 0.1});
    optim::AdamW adam(zero.parameters(), {.lr = 0.01, .weight_decay = 0.1});
    whole_ddp.accumulate(2);
    ddp.accumulate(2);
    for (int step = 0; step < 8; ++step) {
      whole_adam.zero_grad();
      for (int micro = 0; micro < 2; ++micro) {
        const test::Batch batch = test::batch_of({20}, 10 * step + 3 * micro + comm->rank(), f64);
        cross_entropy(whole_ddp(batch.x), batch.y).backward();
        cross_entropy(ddp(batch.x), batch.y).backward();
      }
      const double want = optim::clip_grad_norm_(whole.parameters(), 0.3).item<double>();
      EXPECT_NEAR(zero.clip_grad_norm(0.3), want, 1e-12);
      EXPECT_FALSE(sharded.fc1.weight.grad().defined());
      whole_adam.step();
      adam.step();
      zero.gather();
    }
    auto a = whole.named_parameters(), b = sharded.named_parameters();
    for (std::size_t i = 0; i < a.size(); ++i) {
      auto x = a[i].tensor.to_vector<double>(), y = b[i].tensor.to_vector<double>();
      for (std::size_t k = 0; k < x.size(); ++k) ASSERT_NEAR(x[k], y[k], 1e-11) << a[i].name;
    }
  });
}

// Every element belongs to one rank. All ranks have about equally many, and so do their optimizer
// states.
TEST_P(ZeroTest, EachRankHasItsPart) {
  on_ranks([](std::shared_ptr<Communicator> comm) {
    test::TinyMlp model(400);
    DistributedDataParallel ddp(model, comm);
    ZeroSharding zero(ddp);
    const std::int64_t mine = numel_of_all(zero.parameters()),
                       all = numel_of_all(model.parameters());
    Tensor sum = full({1}, mine, {.dtype = i64});
    comm->all_reduce(sum);
    EXPECT_EQ(sum.item<std::int64_t>(), all);
    EXPECT_LE(mine, all / comm->world_size() + 16 * std::ssize(ddp.bucket_bytes()));
    optim::Adam adam(zero.parameters(), {.lr = 0.01});
    test::one_loss([&](auto& x) { return ddp(x); }, 0).backward();
    adam.step();
    std::int64_t state = 0;
    for (auto& [name, tensor] : adam.state_dict().tensors) state += tensor.numel();
    EXPECT_LE(state, 2 * mine + std::ssize(zero.parameters()));
    EXPECT_GE(state, 2 * mine);
  });
}

// An optimizer that was made for the model before, with biases that do not decay.
TEST_P(ZeroTest, ShardsAnOptimizerGroupByGroup) {
  on_ranks([](std::shared_ptr<Communicator> comm) {
    test::TinyMlp whole, sharded;
    auto adam_for = [](test::TinyMlp& m) {
      m.fc1.bias.requires_grad_(false);
      return std::make_unique<optim::AdamW>(std::vector<optim::ParamGroup<optim::AdamWOptions>>{
          {{m.fc1.weight, m.fc2.weight, m.fc3.weight}, {.lr = 0.01, .weight_decay = 0.3}},
          {{m.fc1.bias, m.fc2.bias, m.fc3.bias}, {.lr = 0.02, .weight_decay = 0}}});
    };
    for (test::TinyMlp* model : {&whole, &sharded}) {
      model->to(f64);
      test::set_weights(*model, 5);
    }
    auto whole_adam = adam_for(whole), adam = adam_for(sharded);
    DistributedDataParallel whole_ddp(whole, comm, {.buckets = tiny_buckets});
    DistributedDataParallel ddp(sharded, comm, {.buckets = tiny_buckets});
    ZeroSharding zero(ddp);
    zero.shard(*adam);
    for (int step = 0; step < 5; ++step) {
      whole_adam->zero_grad();
      const test::Batch batch = test::batch_of({20}, 10 * step + comm->rank(), f64);
      cross_entropy(whole_ddp(batch.x), batch.y).backward();
      cross_entropy(ddp(batch.x), batch.y).backward();
      whole_adam->step();
      adam->step();
      zero.gather();
    }
    std::int64_t state = 0;
    for (auto& [name, tensor] : adam->state_dict().tensors) state += tensor.numel();
    EXPECT_LE(state, 2 * numel_of_all(zero.parameters()) + std::ssize(zero.parameters()));
    auto a = whole.named_parameters(), b = sharded.named_parameters();
    for (std::size_t i = 0; i < a.size(); ++i) {
      auto x = a[i].tensor.to_vector<double>(), y = b[i].tensor.to_vector<double>();
      for (std::size_t k = 0; k < x.size(); ++k) ASSERT_NEAR(x[k], y[k], 1e-11) << a[i].name;
    }
    EXPECT_THAT(test::failure_of([&] { zero.shard(*adam); }),
                ::testing::HasSubstr("is not a parameter of the model"));
    EXPECT_THAT(test::failure_of([&] { zero.shard(*whole_adam); }),
                ::testing::HasSubstr("is not a parameter of the model"));
    EXPECT_THAT(test::failure_of([&] {
                  whole_adam->replace_parameters([](const Tensor& p) { return Tensors{p}; });
                }),
                ::testing::HasSubstr("AdamW.replace_parameters: the optimizer has stepped"));
  });
}

// Elements of all kinds of state, with a rate that changes.
TEST_P(ZeroTest, EqualsUnshardedWithAComposedOptimizer) {
  on_ranks([](std::shared_ptr<Communicator> comm) {
    auto [whole, sharded] = two_alike();
    DistributedDataParallel whole_ddp(whole, comm, {.buckets = tiny_buckets});
    DistributedDataParallel ddp(sharded, comm, {.buckets = tiny_buckets});
    ZeroSharding zero(ddp);
    optim::NAdam whole_nadam(whole.parameters(), {.lr = 0.01, .weight_decay = 0.1});
    optim::NAdam nadam(zero.parameters(), {.lr = 0.01, .weight_decay = 0.1});
    for (int step = 0; step < 4; ++step) {
      whole_nadam.zero_grad();
      const test::Batch batch = test::batch_of({20}, 10 * step + comm->rank(), f64);
      cross_entropy(whole_ddp(batch.x), batch.y).backward();
      cross_entropy(ddp(batch.x), batch.y).backward();
      for (optim::Optimizer* o : {&whole_nadam, &nadam}) {
        o->step();
        o->set_lr(0.01 / (step + 1));
      }
      zero.gather();
    }
    auto a = whole.named_parameters(), b = sharded.named_parameters();
    for (std::size_t i = 0; i < a.size(); ++i)
      EXPECT_TRUE(test::all_close(a[i].tensor.detach(), b[i].tensor.detach(), 1e-11)) << a[i].name;
  });
}

TEST_P(ZeroTest, RefusesOptimizersThatNeedWholeParameters) {
  on_ranks([](std::shared_ptr<Communicator> comm) {
    test::TinyMlp model;
    DistributedDataParallel ddp(model, comm);
    ZeroSharding zero(ddp);
    optim::LAMB lamb(model.parameters());
    EXPECT_THAT(test::failure_of([&] { zero.shard(lamb); }),
                ::testing::HasSubstr("ZeroSharding: LAMB needs whole parameters, but ZeRO splits "
                                     "them among the ranks"));
    EXPECT_THAT(test::failure_of([&] { optim::LARS lars(zero.parameters()); }),
                ::testing::HasSubstr("is a part of another tensor (ZeRO splits parameters)"));
    EXPECT_THAT(test::failure_of([&] { optim::Muon muon(zero.parameters()); }),
                ::testing::HasSubstr("is a part of another tensor (ZeRO splits parameters)"));
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, ZeroTest,
                         ::testing::Combine(::testing::Values(1, 2, 3, 4), ::testing::Bool()));

TEST(Zero, BadInput) {
  test::on_ranks(1, [](std::shared_ptr<Communicator> comm) {
    test::TinyMlp model;
    DistributedDataParallel ddp(model, comm);
    ZeroSharding zero(ddp);
    EXPECT_THROW(zero.clip_grad_norm(0), Error);
    optim::clip_grad_norm_(zero.parameters(), 1);  // the only rank has all pieces
    EXPECT_THAT(test::failure_of([&] { ZeroSharding another(ddp); }),
                ::testing::HasSubstr("there is a comm hook already: zero"));
  });
}

TEST_P(ZeroTest, RefusesWhatWouldSeeOnlyThisRanksPieces) {
  on_ranks([](std::shared_ptr<Communicator> comm) {
    if (comm->world_size() == 1) return;
    test::TinyMlp model;
    DistributedDataParallel ddp(model, comm, {.buckets = tiny_buckets});
    ZeroSharding zero(ddp);
    optim::RMSprop rmsprop(zero.parameters(), {.lr = 0.01});
    for (int step = 0; step < 2; ++step) {
      const test::Batch batch = test::batch_of({20}, step, f32);
      cross_entropy(ddp(batch.x), batch.y).backward();
      rmsprop.step();
      zero.gather();
      EXPECT_ERROR(optim::clip_grad_norm_(zero.parameters(), 1), Error,
                   "use ZeroSharding::clip_grad_norm");
      optim::GradScaler scaler(Device::cpu());
      EXPECT_ERROR(scaler.step(rmsprop), Error, "set max_over_ranks");
    }
  });
}

// Gradients that are given up leave nothing behind for the next step.
TEST_P(ZeroTest, ZeroGradAndAbandonStepReachThePieces) {
  for (const bool abandons : {false, true}) {
    on_ranks([abandons](std::shared_ptr<Communicator> comm) {
      auto [whole, sharded] = two_alike();
      DistributedDataParallel whole_ddp(whole, comm, {.buckets = tiny_buckets});
      DistributedDataParallel ddp(sharded, comm, {.buckets = tiny_buckets});
      ZeroSharding zero(ddp);
      optim::SGD whole_sgd(whole.parameters(), {.lr = 0.1}), sgd(zero.parameters(), {.lr = 0.1});
      for (int step = 0; step < 2; ++step) {
        const test::Batch batch = test::batch_of({20}, 10 * step + comm->rank(), f64);
        for (DistributedDataParallel* each : {&whole_ddp, &ddp}) {
          cross_entropy((*each)(batch.x), batch.y).backward();
          if (step > 0) continue;
          abandons ? each->abandon_step() : each->zero_grad();
        }
      }
      whole_sgd.step();
      sgd.step();
      zero.gather();
      EXPECT_TRUE(test::all_close(sharded.fc1.weight, whole.fc1.weight, 1e-12));
    });
  }
}

// An optimizer of the model's parameters has no gradients to step with.
TEST_P(ZeroTest, GatherRefusesAStepThatChangedNothing) {
  on_ranks([](std::shared_ptr<Communicator> comm) {
    test::TinyMlp model;
    DistributedDataParallel ddp(model, comm, {.buckets = tiny_buckets});
    ZeroSharding zero(ddp);
    zero.gather();  // before any backward there is nothing to miss
    optim::SGD sgd(model.parameters(), {.lr = 0.1});
    const test::Batch batch = test::batch_of({20}, comm->rank(), f32);
    cross_entropy(ddp(batch.x), batch.y).backward();
    sgd.step();
    EXPECT_THAT(test::failure_of([&] { zero.gather(); }),
                ::testing::HasSubstr("no optimizer has this rank's pieces of the parameters"));
    {
      NoGradGuard no_grad;  // a step by hand
      for (const Tensor& piece : zero.parameters()) piece.sub_(piece.grad());
    }
    zero.gather();
  });
}

// An optimizer of the last layer alone leaves some ranks without a piece.
TEST(Zero, SomeRanksMayHaveNoPieceInTheOptimizer) {
  test::on_ranks(8, [](std::shared_ptr<Communicator> comm) {
    test::TinyMlp model;
    test::set_weights(model, 3);
    DistributedDataParallel ddp(model, comm);
    ZeroSharding zero(ddp);
    optim::SGD sgd(model.fc3.parameters(), {.lr = 0.1});
    zero.shard(sgd);
    const auto before = model.fc3.weight.to_vector<float>();
    const test::Batch batch = test::batch_of({20}, comm->rank(), f32);
    cross_entropy(ddp(batch.x), batch.y).backward();
    sgd.step();
    zero.gather();
    EXPECT_NE(model.fc3.weight.to_vector<float>(), before);
  });
}

// Without no_sync: the averages of the two add up, as under plain DDP.
TEST_P(ZeroTest, BackwardsAddUpUntilTheyAreZeroed) {
  on_ranks([](std::shared_ptr<Communicator> comm) {
    test::TinyMlp model;
    model.to(f64);
    test::set_weights(model, 5);
    DistributedDataParallel ddp(model, comm, {.buckets = tiny_buckets});
    ZeroSharding zero(ddp);
    const auto run = [&](int seed) {
      const test::Batch batch = test::batch_of({20}, seed + comm->rank(), f64);
      cross_entropy(ddp(batch.x), batch.y).backward();
    };
    const auto gradients = [&] {
      Tensors all;
      for (const Tensor& p : zero.parameters()) all.push_back(p.grad().clone());
      for (const Tensor& p : zero.parameters()) p.zero_grad();
      return all;
    };
    run(1);
    const Tensors first = gradients();
    run(20);
    const Tensors second = gradients();
    run(1);
    run(20);
    const Tensors both = gradients();
    for (std::size_t i = 0; i < both.size(); ++i)
      EXPECT_TRUE(test::all_close(both[i], first[i] + second[i], 1e-12));
  });
}

}  // namespace
}  // namespace rondo::dist
