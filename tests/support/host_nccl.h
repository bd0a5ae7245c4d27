#pragma once
// NCCL on the host: communicators between the threads of a test, over the streams of
// host_cudart.h. What each rank was asked for is done when all of them have come to it in their
// streams, as late as those are; members of a group run side by side, groups one after the other.
//
// It is strict where NCCL would hang or corrupt memory: what the ranks call must fit together, a
// stream must have waited for all that its GPU has been given to compute before, a communicator's
// GPU must be the current one, and a thread that drives several ranks must do so in a group.

#include <string>
#include <vector>

#include "dist/transports/nccl/nccl_api.h"

namespace rondo::test {

/// `version`: what it says it is.
const dist::Nccl& host_nccl(int version = 22809);

/// What was wrong since the last call: "rank 1 calls broadcast of 8 bytes where rank 0 calls …".
std::vector<std::string> nccl_violations();
/// How many calls of a kind ("broadcast", "reduce", …) there were since it was last asked for.
int nccl_calls(const std::string& kind);
/// The rank's communicator says ncclRemoteError from now on.
void break_nccl(int rank);

}  // namespace rondo::test
