#include "dist/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
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
  // The shell of a batch job is no step of four tasks.
  EXPECT_FALSE(read({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}).has_value());
  // mpirun inside such a job knows better.
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

std::string job_in(const std::map<std::string, std::string>& environment) {
  const auto launcher = read(environment);
  return launcher ? launcher->job : "no launcher";
}

TEST(Launcher, AJobHasANameOfItsOwn) {
  std::map<std::string, std::string> ompi = {
      {"OMPI_COMM_WORLD_RANK", "1"},
      {"OMPI_COMM_WORLD_SIZE", "2"},
      {"PMIX_NAMESPACE", "435486721"},
      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
      {"OMPI_MCA_ess_base_jobid", "435486721"},
      {"OMPI_MCA_orte_precondition_transports", "a603c3f220557c84-d37d4d3e8eb46323"}};
  const std::string name = job_in(ompi);
  EXPECT_THAT(name, testing::MatchesRegex("[0-9a-f]{16}"));
  EXPECT_EQ(read(ompi)->secret, "a603c3f220557c84-d37d4d3e8eb46323");
  ompi["OMPI_COMM_WORLD_RANK"] = "0";
  EXPECT_EQ(job_in(ompi), name) << "on all ranks";
  ompi["PMIX_NAMESPACE"] = "435486722";  // what MPI_Comm_spawn starts
  EXPECT_NE(job_in(ompi), name);
  ompi["SLURM_JOB_ID"] = "7";
  const std::string in_slurm = job_in(ompi);
  ompi["SLURM_JOB_ID"] = "8";
  EXPECT_EQ(job_in(ompi), in_slurm) << "mpirun in a Slurm job has a name of its own";

  std::map<std::string, std::string> slurm = {{"SLURM_PROCID", "1"},
                                              {"SLURM_STEP_NUM_TASKS", "4"},
                                              {"SLURM_JOB_ID", "7"},
                                              {"SLURM_STEP_ID", "0"},
                                              {"PMIX_NAMESPACE", "slurm.pmix.7.0"}};
  std::set<std::string> names = {job_in(slurm)};
  slurm["SLURM_PROCID"] = "2";
  names.insert(job_in(slurm));
  EXPECT_EQ(names.size(), 1u);
  for (const char* variable : {"SLURM_STEP_ID", "SLURM_RESTART_COUNT", "SLURM_JOB_ID"}) {
    slurm[variable] = "1";
    names.insert(job_in(slurm));
  }
  EXPECT_EQ(names.size(), 4u) << "a job that is requeued has another name";
  EXPECT_EQ(read(slurm)->secret, "");

  // Open MPI below srun makes one of the job's number.
  slurm["OMPI_MCA_orte_precondition_transports"] = "0107632700000000-0107632700000000";
  EXPECT_EQ(read(slurm)->secret, "");
  slurm["RONDO_JOB_SECRET"] = "0123456789abcdef";
  EXPECT_EQ(read(slurm)->secret, "0123456789abcdef");
  EXPECT_TRUE(names.contains(job_in(slurm)));

  EXPECT_NE(job_in({{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "prterun-node1-42@1"}}), "");
  EXPECT_EQ(job_in({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}), "");
  // Hydra's daemons are a step of Slurm's, with other numbers.
  EXPECT_EQ(job_in({{"PMI_RANK", "1"},
                    {"PMI_SIZE", "4"},
                    {"SLURM_JOB_ID", "7"},
                    {"SLURM_PROCID", "0"},
                    {"SLURM_STEP_NUM_TASKS", "1"}}),
            "");
}

TEST(Launcher, ASecretIsLongAndPlain) {
  const auto with = [](const char* secret) {
    return std::map<std::string, std::string>{
        {"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"RONDO_JOB_SECRET", secret}};
  };
  EXPECT_EQ(read(with("0123-4567-89ab-CDEF"))->secret, "0123-4567-89ab-CDEF");
  for (const char* wrong : {"", "short", "0123456789abcde ", "0123456789abcdef\n"})
    EXPECT_EQ(failure_of(with(wrong)),
              "RONDO_JOB_SECRET is not 16 to 200 letters, digits and hyphens");
}

TEST(Launcher, NonsenseNamesTheVariable) {
  EXPECT_EQ(failure_of({{"PMI_RANK", "0"}}),
            "the launcher's environment is incomplete: PMI_SIZE is not set");
  EXPECT_EQ(failure_of({{"PMI_RANK", "one"}, {"PMI_SIZE", "2"}}),
            "the launcher's environment makes no sense: PMI_RANK is \"one\"");
  EXPECT_EQ(failure_of({{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}}),
            "the launcher's environment makes no sense: PMI_RANK is 2 and PMI_SIZE is 2");
  EXPECT_NE(failure_of({{"PMI_RANK", "-1"}, {"PMI_SIZE", "2"}}), "");
  EXPECT_NE(failure_of({{"PMI_RANK", "0"}, {"PMI_SIZE", "2x"}}), "");
}

}  // namespace
}  // namespace rondo::dist
