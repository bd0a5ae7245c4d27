#include "dist/transports/nccl/nccl_api.h"

#include <atomic>

#include "tensor/cuda/runtime.h"
#include "tensor/cuda/shared_library.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

std::atomic<const Nccl*> nccl_replacement{nullptr};

Nccl load_nccl() {
  static const cuda::SharedLibrary library("NCCL", {"libnccl.so.2"});
  Nccl table{};
  library.load("ncclGetVersion", table.get_version);
  int version = 0;
  table.get_version(&version);
  require<CommError>(version >= 21800, library.path(), " is NCCL ", nccl_version_text(version),
                     ", but 2.18 or later is needed");
  library.load("ncclGetUniqueId", table.get_unique_id);
  library.load("ncclGetErrorString", table.error_string);
  library.load("ncclGetLastError", table.last_error);
  library.load("ncclCommInitRankConfig", table.comm_init_rank);
  library.load("ncclCommGetAsyncError", table.comm_async_error);
  library.load("ncclCommFinalize", table.comm_finalize);
  library.load("ncclCommDestroy", table.comm_destroy);
  library.load("ncclCommAbort", table.comm_abort);
  library.load("ncclAllReduce", table.all_reduce);
  library.load("ncclReduce", table.reduce);
  library.load("ncclBroadcast", table.broadcast);
  library.load("ncclAllGather", table.all_gather);
  library.load("ncclReduceScatter", table.reduce_scatter);
  library.load("ncclSend", table.send);
  library.load("ncclRecv", table.recv);
  library.load("ncclGroupStart", table.group_start);
  library.load("ncclGroupEnd", table.group_end);
  return table;
}

}  // namespace

const Nccl& nccl() {
  if (const Nccl* table = nccl_replacement) return *table;
  static const Nccl table = [] {
    try {
      return load_nccl();
    } catch (const CudaError& missing) {
      throw CommError(
          concat(missing.what(), " (or send through the host's memory: ", "--all-reduce mpi)"));
    }
  }();
  return table;
}

void set_nccl(const Nccl* table) { nccl_replacement = table; }

int nccl_version() {
  int version = 0;
  nccl().get_version(&version);
  return version;
}

std::string nccl_version_text(int version) {
  return concat(version / 10000, '.', version % 10000 / 100, '.', version % 100);
}

}  // namespace rondo::dist
