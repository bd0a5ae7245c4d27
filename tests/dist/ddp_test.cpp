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
TEST_P(DdpTest, UnusedParametersAddZeros) { on_ranks(GetParam(), test::check_unused_zeros); }
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
