#pragma once
// Measurements: how fast the ranks compute, and how fast they communicate. They use the functions
// that programs use (matmul, Communicator::send, Communicator::all_reduce), each for about
// `seconds` seconds.

#include <string>
#include <vector>

#include "dist/collectives/communicator.h"
#include "extras/doctor/facts.h"

namespace rondo::doctor {

/// f32 matmul and memcpy with one thread, on all ranks at the same time, as in training. This
/// reveals ranks that share a core. Collective.
void measure_compute(Rank& rank, dist::Communicator& comm, double seconds);
/// Measures all pairs of ranks, one after another. Equal on all ranks. Collective.
std::vector<PairSpeed> measure_links(dist::Communicator& comm, double seconds);
/// Measures 4 bytes, 64 KiB and 16 MiB, back to back. If the ranks do not share memory, the
/// algorithm is the one that the tuner (dist/collectives/tuner.h) finds fastest now; the tuner's
/// saved results are neither read nor changed. Collective.
std::vector<AllReduceTime> measure_all_reduces(dist::Communicator& comm, double seconds);

}  // namespace rondo::doctor
