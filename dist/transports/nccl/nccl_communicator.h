#pragma once
// NcclCommunicator: one of NCCL's communicators, from its start to its end.
//
// It is non-blocking: no call of NCCL's keeps the host, each is asked about until NCCL has done on
// the host what it was asked for. A watchdog may take it away at any time (`abort`, which ends its
// kernels), so whoever hands its handle to NCCL holds `mutex` meanwhile.

#include <mutex>
#include <string>
#include <vector>

#include "dist/transports/nccl/nccl_api.h"

namespace rondo::dist {

class NcclCommunicator {
 public:
  /// `rank` is the world's, for messages.
  explicit NcclCommunicator(int rank) : nccl_(nccl()), rank_(rank) {}
  int rank_in_world() const { return rank_; }
  ~NcclCommunicator() { abort(); }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  std::mutex mutex;

  // With the mutex held, or before anybody else knows it.

  /// Asks NCCL to bring `size` ranks together, of which this one is number `number`.
  void begin(int number, int size, const ncclUniqueId& id, const std::string& what);
  bool has_begun() const { return has_begun_; }
  /// Throws CommError when it has been aborted.
  ncclComm_t get(const std::string& what) const;
  /// Throws CommError "rank 1: all_reduce 17 failed: NCCL: …" unless all is well or under way.
  void check(ncclResult_t status, const std::string& what) const;
  /// Whether NCCL has done on the host what it was asked for. Throws CommError.
  bool is_settled(const std::string& what) const;

  // Without.

  /// What is wrong with it; empty: nothing.
  std::string error();
  /// Ends all that it does; lasts as long as a graph that uses it lives.
  void abort();
  /// Ends several, in order where nothing is under way: all are asked before one is waited for.
  static void end(const std::vector<NcclCommunicator*>& all, bool is_idle);

 private:
  std::string describe(ncclResult_t status) const;

  const Nccl& nccl_;
  int rank_;
  bool has_begun_ = false;
  ncclComm_t comm_ = nullptr;
};

}  // namespace rondo::dist
