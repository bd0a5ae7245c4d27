#pragma once
// How many OpenMP threads a rank should use, so that the ranks of a machine share its cores instead
// of fighting for them.
//
//   threads = physical cores in this rank's affinity mask
//             / local ranks whose masks overlap with it,
//             at most the cgroup's CPU quota / local ranks, at least 1
//
// mpirun binds each rank to one core unless told otherwise: `mpirun --bind-to none` leaves the
// whole machine to all ranks, which this divides; `--map-by slot:PE=4 --bind-to core` gives each
// rank four.

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

/// Where this rank stands. Collective.
Placement place(Communicator& comm);

/// The communicator of the ranks that are on this rank's machine. Collective.
std::shared_ptr<Communicator> machine_group(Communicator& comm);

/// Of a rank: each takes a stack and a scratch buffer, and no machine has more cores than this.
inline constexpr int most_threads = 4096;

/// Sets the number of OpenMP threads of the calling thread to `requested`, or, where that is 0, to
/// OMP_NUM_THREADS, or, where that is not set, to place(comm).threads; returns it. Throws Error
/// above most_threads. Collective.
int use_threads(Communicator& comm, int requested = 0);

/// The logical CPUs this thread may run on.
std::vector<int> affinity();
/// Of those, how many physical cores: threads of one core share its arithmetic units.
int physical_cores(const std::vector<int>& cpus, const std::string& root = "");
/// The CPUs' worth of time that the control groups above this process allow (cpu.max of version 2,
/// cpu.cfs_quota_us of version 1); nothing where there is no limit. `root` stands before /proc and
/// /sys, for tests.
std::optional<double> cgroup_cpus(const std::string& root = "");

}  // namespace rondo::dist
