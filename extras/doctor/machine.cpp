#include "extras/doctor/machine.h"

#include <dnnl.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#include <sys/prctl.h>
#endif
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

#include "dist/launch/threads.h"
#include "tensor/backend.h"
#include "tensor/cpu/isa/table.h"
#include "tensor/cuda.h"
#include "tensor/error.h"
#include "tensor/version.h"
#ifdef RONDO_DOCTOR_NCCL
#include "dist/transports/nccl/nccl_api.h"
#endif

namespace rondo::doctor {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// The number at the start of a file; `otherwise` if the file is missing or has no number.
template <class T>
T number_in(const fs::path& path, T otherwise) {
  std::ifstream file(path);
  T value;
  return file >> value ? value : otherwise;
}

/// The value after "name :" in /proc/cpuinfo or /proc/meminfo.
std::string field(const char* file, const std::string& name) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos || !line.starts_with(name)) continue;
    const auto value = line.find_first_not_of(" \t", colon + 1);
    return value == std::string::npos ? "" : line.substr(value);
  }
  return "";
}

/// "0-3,8" as numbers.
std::vector<int> parse_list(const std::string& list) {
  std::vector<int> numbers;
  std::istringstream text(list);
  for (std::string part; std::getline(text, part, ',');) {
    std::istringstream range(part);
    int first = 0, last = 0;
    char dash = 0;
    if (!(range >> first)) continue;
    if (!(range >> dash >> last)) last = first;
    for (int n = first; n <= last; ++n) numbers.push_back(n);
  }
  return numbers;
}

/// The folder of this process's control group (version 2).
fs::path control_group() {
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (line.starts_with("0::")) return "/sys/fs/cgroup" + (line == "0::/" ? "" : line.substr(3));
  }
  return "/sys/fs/cgroup";
}

/// The logical CPUs that this container or batch job may use, regardless of this rank's binding. In
/// a container, its control group may be mounted at the root.
std::vector<int> given_cpus() {
  for (const fs::path& folder : {control_group(), fs::path("/sys/fs/cgroup")}) {
    const auto cpus = parse_list(first_line(folder / "cpuset.cpus.effective"));
    if (!cpus.empty()) return cpus;
  }
  const auto cpus = parse_list(first_line("/sys/fs/cgroup/cpuset/cpuset.effective_cpus"));
  return !cpus.empty() ? cpus : parse_list(first_line("/sys/devices/system/cpu/online"));
}

int core_of(int cpu) {
  return number_in(concat("/sys/devices/system/cpu/cpu", cpu, "/topology/thread_siblings_list"),
                   cpu);
}

