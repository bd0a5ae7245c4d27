#pragma once
// NcclPeers: several GPUs of one process, over NCCL, for DataParallel.
//
// Each GPU has a communicator, and the calling thread drives them all: what it asks them for goes
// into one group, since a collective of one of them alone would wait for ever. The work lies in
// each GPU's current stream, so there are no events, and the host waits for nothing but NCCL's own
// preparations. After a failure nothing can follow: the communicators are aborted.

#include <vector>

#include "dist/transports/nccl/nccl_api.h"
#include "tensor/tensor.h"

namespace rondo::dist {

class NcclPeers {
 public:
  /// Different GPUs, at least two. Throws CommError when NCCL is not there or cannot join them.
  explicit NcclPeers(std::vector<Device> devices);
  ~NcclPeers();
  NcclPeers(const NcclPeers&) = delete;
  NcclPeers& operator=(const NcclPeers&) = delete;

  const std::vector<Device>& devices() const { return devices_; }
  /// Copies of dense tensors of the first GPU: [d][i] that of from[i] on GPU d, laid out alike;
  /// those of the first GPU are the tensors themselves. Off the tape.
  std::vector<Tensors> broadcast(const Tensors& from);
  /// parts[d][i], dense on GPU d and of one shape, dtype and layout for all d: parts[0][i] becomes
  /// their sum. Off the tape.
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
