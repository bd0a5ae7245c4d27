#pragma once
// What one process sees of its machine: processor, memory, GPUs. Nothing here speaks to another
// rank, and what cannot be found out is left empty.

#include "extras/doctor/facts.h"

namespace rondo::doctor {

/// Fills in all but what takes other ranks: `threads`, MPI, shared memory, measurements. Throws
/// Error where RONDO_ISA is wrong: without kernels no rank could even tell the others.
void look_at_machine(Rank& rank);

}  // namespace rondo::doctor
