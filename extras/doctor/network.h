#pragma once
// How the ranks find each other: launcher, MPI, and what those of one machine can do together.

#include <memory>

#include "dist/collectives/communicator.h"
#include "extras/doctor/facts.h"

namespace rondo::doctor {

/// What the launcher's environment says; an environment that makes no sense becomes the launcher's
/// text.
void look_at_launcher(Rank& rank);
/// MPI, the threads of a rank, memory shared and read among the ranks of a machine. Collective.
void look_at_world(Rank& rank, dist::Communicator& comm);
/// How many of the side channel's connections there are, of how many.
void look_at_side_channel(Rank& rank, const dist::Communicator& comm);

}  // namespace rondo::doctor
