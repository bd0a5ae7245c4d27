#pragma once
// NCCL as a table of the functions that rondo uses. Private to dist/transports/nccl.
//
// The library is loaded when the first GPU joins a world of several ranks. Tests replace the table
// by a simulation of NCCL on the host (tests/support/host_nccl.h).

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

/// The table; the first call loads the library. Throws CommError if NCCL is missing, or is older
/// than 2.18, whose communicators block.
const Nccl& nccl();
/// Replaces the table, for tests; null restores the real one.
void set_nccl(const Nccl* table);

/// 22803 for 2.28.3.
int nccl_version();
/// "2.28.3".
std::string nccl_version_text(int version);

}  // namespace rondo::dist
