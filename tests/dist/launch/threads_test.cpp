#include "dist/launch/threads.h"

#include <gtest/gtest.h>
#include <omp.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "support/environment.h"
#include "support/ranks.h"

namespace rondo::dist {
namespace {

namespace fs = std::filesystem;

// A simulated /proc and /sys.
class ThreadsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) /
            ("rondo_threads_" + std::to_string(::getpid()) + "_" +
             testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(root_);
  }
  void TearDown() override { fs::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }
  std::string root() const { return root_.string(); }
  fs::path root_;
};

TEST_F(ThreadsTest, NoControlGroupsNoLimit) { EXPECT_FALSE(cgroup_cpus(root()).has_value()); }

TEST_F(ThreadsTest, Version2TakesTheLeastOfAllLevels) {
  write("proc/self/cgroup", "0::/a/b");
  write("sys/fs/cgroup/a/b/cpu.max", "max 100000");
  EXPECT_FALSE(cgroup_cpus(root()).has_value());
  write("sys/fs/cgroup/a/cpu.max", "250000 100000");
  EXPECT_DOUBLE_EQ(cgroup_cpus(root()).value(), 2.5);
  write("sys/fs/cgroup/cpu.max", "100000 100000");
  EXPECT_DOUBLE_EQ(cgroup_cpus(root()).value(), 1.0);
}

TEST_F(ThreadsTest, Version2InsideANamespace) {
  write("proc/self/cgroup", "0::/");
  write("sys/fs/cgroup/cpu.max", "400000 100000");
  EXPECT_DOUBLE_EQ(cgroup_cpus(root()).value(), 4.0);
}

TEST_F(ThreadsTest, Version1) {
  write("proc/self/cgroup", "5:memory:/x\n4:cpu,cpuacct:/docker/y");
  write("sys/fs/cgroup/cpu,cpuacct/docker/y/cpu.cfs_quota_us", "-1");
  write("sys/fs/cgroup/cpu,cpuacct/docker/y/cpu.cfs_period_us", "100000");
  EXPECT_FALSE(cgroup_cpus(root()).has_value());
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "150000");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "50000");
  EXPECT_DOUBLE_EQ(cgroup_cpus(root()).value(), 3.0);
}

TEST_F(ThreadsTest, SiblingsAreOneCore) {
  for (int cpu : {0, 1, 2, 3}) {
    write("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
          cpu % 2 == 0 ? "0,2" : "1,3");
  }
  EXPECT_EQ(physical_cores({0, 1, 2, 3}, root()), 2);
  EXPECT_EQ(physical_cores({0, 2}, root()), 1);
  EXPECT_EQ(physical_cores({}, root()), 1);
  EXPECT_EQ(physical_cores({7, 8}, root()), 2);  // topology unknown: each CPU counts as a core
}

TEST(Threads, RanksOfOneMachineShareItsCores) {
  int cores = physical_cores(affinity());
  for (int n : {1, 2, 3}) {
    test::on_ranks(n, [&](auto comm) {
      Placement placement = place(*comm);
      EXPECT_EQ(placement.local_rank, comm->rank());
      EXPECT_EQ(placement.local_size, n);
      EXPECT_GE(placement.threads, 1);
      EXPECT_LE(placement.threads, std::max(1, cores / n));
    });
  }
}

TEST(Threads, TheRequestWins) {
  test::on_ranks(1, [](auto comm) {
    int before = omp_get_max_threads();
    EXPECT_EQ(use_threads(*comm, 3), 3);
    EXPECT_EQ(omp_get_max_threads(), 3);
    omp_set_num_threads(before);
  });
}

TEST(Threads, AnInvalidOmpNumThreadsIsAsIfUnset) {
  EXPECT_EQ(omp_num_threads("4"), 4);
  EXPECT_EQ(omp_num_threads(" 4,2"), 4);
  EXPECT_EQ(omp_num_threads("\t+4"), 4);
  EXPECT_GT(omp_num_threads("99999999999"), 4096);  // use_threads refuses it
  for (const char* text : {"", "0", "-3", "some", "4x", "+"})
    EXPECT_EQ(omp_num_threads(text), 0) << text;
  const test::Environment wrong("OMP_NUM_THREADS", "4x");
  test::on_ranks(1, [](auto comm) {
    const int before = omp_get_max_threads();
    omp_set_num_threads(7);
    EXPECT_EQ(use_threads(*comm), place(*comm).threads);
    omp_set_num_threads(before);
  });
}

}  // namespace
}  // namespace rondo::dist
