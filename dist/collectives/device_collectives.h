#pragma once
// DeviceCollectives: runs a communicator's collectives on tensors of its GPU. Implementations:
// dist/transports/nccl (NCCL's own collectives, and rondo's ring over NCCL's messages) and
// dist/collectives/cuda (through pinned memory of the host, over the communicator's transport).
//
// All of them put their work into a separate stream. It begins after the work that the current
// stream holds now, and Work::wait makes the current stream wait for it. The host continues.

#include <string>

#include "dist/collectives/collective.h"

namespace rondo::dist {

class DeviceCollectives : public CollectiveEngine {
 public:
  virtual Device device() const = 0;
  /// "nccl", "staged": used in messages.
  virtual const char* name() const = 0;
  /// Whether they run as collectives of the host (dist/collectives/host_collectives.h), which
  /// compares them.
  virtual bool is_by_way_of_host() const { return false; }

  /// Watches a graph that holds collectives and has just been launched in the current stream, until
  /// it completes.
  virtual void watch(std::string what) = 0;
  /// Ends all operations under way; the next call on this rank throws CommError with this sentence.
  virtual void give_up(const std::string&) {}
  virtual bool has_failed() const { return false; }
};

}  // namespace rondo::dist
