// DistributedDataParallel over MPI, with 1 to 4 ranks.

#include <vector>

#include "support/ddp_checks.h"
#include "support/mpi_main.h"

namespace rondo::dist {
namespace {

using test::world;

// Small buckets, so that there are many and the last ones are uneven.
constexpr BucketOptions small{.bucket_bytes = 1000, .first_bucket_bytes = 300};

TEST(MpiDdp, MlpEqualsOneProcessF32) {
  test::check_equals_one_process<test::TinyMlp>(world(), {20}, f32, 1e-6, small);
  test::check_equals_one_process<test::TinyMlp>(world(), {20}, f32, 1e-6, {});
}
TEST(MpiDdp, MlpEqualsOneProcessF64) {
  test::check_equals_one_process<test::TinyMlp>(world(), {20}, f64, 1e-12, small);
}
TEST(MpiDdp, ConvnetEqualsOneProcessF32) {
  test::check_equals_one_process<test::TinyConvnet>(world(), {3, 8, 8}, f32, 1e-6, small);
}
TEST(MpiDdp, ConvnetEqualsOneProcessF64) {
  test::check_equals_one_process<test::TinyConvnet>(world(), {3, 8, 8}, f64, 1e-12, small);
}
TEST(MpiDdp, Overlap) { test::check_overlap(world()); }
TEST(MpiDdp, AnyForward) { test::check_any_forward(world()); }
TEST(MpiDdp, NoSync) { test::check_no_sync(world()); }
TEST(MpiDdp, Aliasing) { test::check_aliasing(world()); }
TEST(MpiDdp, Flags) { test::check_losses(world()); }
TEST(MpiDdp, UnusedParameters) { test::check_unused_parameters(world()); }
TEST(MpiDdp, DifferentModels) { test::check_different_models(world()); }

}  // namespace
}  // namespace rondo::dist
