#pragma once
// Meeting: the first step of every collective in shared memory. Each rank writes its signature to
// its slot. No rank continues before all signatures are there and are equal.

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "dist/transports/shared_memory/space.h"
#include "dist/transports/transport.h"

namespace rondo::dist {

/// The rank that has not arrived at the step, by its number in the world: "rank 2"; or "the
/// others", if all have arrived by now.
std::string missing_rank(SharedSpace& space, const Transport& transport);

class Meeting {
 public:
  /// Arrives without data in the slot. `whereabouts` is the place of the data.
  Meeting(SharedSpace& space, Transport& transport, const Signature& signature,
          const Whereabouts& whereabouts = {});
  /// Arrives with up to slot_bytes of data in the slot: for a small all-reduce.
  Meeting(SharedSpace& space, Transport& transport, const Signature& signature,
          std::span<const char> data);
  /// Whether all ranks have arrived. Throws CommError "rank 1 calls … where rank 0 calls …", and if
  /// the transport knows that a rank has ended.
  bool is_over();
  std::string waiting_for() const;
  /// A rank of the world that has not arrived at the current step, or -1. Also valid in later
  /// steps.
  int awaits() const;

 private:
  void arrive(const Signature& signature);
  SharedSpace& space_;
  Transport& transport_;
};

/// The operation that make() returns once all ranks have arrived; make() may return null. Does the
/// same as dist/collectives/checked.h does with messages.
std::unique_ptr<Operation> checked(SharedSpace& space, Transport& transport,
                                   const Signature& signature,
                                   std::function<std::unique_ptr<Operation>()> make);

}  // namespace rondo::dist
