// What DistributedDataParallel says about mistakes and differences between the ranks, and how it
// continues after a backward that threw; each rank is a thread.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "autograd/autograd_meta.h"
#include "autograd/ops/reduce.h"
#include "dist/data_parallel/ddp.h"
#include "support/ddp_checks.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "support/support.h"

namespace rondo::dist {
namespace {

using test::on_ranks;

constexpr BucketOptions small_buckets{.bucket_bytes = 1000, .first_bucket_bytes = 300};

class DdpErrors : public ::testing::TestWithParam<int> {};

TEST(Ddp, RanksAgreeOnTheOptions) {
  const std::string sentence = test::failure_of([] {
    on_ranks(2, [](std::shared_ptr<Communicator> comm) {
      test::TinyMlp model;
      const DistributedDataParallel ddp(
          model, comm, {.unused = comm->rank() == 0 ? Unused::error : Unused::zeros});
    });
  });
  EXPECT_THAT(sentence, ::testing::ContainsRegex(
                            "rank 1 has DDP with unused zeros, .* where rank 0 has DDP with unused "
                            "error, "));
  EXPECT_THAT(test::failure_of([] {
                on_ranks(2, [](std::shared_ptr<Communicator> comm) {
                  test::TinyMlp model;
                  const DistributedDataParallel ddp(
                      model, comm, {.buckets = {.bucket_bytes = comm->rank() == 0 ? 64 : 0}});
                });
              }),
              ::testing::HasSubstr("bucket_bytes 64"));
}
TEST_P(DdpErrors, DifferentModels) { on_ranks(GetParam(), test::check_different_models); }

TEST(Ddp, AGradientOutsideItsBucketIsAnError) {
  on_ranks(1, [](auto comm) {
    test::TinyMlp model;
    DistributedDataParallel ddp(model, comm);
    Tensor loss = test::one_loss([&](auto& x) { return ddp(x); }, 0);
    std::string sentence =
        test::failure_of([&] { loss.backward({}, true, /*create_graph=*/true); });
    EXPECT_NE(sentence.find("is not in its bucket"), std::string::npos) << sentence;
    model.zero_grad();  // a recorded gradient holds its leaf: a cycle, until it is dropped
  });
}

TEST(Ddp, AGradientOfOnesOwnInAParameterThatBackwardMissedIsAnError) {
  on_ranks(1, [](auto comm) {
    test::TinyMlp model;
    DistributedDataParallel ddp(model, comm, {.unused = Unused::zeros});
    model.fc1.weight.set_grad(ones(model.fc1.weight.shape()));
    const test::Batch batch = test::batch_of({20}, 0, f32);
    const Tensor hidden = model.fc1(batch.x).detach();
    const std::string sentence =
        test::failure_of([&] { cross_entropy(model.fc3(model.fc2(hidden)), batch.y).backward(); });
    EXPECT_THAT(sentence, ::testing::ContainsRegex("the gradient of fc1.weight, which backward did "
                                                   "not reach, is not in its bucket"));
  });
}

TEST(Ddp, WorksAgainAfterABackwardThatThrew) {
  on_ranks(1, [](auto comm) {
    test::TinyMlp model;
    DistributedDataParallel ddp(model, comm);
    test::Batch batch = test::batch_of({20}, 0, f32);
    Tensor h = model.fc1(batch.x);
    register_hook(h, [](const Tensor&) -> Tensor { throw Error("broken hook"); });
    Tensor loss = cross_entropy(model.fc3(relu(model.fc2(relu(h)))), batch.y);
    EXPECT_EQ(test::failure_of([&] { loss.backward(); }), "broken hook");
    model.zero_grad();
    test::one_loss([&](auto& x) { return ddp(x); }, 1).backward();
    EXPECT_TRUE(model.fc1.weight.grad().defined());
  });
}

// The parameter's place in the buckets, if any, was decided when DDP was made.
TEST(Ddp, NoticesThatAParameterWasFrozenUnfrozenOrReplaced) {
  on_ranks(1, [](std::shared_ptr<Communicator> comm) {
    test::TinyMlp model;
    model.fc1.weight.requires_grad_(false);
    const auto step = [&](DistributedDataParallel& ddp) {
      test::one_loss([&](auto& x) { return ddp(x); }, 0).backward();
    };
    const auto error_of = [&](DistributedDataParallel& ddp) {
      return test::message_of<CommError>([&] { step(ddp); });
    };
    const std::string why =
        " since DistributedDataParallel was made, and it only knows the tensors of that moment; "
        "make a new one after such a change";
    {
      DistributedDataParallel ddp(model, comm);
      step(ddp);
      model.fc1.weight.requires_grad_();
      EXPECT_EQ(error_of(ddp), "rank 0: fc1.weight was unfrozen" + why);
    }
    {
      DistributedDataParallel ddp(model, comm);
      step(ddp);
      model.fc2.bias.requires_grad_(false);
      EXPECT_EQ(error_of(ddp), "rank 0: fc2.bias was frozen" + why);
      model.fc2.bias.requires_grad_();
      step(ddp);
      model.fc2.bias = zeros(model.fc2.bias.shape()).requires_grad_();
      EXPECT_EQ(error_of(ddp), "rank 0: fc2.bias has been added or replaced" + why);
    }
    {
      DistributedDataParallel ddp(model, comm);
      model = test::TinyMlp();  // no hook is left that a backward could call
      EXPECT_EQ(error_of(ddp), "rank 0: fc1.weight has been added or replaced" + why);
    }
  });
}

TEST_P(DdpErrors, NamesALayerThatVisitLeavesOut) {
  on_ranks(GetParam(), [](std::shared_ptr<Communicator> comm) {
    struct Leaky : nn::Module {
      nn::Linear fc1{20, 30}, fc2{30, 10};
      Tensor forward(const Tensor& x) override { return fc2(relu(fc1(x))); }
      void visit(nn::Visitor& v) override { v.child("fc1", fc1); }
    } model;
    DistributedDataParallel ddp(model, comm);
    const Tensor loss = test::one_loss([&](auto& x) { return ddp(x); }, 0);
    EXPECT_ERROR(loss.backward(), Error,
                 "linear in the forward of Linear, which Leaky runs, but no visit shows it");
    EXPECT_THAT(
        test::message_of([&] { test::one_loss([&](auto& x) { return ddp(x); }, 1).backward(); }),
        ::testing::StartsWith("DistributedDataParallel: a tensor [10"));
  });
}

// Without the error, its next all-reduce would be matched with the others' all-reduce of the step
// before, from then on.
TEST(Ddp, NoticesARankWhoseLossReachesNoParameter) {
  EXPECT_THAT(test::message_of<CommError>([] {
                on_ranks(3, [](std::shared_ptr<Communicator> comm) {
                  test::TinyMlp model;
                  DistributedDataParallel ddp(model, comm);
                  const Tensor other = ones({1}).requires_grad_();
                  for (int step = 0; step < 3; ++step) {
                    const Tensor loss = test::one_loss([&](auto& x) { return ddp(x); }, step);
                    step == 1 && comm->rank() == 1 ? sum(other * other).backward()
                                                   : loss.backward();
                  }
                });
              }),
              ::testing::HasSubstr("the ranks are out of step: a backward of rank 1 reached no "
                                   "parameter of the model"));
}

// DDP ignores a step that leaves the model out on all ranks, such as one of a GAN's other network.
TEST_P(DdpErrors, OthersBackwardsAreNobodysMistake) {
  on_ranks(GetParam(), [](std::shared_ptr<Communicator> comm) {
    test::TinyMlp model;
    DistributedDataParallel ddp(model, comm);
    const Tensor other = ones({1}).requires_grad_();
    for (int step = 0; step < 20; ++step) {
      const Tensor loss = test::one_loss([&](auto& x) { return ddp(x); }, comm->rank());
      sum(other * other).backward();
      test::one_loss([&](auto& x) { return ddp(x); }, comm->rank()).backward();
      const auto quiet = ddp.no_sync();
      loss.backward();
      if (comm->rank() == 0) sum(other * other).backward();
    }
  });
}

// A micro-batch throws on all ranks after some buckets have been sent.
TEST_P(DdpErrors, AStepThatThrewCanBeAbandoned) {
  on_ranks(GetParam(), [](std::shared_ptr<Communicator> comm) {
    test::TinyMlp model, want;
    for (test::TinyMlp* m : {&model, &want}) test::set_weights(*m, 3);
    DistributedDataParallel ddp(model, comm, {.buckets = small_buckets});
    DistributedDataParallel straight(want, comm, {.buckets = small_buckets});
    for (auto* wrapper : {&ddp, &straight}) wrapper->accumulate(2);
    const auto step = [&](DistributedDataParallel& wrapper, int micro_batches) {
      for (int i = 0; i < micro_batches; ++i)
        test::one_loss([&](auto& x) { return wrapper(x); }, comm->rank() + i).backward();
    };
    for (int micro_batch : {0, 1}) {
      step(ddp, micro_batch);
      HookHandle hook = register_post_accumulate_grad_hook(
          model.fc1.weight, [](const Tensor&) { throw Error("a mistake"); });
      EXPECT_EQ(test::message_of([&] { step(ddp, 1); }), "a mistake");
      hook.remove();
      EXPECT_EQ(ddp.step_is_complete(), micro_batch == 0);
      ddp.abandon_step();
      EXPECT_TRUE(ddp.step_is_complete());
      want.zero_grad();
      model.zero_grad();
      step(ddp, 2);
      step(straight, 2);
      const auto got = model.parameters(), all = want.parameters();
      for (std::size_t i = 0; i < got.size(); ++i)
        EXPECT_TRUE(test::identical(got[i].grad(), all[i].grad())) << micro_batch;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, DdpErrors, ::testing::Values(1, 2, 3, 4));

}  // namespace
}  // namespace rondo::dist
