#pragma once
// How the ranks find each other: the launcher, MPI, and shared memory between the ranks of a
// machine.

#include <memory>

#include "dist/collectives/communicator.h"
#include "extras/doctor/facts.h"

namespace rondo::doctor {

/// Reads the launcher's environment variables. If they are inconsistent, the error becomes the
/// launcher's text.
void look_at_launcher(Rank& rank);
/// MPI, the rank's threads, and whether the ranks of a machine share and read each other's memory.
/// Collective.
void look_at_world(Rank& rank, dist::Communicator& comm);
/// The number of connections of the side channel, and the expected number.
void look_at_side_channel(Rank& rank, const dist::Communicator& comm);

}  // namespace rondo::doctor
