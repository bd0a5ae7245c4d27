#include "extras/doctor/findings.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <set>

#include "dist/launch/threads.h"
#include "extras/doctor/network_findings.h"
#include "tensor/error.h"

namespace rondo::doctor {
namespace {

using Findings = std::vector<Finding>;
using enum Severity;

constexpr double far_slower_compute = 0.7;  // of the median: clocks and noise do not explain less
constexpr double far_slower_memory = 0.5;
constexpr std::int64_t gib = std::int64_t{1} << 30, mib = std::int64_t{1} << 20;

template <class... Parts>
void add(Findings& all, Severity severity, const char* name, const Parts&... parts) {
  all.push_back({severity, name, concat(parts...)});
}

/// The ranks of each machine. Containers with the same kernel are one machine, because they share
/// its cores.
std::map<std::string, std::vector<const Rank*>> machines(const Facts& facts) {
  std::map<std::string, std::vector<const Rank*>> all;
  for (const Rank& rank : facts.ranks)
    all[rank.boot_id.empty() ? rank.host : rank.boot_id].push_back(&rank);
  return all;
}

std::vector<int> numbers_of(const std::vector<const Rank*>& ranks) {
  std::vector<int> numbers;
  for (const Rank* rank : ranks) numbers.push_back(rank->rank);
  return numbers;
}

/// The ranks for which `is` is true, as text; may be empty.
std::string ranks_with(const Facts& facts, const std::function<bool(const Rank&)>& is) {
  std::vector<int> numbers;
  for (const Rank& rank : facts.ranks) {
    if (is(rank)) numbers.push_back(rank.rank);
  }
  return numbers.empty() ? "" : name_ranks(numbers);
}

std::set<int> cores_of(const std::vector<const Rank*>& ranks) {
  std::set<int> cores;
  for (const Rank* rank : ranks) cores.insert(rank->cpu.cores.begin(), rank->cpu.cores.end());
  return cores;
}

std::string plural(std::size_t n, const char* what) {
  return concat(n, ' ', what, n == 1 ? "" : "s");
}

// Reports at most one rank whose value differs from rank 0's.
void check_equal(Findings& all, const Facts& facts, Severity severity, const char* name,
                 const char* what, const std::function<std::string(const Rank&)>& value,
                 const char* advice) {
  const std::string first = value(facts.ranks.front());
  for (const Rank& rank : facts.ranks) {
    if (value(rank) == first) continue;
    add(all, severity, name, "rank ", rank.rank, " (", rank.host, ") has ", what, " ", value(rank),
        ", but rank 0 (", facts.ranks.front().host, ") has ", first, ": ", advice);
    return;
  }
}

void check_environment(Findings& all, const Facts& facts) {
  for (const Rank& rank : facts.ranks) {
    if (rank.environment_error.empty()) continue;
    add(all, broken, "environment", "rank ", rank.rank, " (", rank.host,
        ") has a setting with which no rondo program starts: ", rank.environment_error);
    return;
  }
}

void check_world(Findings& all, const Facts& facts) {
  if (!facts.init_error.empty()) {
    add(all, broken, "launcher", "the ranks do not find each other: ", facts.init_error);
    return;
  }
  const int n = static_cast<int>(facts.ranks.size());
  const int promised = facts.ranks.front().launcher_size;
  if (promised > 0 && promised != n)
    add(all, broken, "launcher", facts.ranks.front().launcher, " started ", promised,
        " ranks, but there is a world of ", n, ": use the mpirun of the MPI that rondo was built ",
        "with");
  check_equal(
      all, facts, broken, "versions", "rondo", [](const Rank& r) { return r.rondo; },
      "install the same build on all machines");
  check_equal(
      all, facts, broken, "versions", "the MPI", [](const Rank& r) { return r.mpi; },
      "install the same MPI on all machines");
  const std::string one_thread = ranks_with(facts, [](const Rank& r) {
    return r.thread_level == "single" || r.thread_level == "funneled";
  });
  if (!one_thread.empty())
    add(all, slow, "thread_level", "MPI of ", one_thread, " allows calls from one thread only, so ",
        "asynchronous all-reduces advance only while a rank waits for them: use an MPI that was "
        "built ",
        "with thread support");
}

void check_bits(Findings& all, const Facts& facts) {
  check_equal(
      all, facts, note, "isa", "kernels for", [](const Rank& r) { return r.cpu.isa; },
      "results differ in their last bits from a run on processors of one kind; set RONDO_ISA and "
      "ONEDNN_MAX_CPU_ISA on all ranks to what all of them support");
  check_equal(
      all, facts, note, "versions", "oneDNN", [](const Rank& r) { return r.onednn; },
      "results differ in their last bits from a run with one version");
}

/// Versions of oneDNN in which tests/tensor/onednn_scan_test.cpp found wrong results.
struct WrongVersion {
  const char *version, *isa, *what;
};
constexpr WrongVersion wrong_versions[] = {
    {"2.6.", "AVX-512",
     "gradients of strided 1x1 filters in f32 (it writes beyond its buffer), gradients of "
     "single channels in bf16, and int8 convolutions of groups with a zero point"},
    {"2.6.", "AVX2", "int8 convolutions with strided 1x1 filters"},
    {"3.7.", "AVX-512",
     "products of f32 matrices of one row or column with gaps, convolutions of which some "
     "outputs see only padding, convolutions of single channels that are one output wide, and "
     "gradients in bf16 of strided 1x1 filters with an odd number of outputs"},
    {"3.12.", "AVX2", "batches of products of f32 matrices of one row or column with gaps"},
};

void check_onednn(Findings& all, const Facts& facts) {
  for (const Rank& rank : facts.ranks) {
    for (const auto& [version, isa, what] : wrong_versions) {
      if (rank.cpu.has.find(isa) == std::string::npos || !rank.onednn.starts_with(version))
        continue;
      add(all, note, "onednn", "with ", isa, ", oneDNN ", rank.onednn,
          " gives wrong results for some ", what,
          ": rondo avoids them, but other programs may not");
      return;
    }
  }
}

// Equal masks are intended (--bind-to none), as long as there are enough cores.
void check_affinity(Findings& all, const std::vector<const Rank*>& ranks) {
  const std::set<int> cores = cores_of(ranks);
  const auto usable = static_cast<std::size_t>(std::max(ranks.front()->cpu.usable_cores, 1));
  if (ranks.size() > std::max(usable, cores.size())) {
    add(all, slow, "ranks", ranks.front()->host, " runs ", ranks.size(), " ranks on ",
        plural(usable, "core"), ": start no more ranks than there are cores");
    return;
  }
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const Rank& a = *ranks[i];
    std::vector<const Rank*> rivals = {&a};  // a and all ranks whose masks share a CPU with it
    bool equal = true;
    for (const Rank* b : ranks) {
      std::vector<int> both;
      std::ranges::set_intersection(a.cpu.mask, b->cpu.mask, std::back_inserter(both));
      if (b == &a || both.empty()) continue;
      rivals.push_back(b);
      equal = equal && b->cpu.mask == a.cpu.mask;
    }
    const std::size_t room = cores_of(rivals).size();
    if (rivals.size() == 1 || (equal && room >= rivals.size())) continue;
    add(all, slow, "affinity", "the affinities of ", name_ranks(numbers_of(rivals)), " on ", a.host,
        " overlap (", plural(room, "core"), "), so they wait for each other's threads: start ",
        "them with mpirun --bind-to none, or --map-by slot:pe=N --bind-to core");
    return;
  }
  // CPUs beyond the quota of the control group are not idle cores.
  const double quota = ranks.front()->cpu.quota;
  const double allowed =
      quota > 0 ? std::min(static_cast<double>(usable), quota) : static_cast<double>(usable);
  if (static_cast<double>(cores.size()) <= allowed / 2)
    add(all, slow, "idle_cores", name_ranks(numbers_of(ranks)), " on ", ranks.front()->host,
        ranks.size() == 1 ? " is" : " are", " bound to ", plural(cores.size(), "core"), " of ",
        static_cast<int>(allowed), ": start them with mpirun --bind-to none, or --map-by ",
        "slot:pe=N --bind-to core");
}

void check_threads(Findings& all, const Facts& facts) {
  const Rank& first = facts.ranks.front();
  check_equal(
      all, facts, note, "omp", "OMP_NUM_THREADS",
      [](const Rank& r) { return r.threads.wanted.empty() ? "unset" : r.threads.wanted; },
      "set it on all ranks (mpirun -x OMP_NUM_THREADS) or on none");
  for (const Rank& rank : facts.ranks) {
    const std::string& wanted = rank.threads.wanted;
    if (wanted.empty()) continue;
    const int number = dist::omp_num_threads(wanted);
    if (number == 0) {
      add(all, slow, "omp", "OMP_NUM_THREADS is \"", wanted, "\" on rank ", rank.rank,
          ", which is not a number of threads: unset it, and rondo gives each rank its share of "
          "the ",
          "cores");
      return;
    }
    if (number > dist::most_threads) {
      add(all, broken, "omp", "OMP_NUM_THREADS=", wanted, " on rank ", rank.rank,
          " is above the maximum of ", dist::most_threads, " threads: unset it");
      return;
    }
  }
  if (!first.threads.wanted.empty() && first.threads.used * 2 <= first.threads.share)
    add(all, slow, "omp", "OMP_NUM_THREADS=", first.threads.wanted, " leaves rank 0 with ",
        plural(static_cast<std::size_t>(first.threads.used), "thread"), ", but its share is ",
        plural(static_cast<std::size_t>(first.threads.share), "core"), ": unset it");
}

void check_crowd(Findings& all, const std::vector<const Rank*>& ranks) {
  int threads = 0;
  for (const Rank* rank : ranks) threads += rank->threads.used;
  const Cpu& cpu = ranks.front()->cpu;
  const int cores = static_cast<int>(cores_of(ranks).size());
  const int size = static_cast<int>(ranks.size());
  const std::string who = concat(name_ranks(numbers_of(ranks)), " on ", ranks.front()->host,
                                 " use ", plural(static_cast<std::size_t>(threads), "thread"));
  auto advice = [&](double cpus) {
    return concat(ranks.front()->threads.wanted.empty() ? ": set OMP_NUM_THREADS to "
                                                        : ": unset OMP_NUM_THREADS, or set it to ",
                  std::max(static_cast<int>(cpus / size), 1));
  };
  if (cpu.quota > 0 && cpu.quota < size) {
    add(all, slow, "quota", "the control group on ", ranks.front()->host, " allows ", cpu.quota,
        " CPUs for ", plural(ranks.size(), "rank"),
        ": raise its quota (docker --cpus, Kubernetes' limits) or start fewer ranks");
  } else if (threads > cores && threads > size) {
    add(all, slow, "threads", who, " on ", plural(static_cast<std::size_t>(cores), "core"),
        advice(cores));
  } else if (cpu.quota > 0 && threads > std::ceil(cpu.quota)) {
    add(all, slow, "threads", who, " where the control group allows ", cpu.quota, " CPUs",
        advice(cpu.quota));
  }
}

void check_memory(Findings& all, const std::vector<const Rank*>& ranks) {
  const Rank& first = *ranks.front();
  const Memory& memory = first.memory;
  const std::string& host = first.host;
  if (ranks.size() > 1) {
    std::vector<const Rank*> apart;
    std::ranges::copy_if(ranks, std::back_inserter(apart),
                         [&](const Rank* r) { return !r->shares_memory || r->host != host; });
    if (!apart.empty()) {
      add(all, slow, "shared_memory", name_ranks(numbers_of(ranks)), " run on one machine (", host,
          "), but do not all share memory, so they use messages: start them in one container, or "
          "let the ",
          "containers share processes and names (docker --pid=container:NAME --uts=host)");
    } else if (!first.reads_peers) {
      add(all, note, "peer_memory", "ranks on ", host, " may not read each other's memory ",
          memory.ptrace_scope > 0
              ? concat("(kernel.yama.ptrace_scope is ", memory.ptrace_scope, ")")
              : "(process_vm_readv is refused)",
          ", so tensors outside shared buffers are copied twice: sysctl ",
          "kernel.yama.ptrace_scope=0, or docker --cap-add SYS_PTRACE");
    }
  }
  if (memory.shm_total <= 64 * mib || memory.shm_free < 16 * mib)
    add(all, note, "shm", "/dev/shm on ", host, " has ", memory.shm_free / mib, " of ",
        memory.shm_total / mib, " MiB free; rondo does not need it, but MPI and NCCL may fail: ",
        "docker --shm-size=1g, or remove old files there");
  if (memory.total > 0 && memory.available < std::min(gib, memory.total / 10))
    add(all, note, "memory", host, " has only ", memory.available / mib, " MiB of ",
        memory.total / mib, " MiB free: a training run may be killed because memory runs out");
  if (first.infiniband && memory.locked_limit >= 0 && memory.locked_limit < gib)
    add(all, slow, "memlock", "processes on ", host, " may lock ", memory.locked_limit >> 10,
        " KiB of memory, too little for InfiniBand: set ulimit -l unlimited");
  if (memory.files_limit >= 0 && memory.files_limit < 256)
    add(all, note, "files", "processes on ", host, " may open ", memory.files_limit,
        " files: raise ulimit -n above 1024");
}

void check_gpus(Findings& all, const Facts& facts, const std::vector<const Rank*>& ranks) {
  const Rank& first = *ranks.front();
  const Gpus& gpus = first.gpus;
  if (gpus.devices.empty()) {
    if (gpus.cards > 0)
      add(all, note, "gpu", first.host, " has ",
          plural(static_cast<std::size_t>(gpus.cards), "NVIDIA card"),
          " that rondo cannot use: ", gpus.why_none, "; without it training runs on the CPU");
    return;
  }
  if (ranks.size() > gpus.devices.size())
    add(all, note, "gpu", first.host, " has ", plural(gpus.devices.size(), "GPU"), " for ",
        ranks.size(), " ranks: --device cuda needs one for each");
  if (facts.ranks.size() > 1 && !gpus.nccl_error.empty())
    add(all, slow, "nccl", "GPUs on ", first.host, " cannot use NCCL (", gpus.nccl_error,
        "): install NCCL 2.18 or later, or use --all-reduce mpi, which copies through the host's "
        "memory",
        first.cuda_aware ? "" : concat(", since this MPI has no CUDA support either"));
  else if (facts.ranks.size() > 1 && !first.mpi.empty() && !first.cuda_aware)
    add(all, note, "cuda_aware", "MPI on ", first.host,
        " was built without CUDA support: use NCCL for ",
        "GPUs, since --all-reduce mpi copies through the host's memory");
}

void check_speed(Findings& all, const Facts& facts, const char* name, const char* what,
                 const char* unit, double Rank::*value, double far_slower) {
  std::vector<double> values;
  for (const Rank& rank : facts.ranks) values.push_back(rank.*value);
  const double middle = median(values);
  for (const Rank& rank : facts.ranks) {
    if (rank.*value >= far_slower * middle) continue;
    add(all, slow, name, "rank ", rank.rank, " on ", rank.host, " ", what, " at ",
        std::round(rank.*value * 10) / 10, ' ', unit, ", but the median is ",
        std::round(middle * 10) / 10, ", and all others wait for it: look for other programs, ",
        "heat or a CPU limit there (top, dmesg)");
  }
}

}  // namespace

const char* name_of(Severity severity) {
  return severity == note ? "note" : severity == slow ? "slow" : "broken";
}

std::vector<Finding> find(const Facts& facts) {
  Findings all;
  if (facts.ranks.empty()) return all;
  check_environment(all, facts);
  check_world(all, facts);
  check_bits(all, facts);
  check_onednn(all, facts);
  check_threads(all, facts);
  for (const auto& [machine, ranks] : machines(facts)) {
    check_affinity(all, ranks);
    check_crowd(all, ranks);
    check_memory(all, ranks);
    check_gpus(all, facts, ranks);
  }
  // Ranks that share a core are slow in turns, so their speeds say nothing.
  if (std::ranges::find(all, "ranks", &Finding::name) == all.end()) {
    check_speed(all, facts, "slow_rank", "multiplies matrices", "GFLOP/s", &Rank::gflops,
                far_slower_compute);
    check_speed(all, facts, "slow_memory", "copies memory", "GB/s", &Rank::copy_gb_s,
                far_slower_memory);
    check_links(all, facts);
  }
  check_side_channel(all, facts);
  std::ranges::stable_sort(all, std::ranges::greater{}, &Finding::severity);
  return all;
}

}  // namespace rondo::doctor
