// DistributedDataParallel with ranks that are threads.

#include "dist/ddp.h"

#include <gtest/gtest.h>

#include "support/ddp_checks.h"
#include "support/ranks.h"

namespace rondo::dist {
namespace {

using test::on_ranks;

constexpr BucketOptions small{.bucket_bytes = 1000, .first_bucket_bytes = 300};

class DdpTest : public ::testing::TestWithParam<int> {};

TEST_P(DdpTest, EqualsOneProcess) {
  on_ranks(GetParam(), [](auto comm) {
    test::check_equals_one_process<test::TinyMlp>(comm, {20}, f64, 1e-12, small);
    test::check_equals_one_process<test::TinyMlp>(comm, {20}, f32, 1e-6, {});
  });
}
TEST_P(DdpTest, Overlap) { on_ranks(GetParam(), test::check_overlap); }
TEST_P(DdpTest, NoSync) {
  on_ranks(GetParam(), [](auto comm) { test::check_no_sync(comm); });
}
TEST_P(DdpTest, Aliasing) {
  on_ranks(GetParam(), [](auto comm) { test::check_aliasing(comm); });
}
TEST_P(DdpTest, Flags) {
  on_ranks(GetParam(), [](auto comm) { test::check_flags(comm); });
}
TEST_P(DdpTest, UnusedParameters) { on_ranks(GetParam(), test::check_unused_parameters); }
TEST_P(DdpTest, Accumulate) { on_ranks(GetParam(), test::check_accumulate); }
TEST_P(DdpTest, UnusedParametersAddZeros) {
  for (bool static_graph : {false, true})
    on_ranks(GetParam(), [&](auto comm) { test::check_unused_zeros(comm, static_graph); });
}
// After the first step the ranks no longer ask each other, and a step that differs is an error.
TEST_P(DdpTest, StaticGraph) {
  on_ranks(GetParam(), [](std::shared_ptr<Communicator> comm) {
    test::TinyMlp model;
    test::set_weights(model, 3);
    DistributedDataParallel ddp(model, comm, {.unused = Unused::zeros, .static_graph = true});
    auto step = [&](bool with_first_layer) {
      model.zero_grad();
      const test::Batch batch = test::batch_of({20}, comm->rank(), f32);
      Tensor h = model.fc1(batch.x);
      if (!with_first_layer) h = h.detach();
      const std::size_t before = comm->recorder()->records().size();
      cross_entropy(model.fc3(relu(model.fc2(relu(h)))), batch.y).backward();
      return comm->recorder()->records().size() - before;
    };
    const std::size_t first = step(false), second = step(false);
    EXPECT_EQ(first, second + 1);
    EXPECT_EQ(ddp.unused_parameters(), (std::vector<std::string>{"fc1.weight", "fc1.bias"}));
    const std::string sentence = test::failure_of([&] { step(true); });
    EXPECT_NE(sentence.find("which the first step of this static graph did not"), std::string::npos)
        << sentence;
  });
  on_ranks(1, [](std::shared_ptr<Communicator> comm) {
    test::TinyMlp model;
    DistributedDataParallel ddp(model, comm, {.unused = Unused::zeros, .static_graph = true});
    test::one_loss([&](auto& x) { return ddp(x); }, 0).backward();
    const test::Batch batch = test::batch_of({20}, 0, f32);
    const std::string sentence = test::failure_of([&] {
      cross_entropy(model.fc3(ones({batch.y.size(0), model.fc3.weight.size(1)})), batch.y)
          .backward();
    });
    EXPECT_NE(sentence.find("did not reach fc1.weight, which the first step"), std::string::npos)
        << sentence;
  });
}
TEST_P(DdpTest, Join) {
  for (bool by_active : {false, true})
    on_ranks(GetParam(), [&](auto comm) { test::check_join(comm, by_active); });
}
TEST_P(DdpTest, InSharedMemory) {
  test::on_ranks_sharing_memory(GetParam(), [](auto comm) {
    test::check_equals_one_process<test::TinyMlp>(comm, {20}, f64, 1e-12, small);
    test::check_overlap(comm);
    test::check_accumulate(comm);
    test::check_unused_zeros(comm);
    test::check_join(comm, true);
  });
}
TEST_P(DdpTest, FrozenParameters) { on_ranks(GetParam(), test::check_frozen_parameters); }
TEST_P(DdpTest, DifferentModels) { on_ranks(GetParam(), test::check_different_models); }

INSTANTIATE_TEST_SUITE_P(Ranks, DdpTest, ::testing::Values(1, 2, 3, 4));

TEST(Ddp, AGradientOutsideItsBucketIsAnError) {
  on_ranks(1, [](auto comm) {
    test::TinyMlp model;
    DistributedDataParallel ddp(model, comm);
    Tensor loss = test::one_loss([&](auto& x) { return ddp(x); }, 0);
    std::string sentence =
        test::failure_of([&] { loss.backward({}, true, /*create_graph=*/true); });
    EXPECT_NE(sentence.find("does not live in its bucket"), std::string::npos) << sentence;
    model.zero_grad();  // a recorded gradient holds its leaf: a cycle, until it is dropped
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

}  // namespace
}  // namespace rondo::dist
