#include "dist/launch/launcher.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>

#include "tensor/error.h"

namespace rondo::dist {
namespace {

std::optional<Launcher> read(const std::map<std::string, std::string>& environment) {
  return read_launcher([&](const char* name) -> const char* {
    auto it = environment.find(name);
    return it == environment.end() ? nullptr : it->second.c_str();
  });
}

std::string failure_of(const std::map<std::string, std::string>& environment) {
  try {
    read(environment);
  } catch (const CommError& e) {
    return e.what();
  }
  return "";
}

TEST(Launcher, NoneIsNone) { EXPECT_FALSE(read({{"PATH", "/bin"}}).has_value()); }

TEST(Launcher, KnowsTheUsualOnes) {
  for (std::string prefix : {"OMPI_COMM_WORLD_", "MV2_COMM_WORLD_", "PMI_"}) {
    auto launcher = read({{prefix + "RANK", "2"}, {prefix + "SIZE", "4"}});
    ASSERT_TRUE(launcher.has_value()) << prefix;
    EXPECT_EQ(launcher->rank, 2);
    EXPECT_EQ(launcher->size, 4);
  }
}

TEST(Launcher, KnowsSlurmAndPmix) {
  auto launcher = read({{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"PMIX_RANK", "1"}});
  ASSERT_TRUE(launcher.has_value());
  EXPECT_EQ(launcher->rank, 1);
  EXPECT_EQ(launcher->size, 4);
  // The shell of a batch job is not a step of four tasks.
  EXPECT_FALSE(read({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}).has_value());
  // mpirun inside such a job takes precedence.
  launcher = read({{"SLURM_PROCID", "0"},
                   {"SLURM_STEP_NUM_TASKS", "1"},
                   {"OMPI_COMM_WORLD_RANK", "2"},
                   {"OMPI_COMM_WORLD_SIZE", "3"}});
  ASSERT_TRUE(launcher.has_value());
  EXPECT_EQ(launcher->size, 3);
  launcher = read({{"PMIX_RANK", "3"}});
  ASSERT_TRUE(launcher.has_value());
  EXPECT_EQ(launcher->rank, 3);
  EXPECT_EQ(launcher->size, Launcher::unknown);
}

TEST(Launcher, TorchrunIsRefused) {
  EXPECT_NE(failure_of({{"TORCHELASTIC_RUN_ID", "none"}, {"WORLD_SIZE", "2"}, {"RANK", "0"}}), "");
  EXPECT_FALSE(read({{"TORCHELASTIC_RUN_ID", "none"}, {"WORLD_SIZE", "1"}}).has_value());
  EXPECT_FALSE(read({{"WORLD_SIZE", "2"}, {"RANK", "0"}}).has_value());
}

TEST(Launcher, NonsenseNamesTheVariable) {
  EXPECT_EQ(failure_of({{"PMI_RANK", "0"}}),
            "the launcher's environment is incomplete: PMI_SIZE is not set");
  EXPECT_EQ(failure_of({{"PMI_RANK", "one"}, {"PMI_SIZE", "2"}}),
            "the launcher's environment is invalid: PMI_RANK is \"one\"");
  EXPECT_EQ(failure_of({{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}}),
            "the launcher's environment is invalid: PMI_RANK is 2 and PMI_SIZE is 2");
  EXPECT_NE(failure_of({{"PMI_RANK", "-1"}, {"PMI_SIZE", "2"}}), "");
  EXPECT_NE(failure_of({{"PMI_RANK", "0"}, {"PMI_SIZE", "2x"}}), "");
}

}  // namespace
}  // namespace rondo::dist
