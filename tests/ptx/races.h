#pragma once
// Finds races in shared memory and in the simulated GPU's memory: two accesses of one byte by
// threads of a launch, at least one of which writes, with nothing that orders them. Barriers order
// the threads of a block; shuffles, votes and __syncwarp also those of a warp. Nothing orders
// blocks. Atomic and volatile accesses do not race with each other.
//
// Not found: races between launches, in CUB, and with a writer that is not the last one. The lanes
// of a warp are compared by how many shuffles and votes each has passed, so where they diverge a
// race may be missed or be none.
//
// It costs much time, so it is off unless the environment has RONDO_PTX_RACES=1 (README.md).

#include <cstddef>

#include "ptx/ptx.h"

namespace rondo::ptx {

void begin_launch(const Kernel& kernel);
void begin_block(std::size_t shared_bytes);
/// In the tests of the tests.
void look_for_races(bool on);

}  // namespace rondo::ptx
