#pragma once
// How many OpenMP threads a rank should use, so that the ranks of a machine share its cores and do
// not compete for them.
//
//   threads = physical cores in this rank's affinity mask
//             / local ranks whose masks overlap with it,
//             at most the cgroup's CPU quota / local ranks, at least 1
//
// mpirun binds each rank to one core by default. `mpirun --bind-to none` lets all ranks use the
// whole machine, which this function divides among them. `--map-by slot:PE=4 --bind-to core` gives
// each rank four cores.

#include <optional>
#include <string>
#include <vector>

#include "dist/collectives/communicator.h"

namespace rondo::dist {

struct Placement {
  int local_rank = 0;  // among the ranks on this machine
  int local_size = 1;
  int threads = 1;
  std::string host;  // the same text on all ranks of one machine
};

/// The placement of this rank on its machine. Collective.
Placement place(Communicator& comm);

/// The communicator of the ranks that are on this rank's machine. Collective.
std::shared_ptr<Communicator> machine_group(Communicator& comm);

/// The limit for a rank. Each thread needs a stack and a scratch buffer, and no machine has more
/// cores.
inline constexpr int most_threads = 4096;

/// The first number of a value of OMP_NUM_THREADS ("4" or "4,2"); 0 if it is invalid. GCC's OpenMP
/// ignores invalid values, and clang 14's may start any number of threads.
int omp_num_threads(const std::string& list);

/// Sets the number of OpenMP threads of the calling thread, and returns it: `requested`; or, if
/// that is 0, OMP_NUM_THREADS; or, if that is not set or invalid, place(comm).threads. Throws Error
/// above most_threads. Collective.
int use_threads(Communicator& comm, int requested = 0);

/// The logical CPUs on which this thread may run.
std::vector<int> affinity();
/// The number of physical cores of `cpus`: logical CPUs of one core share its arithmetic units.
int physical_cores(const std::vector<int>& cpus, const std::string& root = "");
/// The CPU time per second of the quota of this process's control groups (cpu.max of version 2,
/// cpu.cfs_quota_us of version 1); empty without a limit. `root` is prepended to /proc and
/// /sys, for tests.
std::optional<double> cgroup_cpus(const std::string& root = "");

}  // namespace rondo::dist
