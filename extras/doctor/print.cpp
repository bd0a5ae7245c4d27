#include "extras/doctor/print.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "extras/doctor/facts_json.h"

namespace rondo::doctor {
namespace {

using Answer = std::function<std::string(const Rank&)>;

std::string bytes_text(std::int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes < (1 << 10)) return fmt::format("{} B", bytes);
  if (bytes < (1 << 20)) return fmt::format("{:.0f} KiB", value / (1 << 10));
  if (bytes < (1 << 30)) return fmt::format("{:.0f} MiB", value / (1 << 20));
  return fmt::format("{:.1f} GiB", value / (1 << 30));
}

std::string limit_text(std::int64_t limit, bool is_bytes) {
  if (limit < 0) return "unlimited";
  return is_bytes ? bytes_text(limit) : std::to_string(limit);
}

// One line for each answer, in the order of the first rank that gives it.
void ask(std::string& out, const Facts& facts, const char* what, const Answer& answer) {
  std::vector<std::pair<std::string, std::vector<int>>> groups;
  for (const Rank& rank : facts.ranks) {
    const std::string text = answer(rank);
    auto same = std::ranges::find_if(groups, [&](const auto& g) { return g.first == text; });
    if (same == groups.end()) same = groups.insert(same, {text, {}});
    same->second.push_back(rank.rank);
  }
  for (const auto& [text, ranks] : groups) {
    if (text.empty()) continue;
    const std::string who = facts.ranks.size() == 1 ? "" : name_ranks(ranks) + ": ";
    out += fmt::format("  {:<14}{}{}\n", what, who, text);
    what = "";
  }
}

/// The ranks of the same machine whose masks share a CPU with this rank's.
std::string overlap_of(const Facts& facts, const Rank& rank) {
  std::vector<int> ranks;
  for (const Rank& other : facts.ranks) {
    if (other.boot_id != rank.boot_id) continue;
    std::vector<int> both;
    std::ranges::set_intersection(rank.cpu.mask, other.cpu.mask, std::back_inserter(both));
    if (!both.empty()) ranks.push_back(other.rank);
  }
  return ranks.size() <= 1 ? "" : "; shared by " + name_ranks(ranks);
}

std::string cpu_text(const Rank& r) {
  return fmt::format("{}; has {}; rondo's kernels: {}; oneDNN {}",
                     r.cpu.model.empty() ? "unknown" : r.cpu.model,
                     r.cpu.has.empty() ? "no wide vectors" : r.cpu.has,
                     r.cpu.isa.empty() ? "none" : r.cpu.isa, r.onednn);
}

std::string cores_text(const Facts& facts, const Rank& r) {
  const std::set<int> cores(r.cpu.cores.begin(), r.cpu.cores.end());
  const std::string quota = r.cpu.quota > 0 ? fmt::format("; quota of {:g} CPUs", r.cpu.quota) : "";
  return fmt::format("may run on {} of {} physical cores (CPUs {}){}{}", cores.size(),
                     r.cpu.usable_cores, name_numbers(r.cpu.mask), overlap_of(facts, r), quota);
}

std::string threads_text(const Rank& r) {
  return fmt::format("{} a rank{}", r.threads.used,
                     r.threads.wanted.empty() ? ""
                                              : fmt::format(" (OMP_NUM_THREADS={}; its share: {})",
                                                            r.threads.wanted, r.threads.share));
}

std::string memory_text(const Rank& r) {
  const Memory& m = r.memory;
  return fmt::format("{} free of {}; /dev/shm {} free of {}; ulimit -l {}, -n {}",
                     bytes_text(m.available), bytes_text(m.total), bytes_text(m.shm_free),
                     bytes_text(m.shm_total), limit_text(m.locked_limit, true),
                     limit_text(m.files_limit, false));
}

std::string sharing_text(const Rank& r) {
  const std::string yama =
      r.memory.ptrace_scope < 0 ? "" : fmt::format(" (ptrace_scope {})", r.memory.ptrace_scope);
  return fmt::format("{} memory with its machine's other ranks; {} read theirs{}",
                     r.shares_memory ? "shares" : "shares no", r.reads_peers ? "can" : "cannot",
                     yama);
}

std::string mpi_text(const Rank& r) {
  if (r.mpi.empty()) return "rondo was built without MPI";
  return fmt::format("{}{}{}", r.mpi,
                     r.thread_level.empty() ? "; not started"
                                            : fmt::format("; thread level {}; tags up to {}",
                                                          r.thread_level, r.max_tag),
                     r.cuda_aware ? "; with CUDA support" : "; without CUDA support");
}

std::string gpu_text(const Rank& r) {
  if (r.gpus.devices.empty()) return "none: " + r.gpus.why_none;
  std::string text;
  for (const std::string& device : r.gpus.devices) text += (text.empty() ? "" : " | ") + device;
  return text;
}

std::string compute_text(const Rank& r) {
  return fmt::format("{:.1f} GFLOP/s of f32 matmul, {:.1f} GB/s of memcpy", r.gflops, r.copy_gb_s);
}

// For up to 8 ranks: above the diagonal, one number for each pair.
void matrix(std::string& out, const Facts& facts, const char* title, double PairSpeed::*value) {
  const std::size_t n = facts.ranks.size();
  std::map<std::pair<int, int>, double> cells;
  for (const PairSpeed& link : facts.links) cells[{link.a, link.b}] = link.*value;
  out += fmt::format("  {}\n  {:>8}", title, "");
  for (std::size_t b = 1; b < n; ++b) out += fmt::format("{:>10}", fmt::format("rank {}", b));
  for (int a = 0; a + 1 < static_cast<int>(n); ++a) {
    out += fmt::format("\n  {:<8}", fmt::format("rank {}", a));
    for (int b = 1; b < static_cast<int>(n); ++b)
      out += b > a ? fmt::format("{:>10.2f}", cells[{a, b}]) : fmt::format("{:>10}", "");
  }
  out += '\n';
}

void summary(std::string& out, const Facts& facts, const char* title, double PairSpeed::*value,
             bool more_is_better) {
  std::vector<PairSpeed> links = facts.links;
  std::ranges::sort(links, {}, value);
  const PairSpeed& worst = more_is_better ? links.front() : links.back();
  out += fmt::format("  {}: min {:.2f}, median {:.2f}, max {:.2f}; slowest: ranks {} and {}\n",
                     title, links.front().*value, links[links.size() / 2].*value,
                     links.back().*value, worst.a, worst.b);
}

}  // namespace

