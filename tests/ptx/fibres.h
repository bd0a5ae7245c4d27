#pragma once
// A block of GPU threads, each a fibre of the host: its own stack on the same core.

#include <vector>

#include "ptx/ptx.h"

namespace rondo::ptx {

/// Runs kernel.run(threads[i], parameters) for all threads of a block. Each runs to its next
/// barrier, shuffle or vote, in an order that is random but the same in each run of the program.
void run_block(const Kernel& kernel, std::vector<Thread>& threads, unsigned char* parameters);

}  // namespace rondo::ptx
