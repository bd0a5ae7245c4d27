#pragma once
// The machine as one process sees it: processor, memory, GPUs. No function here communicates with
// another rank. A value that cannot be found out is left empty.

#include "extras/doctor/facts.h"

namespace rondo::doctor {

/// Fills in everything that needs no other rank; not `threads`, MPI, shared memory and
/// measurements.
void look_at_machine(Rank& rank);

/// Notes which setting of its kernels rondo refuses (RONDO_ISA, RONDO_CONV, …), and removes it, so
/// that the rank can report it. Call it before everything else.
void look_at_environment(Rank& rank);

}  // namespace rondo::doctor
