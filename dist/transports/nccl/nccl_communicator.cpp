#include "dist/transports/nccl/nccl_communicator.h"

#include <chrono>
#include <thread>
#include <utility>

#include "dist/transports/transport.h"
#include "tensor/error.h"

namespace rondo::dist {

void NcclCommunicator::begin(int number, int size, const ncclUniqueId& id, const std::string& what,
                             int max_blocks) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  if (max_blocks > 0) config.maxCTAs = max_blocks;
  has_begun_ = true;
  check(nccl_.comm_init_rank(&comm_, size, id, number, &config), what);
}

ncclComm_t NcclCommunicator::get(const std::string& what) const {
  require<CommError>(comm_ != nullptr, "rank ", rank_, ": ", what,
                     ": the communicator has been aborted");
  return comm_;
}

std::string NcclCommunicator::describe(ncclResult_t status) const {
  std::string text = nccl_.error_string(status);
  const char* more = comm_ != nullptr ? nccl_.last_error(comm_) : nullptr;
  return more != nullptr && *more != 0 ? concat(text, " (", more, ")") : text;
}

void NcclCommunicator::check(ncclResult_t status, const std::string& what) const {
  if (status == ncclSuccess || status == ncclInProgress) return;
  throw CommError(concat("rank ", rank_, ": ", what, " failed: NCCL: ", describe(status)));
}

bool NcclCommunicator::is_settled(const std::string& what) const {
  ncclResult_t state = ncclInProgress;
  check(nccl_.comm_async_error(get(what), &state), what);
  check(state, what);
  return state == ncclSuccess;
}

std::string NcclCommunicator::error() {
  std::lock_guard lock(mutex);
  if (comm_ == nullptr) return "the communicator has been aborted";
  ncclResult_t state = ncclSuccess;
  const ncclResult_t status = nccl_.comm_async_error(comm_, &state);
  if (status != ncclSuccess) state = status;
  return state == ncclSuccess || state == ncclInProgress ? "" : describe(state);
}

void NcclCommunicator::abort() {
  ncclComm_t comm = nullptr;
  {
    std::lock_guard lock(mutex);
    comm = std::exchange(comm_, nullptr);
  }
  if (comm != nullptr) nccl_.comm_abort(comm);
}

void NcclCommunicator::end(const std::vector<NcclCommunicator*>& all, bool is_idle) {
  const Nccl& table = nccl();
  struct Ending {
    ncclComm_t comm;
    ncclResult_t state;
  };
  std::vector<Ending> ending;
  for (NcclCommunicator* one : all) {
    std::lock_guard lock(one->mutex);
    ncclComm_t comm = std::exchange(one->comm_, nullptr);
    if (comm == nullptr) continue;
    if (is_idle)
      ending.push_back({comm, table.comm_finalize(comm)});
    else
      table.comm_abort(comm);
  }
  const auto deadline = Clock::now() + std::chrono::seconds(5);
  for (auto& [comm, state] : ending) {
    while (state == ncclInProgress && Clock::now() < deadline) {
      std::this_thread::yield();
      if (table.comm_async_error(comm, &state) != ncclSuccess) break;
    }
    if (state == ncclSuccess)
      table.comm_destroy(comm);
    else
      table.comm_abort(comm);
  }
}

}  // namespace rondo::dist
