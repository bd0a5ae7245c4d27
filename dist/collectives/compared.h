#pragma once
// ComparedCollectives: GPU collectives whose ranks verify on the host that they all call the same.
// Private to dist.
//
// NCCL does not compare anything: ranks that call different collectives hang, or compute with
// invalid data. Therefore the ranks compare each collective on the host, as they do for CPU tensors
// (dist/collectives/checked.h): name, operation, dtype, shape and root. The background thread does
// this; neither the program nor the GPU waits for it. If the ranks call different collectives, or a
// rank has ended or does not call it, the GPU's work is given up, since its kernels would never
// end. The next call or wait on each rank then throws the reason. Until then a rank may compute
// with invalid results. CommunicatorOptions::check_collectives prevents this: Work::wait then
// blocks the host until all ranks have told each other what they call.
//
// An exchange (gather, scatter, all_to_all, an all_gather of uneven parts) always works in this
// way. It is rare, and only sender and receiver know the parts that they exchange. So every rank
// tells every other rank its root, where its tensors are, and what it sends and receives. NCCL is
// called meanwhile.

#include <memory>
#include <string>
#include <utility>

#include "dist/collectives/collective.h"
#include "dist/collectives/device_collectives.h"
#include "dist/collectives/host_collectives.h"

namespace rondo::dist {

struct AllCallSummaries;

class ComparedCollectives final : public CollectiveEngine {
 public:
  /// `host` must outlive it.
  ComparedCollectives(HostCollectives& host, std::shared_ptr<DeviceCollectives> gpu)
      : host_(host), gpu_(std::move(gpu)) {}

  void check(const Collective& c) const override { gpu_->check(c); }
  Work start(Collective&& c, bool waits = false) override;
  /// To be called at the end. The other ranks may be some collectives behind, and then wait for
  /// this rank's signatures of the last ones. After a failure they no longer need them.
  void finish() noexcept;

  /// Communicator::comparison.
  static const char* when(const HostCollectives& host);

 private:
  Work start_exchange(Collective&& c);
  Work compare(const std::string& title, const std::shared_ptr<AllCallSummaries>& all);
  void compare_in_background(const std::string& title, const Signature& signature);

  HostCollectives& host_;
  std::shared_ptr<DeviceCollectives> gpu_;
  Work last_;  // the last comparison that runs while the GPU works
};

}  // namespace rondo::dist
