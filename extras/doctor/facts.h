#pragma once
// Facts: what rondo-doctor knows, as plain data. On each rank machine.cpp and network.cpp collect
// it and measure.cpp measures; rank 0 gathers it; print.cpp prints it and findings.cpp judges it.
// The structs do not query the machine, so a test can describe any cluster.
//
// A string or list is empty, and a number is 0, if the thing does not exist or is unknown.

#include <cstdint>
#include <string>
#include <vector>

namespace rondo::doctor {

/// The processor as one process sees it.
struct Cpu {
  std::string model;       // "AMD EPYC 9654"
  std::string has;         // "AVX2, AVX-512, BF16"
  std::string isa;         // of rondo's kernels: generic, avx2, …
  std::vector<int> mask;   // the logical CPUs that this process may run on
  std::vector<int> cores;  // for each of them, the first logical CPU of its physical core
  int usable_cores = 0;    // physical cores that any process of this container may use
  double quota = 0;        // CPU time that the control group allows, in CPUs
};

/// OpenMP's threads.
struct Threads {
  std::string wanted;  // OMP_NUM_THREADS
  int share = 1;       // the share that dist::place gives this rank
  int used = 1;        // what a rondo program uses, unless --threads says otherwise
};

/// Memory in bytes, and limits that matter with many messages and files.
struct Memory {
  std::int64_t total = 0, available = 0;  // at most what the control group allows
  std::int64_t shm_total = 0, shm_free = 0;
  std::int64_t locked_limit = -1, files_limit = -1;  // ulimit -l (bytes) and -n; -1: no limit
  int ptrace_scope = -1;                             // Yama's setting; -1: no Yama
};

struct Gpus {
  std::vector<std::string> devices;  // the devices that rondo sees: cuda::description
  std::string why_none;
  int cards = 0;  // NVIDIA cards on the PCI bus, even if no driver sees them
  std::string nccl, nccl_error;
};

/// One process and its environment.
struct Rank {
  int rank = 0;
  std::string rondo, onednn;
  std::string host, boot_id, kernel;
  Cpu cpu;
  Threads threads;
  Memory memory;
  Gpus gpus;
  std::string mpi, thread_level;
  bool cuda_aware = false, infiniband = false;
  int max_tag = 0;
  std::string launcher;           // "Open MPI (OMPI_COMM_WORLD_SIZE)"
  int launcher_size = 0;          // 0: unknown
  std::string environment_error;  // a setting such as RONDO_CONV that rondo refuses
  bool shares_memory = false;     // with all ranks of its machine
  bool reads_peers = false;       // process_vm_readv, of all ranks of its machine
  /// The connections of the side channel: how many exist, and how many should exist.
  int side_links = 0, side_links_wanted = 0;
  double gflops = 0;     // f32 matmul, one thread, all ranks at once
  double copy_gb_s = 0;  // memcpy, one thread, all ranks at once
};

/// Messages between two ranks.
struct PairSpeed {
  int a = 0, b = 1;
  double latency_us = 0;  // half a round trip of 8 bytes
  double gb_s = 0;        // of 4 MiB, one way
};

struct AllReduceTime {
  std::int64_t bytes = 0;
  std::string algorithm;
  double us = 0;
};

struct Facts {
  std::vector<Rank> ranks;  // by number
  std::string backend;
  std::string init_error;  // why dist::init failed; the facts are then those of one process
  std::vector<PairSpeed> links;
  std::vector<AllReduceTime> all_reduces;
};

/// Serialisation, to send the facts to rank 0.
std::string to_text(const Rank& rank);
Rank rank_from_text(const std::string& text);

/// For an even number of values, the upper of the two middle ones.
double median(std::vector<double> values);
/// "rank 3", "ranks 0-2, 5".
std::string name_ranks(const std::vector<int>& ranks);
/// "0-3, 8".
std::string name_numbers(const std::vector<int>& numbers);

}  // namespace rondo::doctor
