#pragma once
// Facts as JSON: the fields of --json have the names in facts.h. Private to extras/doctor.

#include <nlohmann/json.hpp>

#include "extras/doctor/facts.h"

namespace rondo::doctor {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Cpu, model, has, isa, mask, cores, usable_cores, quota)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Threads, wanted, share, used)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Memory, total, available, shm_total, shm_free, locked_limit,
                                   files_limit, ptrace_scope)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Gpus, devices, why_none, cards, nccl, nccl_error)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Rank, rank, rondo, onednn, host, boot_id, kernel, cpu, threads,
                                   memory, gpus, mpi, thread_level, cuda_aware, infiniband, max_tag,
                                   launcher, launcher_size, environment_error, shares_memory,
                                   reads_peers, side_links, side_links_wanted, gflops, copy_gb_s)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PairSpeed, a, b, latency_us, gb_s)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AllReduceTime, bytes, algorithm, us)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Facts, ranks, backend, init_error, links, all_reduces)

}  // namespace rondo::doctor