std::string describe_facts(const Facts& facts) {
  std::string out =
      fmt::format("rondo {}, {} rank{}, backend {}\n", facts.ranks.front().rondo,
                  facts.ranks.size(), facts.ranks.size() == 1 ? "" : "s", facts.backend);
  ask(out, facts, "host", [](const Rank& r) { return fmt::format("{}, {}", r.host, r.kernel); });
  ask(out, facts, "CPU", cpu_text);
  ask(out, facts, "cores", [&](const Rank& r) { return cores_text(facts, r); });
  ask(out, facts, "threads", threads_text);
  ask(out, facts, "memory", memory_text);
  if (facts.ranks.size() > 1) ask(out, facts, "shared memory", sharing_text);
  ask(out, facts, "launcher", [](const Rank& r) {
    if (r.launcher.empty()) return std::string("none");
    if (r.launcher_size == 0) return r.launcher;
    return fmt::format("{}: {} rank{}", r.launcher, r.launcher_size,
                       r.launcher_size == 1 ? "" : "s");
  });
  ask(out, facts, "MPI", mpi_text);
  ask(out, facts, "GPUs", gpu_text);
  ask(out, facts, "NCCL", [](const Rank& r) {
    return r.gpus.nccl.empty() ? "none: " + r.gpus.nccl_error : r.gpus.nccl;
  });
  return out;
}

std::string describe_measurements(const Facts& facts) {
  std::string out = "\nmeasured\n";
  ask(out, facts, "one thread", compute_text);
  const auto has_side_channel = [](const Rank& r) { return r.side_links_wanted > 0; };
  if (std::ranges::any_of(facts.ranks, has_side_channel))
    ask(out, facts, "side channel", [](const Rank& r) {
      return fmt::format("{} of {} connections", r.side_links, r.side_links_wanted);
    });
  if (facts.links.empty()) return out;
  if (facts.ranks.size() <= 8) {
    matrix(out, facts, "latency of a message, us (half a round trip of 8 bytes)",
           &PairSpeed::latency_us);
    matrix(out, facts, "bandwidth of messages, GB/s (4 MiB)", &PairSpeed::gb_s);
  } else {
    summary(out, facts, "latency of a message, us", &PairSpeed::latency_us, false);
    summary(out, facts, "bandwidth of messages, GB/s", &PairSpeed::gb_s, true);
  }
  for (const AllReduceTime& time : facts.all_reduces) {
    out += fmt::format("  all-reduce of {:<9}{:>12.1f} us ({})\n", bytes_text(time.bytes), time.us,
                       time.algorithm);
  }
  return out;
}

std::string describe_findings(const std::vector<Finding>& findings) {
  if (findings.empty()) return "\nwhat is wrong: nothing found\n";
  std::string out = "\nwhat is wrong\n";
  for (const Finding& finding : findings)
    out += fmt::format("  {:<8}{}\n", fmt::format("{}:", name_of(finding.severity)), finding.text);
  return out;
}

std::string to_json(const Facts& facts, const std::vector<Finding>& findings) {
  nlohmann::json result = facts;
  result["world_size"] = facts.ranks.size();
  result["findings"] = nlohmann::json::array();
  for (const Finding& finding : findings)
    result["findings"].push_back(
        {{"severity", name_of(finding.severity)}, {"name", finding.name}, {"text", finding.text}});
  return result.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace rondo::doctor
