// Strict start-up in one process: cases that tests/mpi/ cannot test, because its launcher is
// correct.

#include "dist/launch/init.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "dist/launch/environment.h"
#include "dist/launch/world.h"
#include "support/environment.h"
#include "support/errors.h"
#include "support/files.h"
#include "tensor/creation.h"

namespace rondo::dist {
namespace {

using ::testing::HasSubstr;

class InitTest : public ::testing::Test {
 protected:
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }
  static void clear() {
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE",
                             "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"}) {
      unsetenv(name);
    }
  }
  static std::string failure_of(InitOptions options) {
    try {
      init(options);
    } catch (const CommError& e) {
      return e.what();
    }
    return "";
  }
};

TEST_F(InitTest, AFolderInTheEnvironmentIsMadeOrRefused) {
  const test::TemporaryFolder folder;
  const char* name = "RONDO_FLIGHT_RECORD";
  const auto asked = [&](const char* value) {
    const test::Environment set(name, value);
    return folder_from_environment(name);
  };
  EXPECT_TRUE(asked(nullptr).empty());
  EXPECT_TRUE(asked("").empty());
  const std::string made = folder / "a/b", file = folder / "file";
  EXPECT_EQ(asked(made.c_str()), made);
  EXPECT_TRUE(std::filesystem::is_directory(made));
  test::write_file(file, "x");
  EXPECT_ERROR(asked(file.c_str()), IoError,
               concat(name, "=", file, ": cannot write to this folder: "));
  const test::Environment set(name, file.c_str());
  EXPECT_ERROR(init(), IoError, "cannot write to this folder: Not a directory");
}

TEST_F(InitTest, WithoutALauncherAWorldOfOne) {
  auto comm = init();
  EXPECT_EQ(comm->rank(), 0);
  EXPECT_EQ(comm->world_size(), 1);
  EXPECT_STREQ(comm->backend(), "self");
  Tensor x = full({3}, 2.0);
  comm->all_reduce(x, ReduceOp::avg);
  comm->broadcast(x);
  comm->barrier();
  EXPECT_EQ(x.to_vector(), (std::vector<float>{2, 2, 2}));
}

TEST_F(InitTest, ASecondTimeTheRecordsGoOn) {
  const auto first = init();
  const std::size_t before = first->recorder()->records().size();
  first->barrier();
  const auto second = init();
  second->barrier();
  EXPECT_EQ(world().recorder->records().size(), before + 2);
  EXPECT_EQ(second->recorder(), world().recorder);
}

TEST_F(InitTest, SeveralRanksAreNeverAWorldOfOne) {
  setenv("PMI_RANK", "1", 1);
  setenv("PMI_SIZE", "3", 1);
  EXPECT_EQ(
      failure_of({.backend = "self"}),
      "dist::init: a PMI launcher (PMI_SIZE) started 3 ranks, but the backend self is a world "
      "of one");
}

TEST_F(InitTest, UnknownBackend) {
  EXPECT_EQ(
      failure_of({.backend = "gloo"}),
      "dist::init: unknown backend \"gloo\"; use one of auto, mpi, self; for GPUs call "
      "dist::use_device(*comm, \"cuda\") after dist::init, which uses NCCL if it is installed");
}

TEST_F(InitTest, RunReturnsTheBodysValueAndReportsFailures) {
  EXPECT_EQ(run([] { return 3; }), 3);
  testing::internal::CaptureStderr();
  init();
  EXPECT_NE(run([]() -> int { throw Error("no such file"); }), 0);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "error: no such file\n");
}

}  // namespace
}  // namespace rondo::dist
