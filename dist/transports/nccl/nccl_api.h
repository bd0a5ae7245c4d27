#pragma once
// NCCL as a table of the functions that rondo uses. Private to dist/transports/nccl.
//
// The library is loaded when the first GPU joins a world of several ranks. The table is also where
// tests put in a double of NCCL that computes on the host (tests/support/host_nccl.h).

#include <nccl.h>

#include <string>

namespace rondo::dist {

struct Nccl {
  decltype(&ncclGetVersion) get_version;
  decltype(&ncclGetUniqueId) get_unique_id;
  decltype(&ncclGetErrorString) error_string;
  decltype(&ncclGetLastError) last_error;
  decltype(&ncclCommInitRankConfig) comm_init_rank;
  decltype(&ncclCommGetAsyncError) comm_async_error;
  decltype(&ncclCommFinalize) comm_finalize;
  decltype(&ncclCommDestroy) comm_destroy;
  decltype(&ncclCommAbort) comm_abort;
  decltype(&ncclAllReduce) all_reduce;
  decltype(&ncclReduce) reduce;
  decltype(&ncclBroadcast) broadcast;
  decltype(&ncclAllGather) all_gather;
  decltype(&ncclReduceScatter) reduce_scatter;
  decltype(&ncclSend) send;
  decltype(&ncclRecv) recv;
  decltype(&ncclGroupStart) group_start;
  decltype(&ncclGroupEnd) group_end;
};

/// The table; loads the library at the first call. Throws CommError when there is none, or one
/// before 2.18, whose communicators block.
const Nccl& nccl();
/// Puts another table in its place, for tests; null: the real one again.
void set_nccl(const Nccl* table);

/// 22803 for 2.28.3.
int nccl_version();
/// "2.28.3".
std::string nccl_version_text(int version);

}  // namespace rondo::dist
