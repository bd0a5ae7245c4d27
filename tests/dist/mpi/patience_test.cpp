#include "dist/mpi/patience.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "support/environment.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

using std::chrono::milliseconds;
using ::testing::ExitedWithCode;

/// Where somebody has ended from the beginning.
class Ended final : public Watch {
 public:
  std::string ended() const override { return "rank 1 (process 4242) has ended"; }
};

void wait_for_ever() { std::this_thread::sleep_for(std::chrono::minutes(10)); }

TEST(Patience, EndsAProcessThatIsKept) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto kept = [] {
    const Patience guard("MPI_Wait", milliseconds(100), "does not come");
    wait_for_ever();
  };
  EXPECT_EXIT(kept(), ExitedWithCode(EXIT_FAILURE),
              "error: MPI_Wait has not returned for 0.1 s \\(RONDO_MPI_TIMEOUT\\); some rank does "
              "not come");
}

TEST(Patience, SaysWhoHasEnded) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto kept = [] {
    const Patience guard("MPI_Finalize", std::chrono::hours(1), "does not come",
                         std::make_shared<Ended>());
    wait_for_ever();
  };
  EXPECT_EXIT(kept(), ExitedWithCode(EXIT_FAILURE),
              "error: MPI_Finalize does not return: rank 1 \\(process 4242\\) has ended");
}

// The others may end in order while this rank has a little left to do.
TEST(Patience, LetsGoOfWhatReturns) {
  for (int i = 0; i < 100; ++i) {
    const Patience guard("MPI_Finalize", std::chrono::hours(1), "does not come",
                         std::make_shared<Ended>());
  }
}

TEST(Patience, TheEnvironmentOutranksTheProgram) {
  const test::Environment soon("RONDO_MPI_TIMEOUT", "soon");
  EXPECT_THROW(Patience("MPI_Init", std::chrono::hours(1), "does not come"), CommError);
}

}  // namespace
}  // namespace rondo::dist
