#pragma once
// NcclCommunicator: owns one of NCCL's communicators, from its creation to its end.
//
// It is non-blocking: no NCCL call blocks the host. Each call is polled until NCCL has completed it
// on the host. A watchdog may abort the communicator at any time, which ends its kernels. Therefore
// a thread that passes the handle to NCCL must hold `mutex` meanwhile.

#include <mutex>
#include <string>
#include <vector>

#include "dist/transports/nccl/nccl_api.h"

namespace rondo::dist {

class NcclCommunicator {
 public:
  /// `rank` is the number in the world, for messages.
  explicit NcclCommunicator(int rank) : nccl_(nccl()), rank_(rank) {}
  int rank_in_world() const { return rank_; }
  ~NcclCommunicator() { abort(); }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  std::mutex mutex;

  // Call these with the mutex held, or before other threads know the object.

  /// Asks NCCL to connect `size` ranks, of which this one is number `number`. Its kernels have at
  /// most max_blocks blocks; 0: as many as NCCL chooses.
  void begin(int number, int size, const ncclUniqueId& id, const std::string& what,
             int max_blocks = 0);
  bool has_begun() const { return has_begun_; }
  /// Throws CommError if it has been aborted.
  ncclComm_t get(const std::string& what) const;
  /// Throws CommError "rank 1: all_reduce 17 failed: NCCL: …" unless `status` is success or in
  /// progress.
  void check(ncclResult_t status, const std::string& what) const;
  /// Whether NCCL has completed the last call on the host. Throws CommError.
  bool is_settled(const std::string& what) const;

  // Call these without the mutex.

  /// NCCL's asynchronous error; empty: no error.
  std::string error();
  /// Ends all operations. It does not return while a graph that uses the communicator exists.
  void abort();
  /// Ends several. If `is_idle`, they are finalized in order; otherwise aborted. All are asked to
  /// end before one is waited for.
  static void end(const std::vector<NcclCommunicator*>& all, bool is_idle);

 private:
  std::string describe(ncclResult_t status) const;

  const Nccl& nccl_;
  int rank_;
  bool has_begun_ = false;
  ncclComm_t comm_ = nullptr;
};

}  // namespace rondo::dist
