#include "dist/transports/nccl/nccl_peers.h"

#include <chrono>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "dist/transports/nccl/nccl_collectives.h"
#include "tensor/cuda/runtime.h"
#include "tensor/cuda/stream.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

// All GPUs belong to this process: a call that takes this long has failed.
constexpr auto patience = std::chrono::seconds(60);

}  // namespace

NcclPeers::NcclPeers(std::vector<Device> devices)
    : devices_(std::move(devices)), nccl_(nccl()), comms_(devices_.size(), nullptr) {
  const ncclUniqueId id = nccl_unique_id(nccl_unique_id());
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  in_group("the start of NCCL", [&](std::size_t d) {
    return nccl_.comm_init_rank(&comms_[d], static_cast<int>(devices_.size()), id,
                                static_cast<int>(d), &config);
  });
}

// Ending a communicator waits for the work that is still in the streams.
NcclPeers::~NcclPeers() {
  if (comms_[0] == nullptr) return;
  try {
    in_group("the end of NCCL", [&](std::size_t d) { return nccl_.comm_finalize(comms_[d]); });
    for (ncclComm_t comm : comms_) nccl_.comm_destroy(comm);
  } catch (const Error&) {  // aborted
  }
}

void NcclPeers::check(ncclResult_t status, const char* what) const {
  if (status == ncclSuccess || status == ncclInProgress) return;
  const char* more = nccl_.last_error(nullptr);
  throw CommError(concat("DataParallel: ", what, " failed: NCCL: ", nccl_.error_string(status),
                         more != nullptr && *more != 0 ? concat(" (", more, ")") : ""));
}

void NcclPeers::abort() {
  for (ncclComm_t& comm : comms_) {
    if (ncclComm_t gone = std::exchange(comm, nullptr)) nccl_.comm_abort(gone);
  }
}

/// Calls body(d) for each GPU, with GPU d as the current device, in one group.
template <class Body>
void NcclPeers::in_group(const char* what, Body body) {
  // One mutex for the process: if two threads put collectives of different communicators into the
  // GPUs' streams in different orders, they would wait for each other forever.
  static std::mutex order;
  std::lock_guard lock(order);
  try {
    check(nccl_.group_start(), what);
    // The group is always ended, even after an error: inside a group NCCL would only queue an
    // abort.
    std::exception_ptr failure;
    ncclResult_t status = ncclSuccess;
    for (std::size_t d = 0; d < devices_.size() && failure == nullptr; ++d) {
      try {
        const cuda::DeviceGuard guard(devices_[d].index);
        const ncclResult_t of_this = body(d);
        if (status == ncclSuccess || status == ncclInProgress) status = of_this;
      } catch (...) {
        failure = std::current_exception();
      }
    }
    const ncclResult_t ended = nccl_.group_end();
    if (failure != nullptr) std::rethrow_exception(failure);
    check(status, what);
    check(ended, what);
    settle(what);
  } catch (...) {
    abort();
    throw;
  }
}

void NcclPeers::settle(const char* what) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (ncclComm_t comm : comms_) {
    for (ncclResult_t state = ncclInProgress; state == ncclInProgress;) {
      check(nccl_.comm_async_error(comm, &state), what);
      check(state, what);
      require<CommError>(std::chrono::steady_clock::now() < deadline, "DataParallel: ", what,
                         " gave up after ", patience.count(), " s");
      if (state == ncclInProgress) std::this_thread::yield();
    }
  }
}

void NcclPeers::require_alive(const char* what) const {
  require<CommError>(comms_[0] != nullptr, "DataParallel: ", what,
                     ": NCCL has failed before; make a new DataParallel");
}

std::vector<Tensors> NcclPeers::broadcast(const Tensors& from) {
  require_alive("a broadcast of the parameters");
  std::vector<Tensors> copies(devices_.size());
  copies[0] = from;
  for (std::size_t d = 1; d < devices_.size(); ++d) {
    for (const Tensor& x : from) {
      copies[d].push_back(Tensor::empty(
          x.shape(), {.dtype = x.dtype(), .device = devices_[d], .format = x.suggested_format()}));
    }
  }
  in_group("a broadcast of the parameters", [&](std::size_t d) {
    ncclResult_t status = ncclSuccess;
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (from[i].numel() == 0) continue;
      void* data = copies[d][i].data_ptr();
      const ncclResult_t posted =
          nccl_.broadcast(data, data, static_cast<std::size_t>(from[i].nbytes()), ncclUint8, 0,
                          comms_[d], cuda::current_stream(devices_[d].index).get());
      if (status == ncclSuccess || status == ncclInProgress) status = posted;
    }
    return status;
  });
  return copies;
}

void NcclPeers::reduce(const std::vector<Tensors>& parts) {
  require_alive("a sum of the gradients");
  in_group("a sum of the gradients", [&](std::size_t d) {
    ncclResult_t status = ncclSuccess;
    for (const Tensor& part : parts[d]) {
      if (part.numel() == 0) continue;
      const ncclResult_t posted =
          nccl_.reduce(part.data_ptr(), part.data_ptr(), static_cast<std::size_t>(part.numel()),
                       nccl_data_type(part.dtype()), ncclSum, 0, comms_[d],
                       cuda::current_stream(devices_[d].index).get());
      if (status == ncclSuccess || status == ncclInProgress) status = posted;
    }
    return status;
  });
}

}  // namespace rondo::dist
