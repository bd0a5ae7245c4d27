#pragma once
// NcclPeers: several GPUs of one process, over NCCL, for DataParallel.
//
// Each GPU has a communicator, and the calling thread drives all of them. Their calls are in one
// NCCL group, since a collective of one of them alone would wait forever. The work is in each GPU's
// current stream, so no events are needed, and the host waits only for NCCL's own setup. After a
// failure the communicators are aborted, and all later calls fail.

#include <vector>

#include "dist/transports/nccl/nccl_api.h"
#include "tensor/tensor.h"

namespace rondo::dist {

class NcclPeers {
 public:
  /// Needs at least two GPUs, all different. Throws CommError if NCCL is missing or cannot connect
  /// them.
  explicit NcclPeers(std::vector<Device> devices);
  ~NcclPeers();
  NcclPeers(const NcclPeers&) = delete;
  NcclPeers& operator=(const NcclPeers&) = delete;

  const std::vector<Device>& devices() const { return devices_; }
  /// Copies dense tensors of the first GPU: result[d][i] is from[i] on GPU d, with the same layout.
  /// For the first GPU these are the tensors themselves. Not recorded on the tape.
  std::vector<Tensors> broadcast(const Tensors& from);
  /// parts[d][i] is dense and on GPU d; its shape, dtype and layout are equal for all d.
  /// parts[0][i] becomes the sum over d. Not recorded on the tape.
  void reduce(const std::vector<Tensors>& parts);

 private:
  template <class Body>
  void in_group(const char* what, Body body);
  void settle(const char* what);
  void check(ncclResult_t status, const char* what) const;
  void abort();
  void require_alive(const char* what) const;

  std::vector<Device> devices_;
  const Nccl& nccl_;
  std::vector<ncclComm_t> comms_;  // null: aborted
};

}  // namespace rondo::dist
