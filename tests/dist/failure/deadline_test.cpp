#include "dist/failure/deadline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include "support/environment.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

using std::chrono::milliseconds;
using ::testing::ExitedWithCode;

/// A watch in which another rank has ended from the beginning.
class Ended final : public Watch {
 public:
  std::string ended() const override { return "rank 1 (process 4242) has ended"; }
};

/// A watch in which the ended rank has given its reason.
class Failed final : public Watch {
 public:
  std::string ended() const override { return "rank 1 (process 4242) has ended"; }
  std::string failed() const override { return "rank 1: data/test.bin: no such file"; }
};

void wait_for_ever() { std::this_thread::sleep_for(std::chrono::minutes(10)); }

TEST(Deadline, EndsAProcessThatIsKept) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto kept = [] {
    const Deadline deadline("MPI_Wait", milliseconds(100), "some rank does not come");
    wait_for_ever();
  };
  EXPECT_EXIT(kept(), ExitedWithCode(EXIT_FAILURE),
              "error: MPI_Wait has not returned for 0.1 s \\(RONDO_MPI_TIMEOUT\\); some rank does "
              "not come");
}

TEST(Deadline, SaysWhoHasEnded) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto kept = [] {
    const Deadline deadline("MPI_Finalize", std::chrono::hours(1), "some rank does not come",
                            std::make_shared<Ended>());
    wait_for_ever();
  };
  EXPECT_EXIT(kept(), ExitedWithCode(EXIT_FAILURE),
              "error: MPI_Finalize does not return: rank 1 \\(process 4242\\) has ended");
}

// The reason is printed once, by the other rank.
TEST(Deadline, DoesNotRepeatWhatAnotherRankHasSaid) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto kept = [] {
    const Deadline deadline("MPI_Finalize", std::chrono::hours(1), "some rank does not come",
                            std::make_shared<Failed>());
    wait_for_ever();
  };
  EXPECT_EXIT(kept(), ExitedWithCode(EXIT_FAILURE), "^$");
}

TEST(Deadline, TellsTheOthersWhyItEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  class Told final : public Watch {
   public:
    std::string ended() const override { return {}; }
    void tell(const std::string& why) override { std::fprintf(stderr, "told: %s\n", why.c_str()); }
  };
  const auto kept = [] {
    const Deadline deadline("MPI_Finalize", milliseconds(100), "some rank has not called it",
                            std::make_shared<Told>());
    wait_for_ever();
  };
  const std::string sentence =
      "MPI_Finalize has not returned for 0.1 s \\(RONDO_MPI_TIMEOUT\\); some rank has not called "
      "it\n";
  EXPECT_EXIT(kept(), ExitedWithCode(EXIT_FAILURE),
              concat("told: ", sentence, "error: ", sentence));
}

// Other ranks may end normally while this rank still has work to do.
TEST(Deadline, LetsGoOfWhatReturns) {
  for (int i = 0; i < 100; ++i) {
    const Deadline deadline("MPI_Finalize", std::chrono::hours(1), "some rank does not come",
                            std::make_shared<Ended>());
  }
}

TEST(Deadline, TheEnvironmentOutranksTheProgram) {
  const test::Environment soon("RONDO_MPI_TIMEOUT", "soon");
  EXPECT_THROW(Deadline("MPI_Init", std::chrono::hours(1), "some rank does not come"), CommError);
}

}  // namespace
}  // namespace rondo::dist