std::string instruction_sets() {
  std::string all;
  [[maybe_unused]] auto add = [&](const char* name, bool has) {
    if (has) all += concat(all.empty() ? "" : ", ", name);
  };
#if defined(__x86_64__)
  add("AVX2", __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
  add("AVX-512", __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"));
  std::istringstream flags(field("/proc/cpuinfo", "flags"));
  bool bf16 = false, amx = false;
  for (std::string flag; flags >> flag;) {
    bf16 |= flag == "avx512_bf16";
    amx |= flag == "amx_bf16";
  }
  add("BF16", bf16);
  add("AMX", amx);
#elif defined(__aarch64__)
  add("NEON", (getauxval(AT_HWCAP) & HWCAP_ASIMD) != 0);
  const int sve = prctl(PR_SVE_GET_VL);
  add(concat("SVE of ", (sve & PR_SVE_VL_LEN_MASK) * 8, " bits").c_str(), sve > 0);
  add("BF16", (getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0);
#endif
  return all;
}

Cpu look_at_cpu() {
  Cpu cpu;
  cpu.model = field("/proc/cpuinfo", "model name");
  if (const std::string maker = field("/proc/cpuinfo", "CPU implementer"); !maker.empty())  // Arm
    cpu.model = concat("implementer ", maker, ", part ", field("/proc/cpuinfo", "CPU part"));
  cpu.has = instruction_sets();
  cpu.isa = cpu::kernels().name;
  cpu.mask = dist::affinity();
  for (int n : cpu.mask) cpu.cores.push_back(core_of(n));
  std::vector<int> given = given_cpus();
  given.insert(given.end(), cpu.mask.begin(), cpu.mask.end());
  cpu.usable_cores = dist::physical_cores(given);
  cpu.quota = dist::cgroup_cpus().value_or(0);
  return cpu;
}

std::int64_t limit_of(int resource) {
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) return -1;
  return limit.rlim_cur == RLIM_INFINITY ? -1 : static_cast<std::int64_t>(limit.rlim_cur);
}

Memory look_at_memory() {
  Memory memory;
  auto kib = [](const char* name) {
    std::istringstream text(field("/proc/meminfo", name));
    std::int64_t value = 0;
    text >> value;
    return value << 10;
  };
  memory.total = kib("MemTotal");
  memory.available = kib("MemAvailable");
  for (const fs::path& folder : {control_group(), fs::path("/sys/fs/cgroup")}) {
    const auto most = number_in<std::int64_t>(folder / "memory.max", -1);  // "max": no limit
    const auto used = number_in<std::int64_t>(folder / "memory.current", 0);
    if (most <= 0) continue;
    memory.total = std::min(memory.total, most);
    memory.available = std::min(memory.available, std::max<std::int64_t>(most - used, 0));
  }
  struct statvfs shm {};
  if (statvfs("/dev/shm", &shm) == 0) {
    memory.shm_total = static_cast<std::int64_t>(shm.f_blocks * shm.f_frsize);
    memory.shm_free = static_cast<std::int64_t>(shm.f_bavail * shm.f_frsize);
  }
  memory.locked_limit = limit_of(RLIMIT_MEMLOCK);
  memory.files_limit = limit_of(RLIMIT_NOFILE);
  memory.ptrace_scope = number_in("/proc/sys/kernel/yama/ptrace_scope", -1);
  return memory;
}

/// NVIDIA's display controllers and accelerators on the PCI bus.
int nvidia_cards() {
  int cards = 0;
  std::error_code ignored;
  for (const auto& device : fs::directory_iterator("/sys/bus/pci/devices", ignored)) {
    cards += first_line(device.path() / "vendor") == "0x10de" &&
             first_line(device.path() / "class").starts_with("0x03");
  }
  return cards;
}

Gpus look_at_gpus() {
  Gpus gpus;
  gpus.cards = nvidia_cards();
  try {
    gpus.why_none = cuda::why_unavailable();
    for (int i = 0; i < cuda::device_count(); ++i) gpus.devices.push_back(cuda::description(i));
  } catch (const Error& error) {
    gpus.devices.clear();
    gpus.why_none = error.what();
  }
#ifdef RONDO_DOCTOR_NCCL
  try {
    gpus.nccl = dist::nccl_version_text(dist::nccl_version());
  } catch (const Error& error) {
    gpus.nccl_error = error.what();
  }
#else
  gpus.nccl_error = "rondo was built without NCCL";
#endif
  return gpus;
}

}  // namespace

void look_at_environment(Rank& rank) {
  while (true) {
    try {
      backend(Device::cpu());
      return;
    } catch (const Error& error) {
      const std::string message = error.what();  // begins with the variable
      const std::string variable = message.substr(0, message.find_first_of("=: "));
      if (std::getenv(variable.c_str()) == nullptr) throw;
      if (rank.environment_error.empty()) rank.environment_error = message;
      unsetenv(variable.c_str());
    }
  }
}

void look_at_machine(Rank& rank) {
  rank.rondo = concat(RONDO_VERSION_MAJOR, '.', RONDO_VERSION_MINOR, '.', RONDO_VERSION_PATCH);
  const dnnl_version_t* onednn = dnnl_version();
  rank.onednn = concat(onednn->major, '.', onednn->minor, '.', onednn->patch);
  utsname system{};
  if (uname(&system) == 0) {
    rank.host = system.nodename;
    rank.kernel = concat(system.sysname, ' ', system.release);
  }
  rank.boot_id = first_line("/proc/sys/kernel/random/boot_id");
  rank.cpu = look_at_cpu();
  rank.memory = look_at_memory();
  rank.gpus = look_at_gpus();
  std::error_code ignored;
  rank.infiniband =
      fs::directory_iterator("/sys/class/infiniband", ignored) != fs::directory_iterator();
}

}  // namespace rondo::doctor
