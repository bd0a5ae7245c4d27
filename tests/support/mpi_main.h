#pragma once
// main() of a test that mpirun starts: GoogleTest runs on every rank, and one rank prints its
// results unless another fails.

#include <gtest/gtest.h>

#include <memory>

#include "dist/launch/init.h"
#include "support/select_file.h"

namespace rondo::test {

/// The world's communicator, which mpi_main creates.
inline std::shared_ptr<dist::Communicator>& world() {
  static std::shared_ptr<dist::Communicator> comm;
  return comm;
}

inline int mpi_main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (!select_file(argc, argv)) return 2;
  return dist::run([] {
    world() = dist::init({.backend = "mpi", .communicator = {.timeout = std::chrono::seconds(60)}});
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    if (world()->rank() > 0) delete listeners.Release(listeners.default_result_printer());
    int failed = RUN_ALL_TESTS();
    if (failed) {
      const auto& unit = *testing::UnitTest::GetInstance();
      for (int s = 0; s < unit.total_test_suite_count(); ++s) {
        const auto& suite = *unit.GetTestSuite(s);
        for (int t = 0; t < suite.total_test_count(); ++t) {
          const auto& result = *suite.GetTestInfo(t)->result();
          for (int p = 0; p < result.total_part_count() && world()->rank() > 0; ++p) {
            const auto& part = result.GetTestPartResult(p);
            if (part.failed()) {
              fprintf(stderr, "rank %d: %s.%s: %s\n", world()->rank(), suite.name(),
                      suite.GetTestInfo(t)->name(), part.message());
            }
          }
        }
      }
    }
    world()->barrier();
    world().reset();
    return failed;
  });
}

}  // namespace rondo::test
