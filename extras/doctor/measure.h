#pragma once
// What a look cannot tell: how fast the ranks compute, and how fast they talk. All are measured
// through what programs call (matmul, Communicator::send, Communicator::all_reduce), for about as
// long as they are told.

#include <string>
#include <vector>

#include "dist/collectives/communicator.h"
#include "extras/doctor/facts.h"

namespace rondo::doctor {

/// One thread's f32 matmul and memcpy, on all ranks at the same time, as in training: ranks that
/// share a core show here. Collective.
void measure_compute(Rank& rank, dist::Communicator& comm, double seconds);
/// All pairs of ranks, one after another; the same on all ranks. Collective.
std::vector<Link> measure_links(dist::Communicator& comm, double seconds);
/// 4 bytes, 64 KiB and 16 MiB, back to back. Where the ranks share no memory the algorithm is
/// what the tuner (dist/collectives/tuner.h) finds fastest now; what it has kept of other runs is
/// neither read nor changed. Collective.
std::vector<AllReduceTime> measure_all_reduces(dist::Communicator& comm, double seconds);

}  // namespace rondo::doctor
