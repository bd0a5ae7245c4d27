#include "dist/mpi/patience.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
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
using ::testing::KilledBySignal;

/// Where somebody has ended from the beginning.
class Ended final : public Watch {
 public:
  std::string ended() const override { return "rank 1 (process 4242) has ended"; }
};

/// Where it has said why.
class Failed final : public Watch {
 public:
  std::string ended() const override { return "rank 1 (process 4242) has ended"; }
  std::string failed() const override { return "rank 1: data/test.bin: no such file"; }
};

/// Where rank 2 is missed from here, or, as this rank is told, from elsewhere.
class Missed final : public Watch {
 public:
  explicit Missed(bool here) : here_(here) {}
  std::string ended() const override { return {}; }
  std::string absent() const override { return here_ ? "nothing has been heard of rank 2" : ""; }
  std::string failed() const override {
    return here_ ? "" : "rank 1: MPI_Init has not returned (nothing has been heard of rank 2)";
  }
  bool tells_others() const override { return true; }
  void tell(const std::string& why) override { std::fprintf(stderr, "told: %s\n", why.c_str()); }

 private:
  bool here_;
};

void wait_for_ever() { std::this_thread::sleep_for(std::chrono::minutes(10)); }

TEST(Patience, EndsAProcessThatIsKept) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto kept = [] {
    const Patience guard("MPI_Wait", milliseconds(100), "some rank does not come");
    wait_for_ever();
  };
  EXPECT_EXIT(kept(), ExitedWithCode(EXIT_FAILURE),
              "error: MPI_Wait has not returned for 0.1 s \\(RONDO_MPI_TIMEOUT\\); some rank does "
              "not come");
}

TEST(Patience, SaysWhoHasEnded) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto kept = [] {
    const Patience guard("MPI_Finalize", std::chrono::hours(1), "some rank does not come",
                         std::make_shared<Ended>());
    wait_for_ever();
  };
  EXPECT_EXIT(kept(), ExitedWithCode(EXIT_FAILURE),
              "error: MPI_Finalize does not return: rank 1 \\(process 4242\\) has ended");
}

// Once is enough.
TEST(Patience, DoesNotRepeatWhatAnotherRankHasSaid) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto kept = [] {
    const Patience guard("MPI_Finalize", std::chrono::hours(1), "some rank does not come",
                         std::make_shared<Failed>());
    wait_for_ever();
  };
  EXPECT_EXIT(kept(), ExitedWithCode(EXIT_FAILURE), "^$");
  const auto asked = [] {
    const Patience guard("MPI_Finalize", std::chrono::hours(1), "some rank does not come",
                         std::make_shared<Missed>(false));
    std::this_thread::sleep_for(milliseconds(500));
    kill(getpid(), SIGTERM);
    wait_for_ever();
  };
  EXPECT_EXIT(asked(), KilledBySignal(SIGTERM), "^$");
}

TEST(Patience, SaysWhoIsMissing) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const bool here : {true, false}) {
    const auto kept = [&] {
      const Patience guard("MPI_Init", milliseconds(100), "some rank has not started",
                           std::make_shared<Missed>(here));
      wait_for_ever();
    };
    const std::string own =
        "MPI_Init has not returned for 0.1 s \\(RONDO_MPI_TIMEOUT\\); some rank has not started "
        "\\(nothing has been heard of rank 2\\)";
    EXPECT_EXIT(kept(), ExitedWithCode(EXIT_FAILURE),
                here ? concat("told: ", own, "\nerror: ", own)
                     : "error: MPI_Init does not return: rank 1: MPI_Init has not returned "
                       "\\(nothing has been heard of rank 2\\)");
  }
}

// A launcher that misses a rank sends SIGTERM to the others.
TEST(Patience, SaysWhoIsMissingWhenItIsAskedToEnd) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto asked = [](const std::shared_ptr<Watch>& watch) {
    const Patience guard("MPI_Init", std::chrono::hours(1), "some rank has not started", watch);
    kill(getpid(), SIGTERM);
    wait_for_ever();
  };
  EXPECT_EXIT(
      asked(std::make_shared<Missed>(true)), KilledBySignal(SIGTERM),
      "^told: nothing has been heard of rank 2\nerror: MPI_Init does not return: nothing has "
      "been heard of rank 2\n$");
  EXPECT_EXIT(asked(nullptr), KilledBySignal(SIGTERM), "^$");
}

// It is not lost either where the call returns after all.
TEST(Patience, EndsAProcessThatWasAskedToWhenTheCallReturns) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto asked = [] {
    {
      const Patience guard("MPI_Init", std::chrono::hours(1), "", std::make_shared<Missed>(false));
      raise(SIGTERM);
    }
    wait_for_ever();
  };
  EXPECT_EXIT(asked(), KilledBySignal(SIGTERM), "");
}

TEST(Patience, LeavesAProgramItsOwnHandler) {
  static int seen = 0;
  const auto before = std::signal(SIGTERM, [](int signal) { seen = signal; });
  {
    const Patience guard("MPI_Init", std::chrono::hours(1), "", std::make_shared<Missed>(true));
    raise(SIGTERM);
  }
  EXPECT_EQ(seen, SIGTERM);
  std::signal(SIGTERM, before);
}

// The others may end in order while this rank has a little left to do.
TEST(Patience, LetsGoOfWhatReturns) {
  for (int i = 0; i < 100; ++i) {
    const Patience guard("MPI_Finalize", std::chrono::hours(1), "some rank does not come",
                         std::make_shared<Ended>());
  }
}

TEST(Patience, TheEnvironmentOutranksTheProgram) {
  const test::Environment soon("RONDO_MPI_TIMEOUT", "soon");
  EXPECT_THROW(Patience("MPI_Init", std::chrono::hours(1), "some rank does not come"), CommError);
}

}  // namespace
}  // namespace rondo::dist
