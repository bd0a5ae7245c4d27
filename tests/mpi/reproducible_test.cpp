// Reproducible training over MPI: 1, 2 and 4 ranks are bit-identical to one rank alone, including
// dropout.

#include "support/reproducible.h"

#include "dist/transports/thread/thread_transport.h"
#include "support/mpi_main.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

using test::world;

TEST(MpiReproducible, EqualsOneRankAlone) {
  if (world()->world_size() == 3) {
    EXPECT_THROW(test::train_reproducibly(world(), {.shards = 8}, 0.5), CommError);
    return;
  }
  const auto alone = std::make_shared<Communicator>(thread_transports(1)[0]);
  const std::string want = test::train_reproducibly(alone, {.shards = 8, .threads = 2}, 0.5);
  const std::string got = test::train_reproducibly(world(), {.shards = 8, .threads = 1}, 0.5);
  EXPECT_EQ(got == want, true);
}

}  // namespace
}  // namespace rondo::dist
