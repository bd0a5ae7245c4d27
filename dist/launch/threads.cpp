#include "dist/launch/threads.h"

#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

#include "dist/launch/host.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Reads the limits of a group and of all groups above it: the smallest counts.
template <class Read>
void walk_up(std::string group, Read read) {
  while (true) {
    read(group);
    if (group.empty()) return;
    group.erase(group.find_last_of('/'));
  }
}

std::optional<double> limit_v2(const std::string& directory) {
  std::istringstream line(first_line(directory + "/cpu.max"));
  double quota, period;
  if (line >> quota >> period && quota > 0 && period > 0) return quota / period;
  return std::nullopt;  // "max 100000", or the file does not exist
}

std::optional<double> limit_v1(const std::string& directory) {
  std::istringstream line(first_line(directory + "/cpu.cfs_quota_us") + " " +
                          first_line(directory + "/cpu.cfs_period_us"));
  double quota, period;
  if (line >> quota >> period && quota > 0 && period > 0) return quota / period;
  return std::nullopt;  // -1: no limit
}

bool has_controller(const std::string& list, const std::string& name) {
  return ("," + list + ",").find("," + name + ",") != std::string::npos;
}

}  // namespace

std::vector<int> affinity() {
  std::vector<int> cpus;
  for (int limit = 1024; limit <= 65536; limit *= 4) {
    cpu_set_t* set = CPU_ALLOC(limit);
    std::size_t size = CPU_ALLOC_SIZE(limit);
    CPU_ZERO_S(size, set);
    bool ok = sched_getaffinity(0, size, set) == 0;
    for (int cpu = 0; ok && cpu < limit; ++cpu) {
      if (CPU_ISSET_S(cpu, size, set)) cpus.push_back(cpu);
    }
    CPU_FREE(set);
    if (ok) break;  // otherwise the machine has more CPUs than the set: try a larger one
  }
  return cpus;
}

int physical_cores(const std::vector<int>& cpus, const std::string& root) {
  std::set<std::string> cores;
  for (int cpu : cpus) {
    std::string topology = concat(root, "/sys/devices/system/cpu/cpu", cpu, "/topology/");
    std::string siblings = first_line(topology + "thread_siblings_list");
    cores.insert(siblings.empty() ? std::to_string(cpu) : siblings);
  }
  return std::max<int>(1, static_cast<int>(cores.size()));
}

std::optional<double> cgroup_cpus(const std::string& root) {
  std::optional<double> least;
  auto take = [&](std::optional<double> limit) {
    if (limit) least = std::min(least.value_or(*limit), *limit);
  };
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    // "0::/user.slice" (version 2) or "4:cpu,cpuacct:/docker/…" (version 1)
    auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    std::string controllers = line.substr(first + 1, second - first - 1);
    std::string group = line.substr(second + 1);
    if (group == "/" || !group.starts_with("/")) group.clear();
    if (controllers.empty()) {
      walk_up(group, [&](const std::string& g) { take(limit_v2(root + "/sys/fs/cgroup" + g)); });
    } else if (has_controller(controllers, "cpu")) {
      for (const char* mount : {"/cpu", "/cpu,cpuacct"}) {
        walk_up(group,
                [&](const std::string& g) { take(limit_v1(root + "/sys/fs/cgroup" + mount + g)); });
      }
    }
  }
  return least;
}

Placement place(Communicator& comm) {
  std::vector<int> mine = affinity();
  std::ostringstream text;
  text << host() << '\n';
  for (int cpu : mine) text << cpu << ' ';
  auto all = comm.all_gather_bytes(text.str());
  Placement placement{.local_rank = 0, .local_size = 0, .host = host()};
  int sharing = 0;
  std::set<int> cpus(mine.begin(), mine.end());
  for (int r = 0; r < comm.world_size(); ++r) {
    std::istringstream other(all[r]);
    std::string name;
    std::getline(other, name);
    if (name != host()) continue;
    if (r < comm.rank()) ++placement.local_rank;
    ++placement.local_size;
    bool overlaps = false;
    for (int cpu; other >> cpu;) overlaps |= cpus.contains(cpu);
    sharing += overlaps;
  }
  int threads = physical_cores(mine) / std::max(sharing, 1);
  if (auto quota = cgroup_cpus()) {
    threads = std::min(threads, static_cast<int>(*quota / placement.local_size));
  }
  placement.threads = std::max(threads, 1);
  return placement;
}

std::shared_ptr<Communicator> machine_group(Communicator& comm) {
  const std::vector<std::string> hosts = comm.all_gather_bytes(host());
  std::shared_ptr<Communicator> mine;
  std::set<std::string> seen;
  for (const std::string& machine : hosts) {
    if (!seen.insert(machine).second) continue;
    std::vector<int> ranks;
    for (int r = 0; r < comm.world_size(); ++r) {
      if (hosts[static_cast<std::size_t>(r)] == machine) ranks.push_back(r);
    }
    if (auto group = comm.new_group(ranks))
      mine = std::move(group);  // collective: one group after another
  }
  return mine;
}

int omp_num_threads(const std::string& list) {
  std::size_t begin = std::min(list.find_first_not_of(" \t\n\v\f\r"), list.size());
  if (begin < list.size() && list[begin] == '+') ++begin;
  int value = 0;
  const auto [end, error] = std::from_chars(list.data() + begin, list.data() + list.size(), value);
  if (error == std::errc::result_out_of_range) return std::numeric_limits<int>::max();
  const bool ends = end == list.data() + list.size() || *end == ',' || *end == ' ';
  return error == std::errc() && ends && value > 0 ? value : 0;
}

int use_threads(Communicator& comm, int requested) {
  require(requested >= 0, "use_threads: ", requested,
          " threads, but must not be negative (0: this rank's share of the cores)");
  int threads = place(comm).threads;  // collective, even if some ranks have `requested` set
  if (requested > 0) {
    threads = requested;
  } else if (const char* text = std::getenv("OMP_NUM_THREADS");
             text != nullptr && omp_num_threads(text) > 0) {
    threads = omp_get_max_threads();
  }
  require(threads <= most_threads, threads, " threads a rank; at most ", most_threads,
          " are possible");
  omp_set_num_threads(threads);
  return threads;
}

}  // namespace rondo::dist
