#pragma once
// NCCL on the host: communicators between the threads of a test, over the streams of host_cudart.h.
// A call is executed when all ranks have reached it in their streams, as late as those run. Members
// of a group run concurrently, and groups run one after the other.
//
// It is strict where NCCL would hang or corrupt memory: the calls of all ranks must match, a stream
// must have waited for all earlier work of its GPU, a communicator's GPU must be the current one,
// the collectives of all communicators of a rank must be in one stream, messages must leave room
// for them, and a thread that drives several ranks must use a group.

#include <string>
#include <vector>

#include "dist/transports/nccl/nccl_api.h"

namespace rondo::test {

/// `version`: the version that it reports.
const dist::Nccl& host_nccl(int version = 22809);

/// The errors since the last call: "rank 1 calls broadcast of 8 bytes where rank 0 calls …".
std::vector<std::string> nccl_violations();
/// The number of calls of a kind ("broadcast", "reduce", …) since the last query.
int nccl_calls(const std::string& kind);
/// The most blocks that a kernel of a message was allowed to have since the last query.
int blocks_of_a_message();
/// From now on the rank's communicator returns ncclRemoteError.
void break_nccl(int rank);

}  // namespace rondo::test
