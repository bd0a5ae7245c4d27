// Trainer over MPI against one process (support/trainer_checks.h).

#include <gtest/gtest.h>

#include <filesystem>

#include "support/mpi_main.h"
#include "support/trainer_checks.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;
using test::world;

TEST(Trainer, AccumulatedBatchesAreOneLargeBatch) {
  test::check_accumulate(world(), false);
  test::check_accumulate(world(), true);
}

TEST(Trainer, UnevenRanksJoin) {
  test::check_join(world(), 1);
  test::check_join(world(), 2);
}

TEST(Trainer, ZeroGoesOnFromTheMiddleOfAnEpoch) {
  const fs::path folder = fs::temp_directory_path() / concat("rondo-trainer-", getppid());
  auto clear = [&] {
    world()->barrier();
    if (world()->rank() == 0) fs::remove_all(folder);
    world()->barrier();
  };
  clear();
  test::check_zero_resumes(world(), folder);
  clear();
}

}  // namespace
}  // namespace rondo
