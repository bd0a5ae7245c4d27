#pragma once
// The machine as one process sees it: processor, memory, GPUs. No function here communicates with
// another rank. A value that cannot be found out is left empty.

#include "extras/doctor/facts.h"

namespace rondo::doctor {

/// Fills in everything that needs no other rank; not `threads`, MPI, shared memory and
/// measurements. Throws Error if RONDO_ISA is invalid, because without kernels the rank could not
/// even report that.
void look_at_machine(Rank& rank);

}  // namespace rondo::doctor
