#pragma once
// CommunicatorOptions: how a communicator's collectives run.

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "dist/collectives/algorithms/ring_all_reduce.h"
#include "dist/collectives/all_reduce.h"

namespace rondo::dist {

struct CommunicatorOptions {
  AllReduce all_reduce = AllReduce::automatic;
  /// How long a collective may take, measured from when it begins. For a message the time is
  /// measured from the call of `wait`, since a receive may be posted long before its message is
  /// sent.
  std::chrono::nanoseconds timeout = std::chrono::minutes(5);
  /// Whether a separate thread drives asynchronous work. Without it, only `wait` and `test` do.
  bool background_thread = true;
  /// The most bytes that a rank may send in one all-reduce by recursive doubling (log2 N times its
  /// data) or direct (N - 1 times its data).
  std::size_t small_bytes = 256 << 10;
  RingOptions ring = {};
  /// A number for each rank's node, for AllReduce::hierarchical: ranks that are near each other
  /// have equal numbers. Empty: share_memory determines which ranks are on one machine.
  std::vector<int> node_of = {};
  /// Whether Communicator::tune measures which all-reduce is fastest, where ranks share no memory
  /// (dist/collectives/tuner.h). `tuning_file` keeps the results; empty: they are kept for this run
  /// only.
  bool tune = false;
  std::string tuning_file = {};
  /// Whether Work::wait of NCCL's collectives blocks the host until all ranks are known to have
  /// called the same collective, so that no rank continues with invalid results
  /// (dist/collectives/compared.cpp). If false, the calls are compared as well, but while the host
  /// continues. RONDO_CHECK_COLLECTIVES=1 in the environment also enables it. It must be equal on
  /// all ranks.
  bool check_collectives = false;
};

}  // namespace rondo::dist
