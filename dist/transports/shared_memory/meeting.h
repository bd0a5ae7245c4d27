#pragma once
// Meeting: the first step of every collective in shared memory. Each rank says in its slot what it
// means, and nobody goes on before all have been heard and mean the same.

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "dist/transports/shared_memory/space.h"
#include "dist/transports/transport.h"

namespace rondo::dist {

/// "rank 2", by the world's number, that has not arrived at the step, or "the others", of whom all
/// have by now.
std::string missing_rank(SharedSpace& space, const Transport& transport);

class Meeting {
 public:
  /// Arrives with what its stage holds, if anything, and says where the data lies.
  Meeting(SharedSpace& space, Transport& transport, const Signature& signature,
          const Whereabouts& whereabouts = {});
  /// Arrives with data, up to slot_bytes, in the slot: of a small all-reduce.
  Meeting(SharedSpace& space, Transport& transport, const Signature& signature,
          std::span<const char> data);
  /// Whether all are there. Throws CommError "rank 1 calls … where rank 0 calls …", and where the
  /// transport knows of a rank that has ended.
  bool is_over();
  std::string waiting_for() const;
  /// A rank of the world that has not arrived at the present step, or -1: in all that follows, too.
  int awaits() const;

 private:
  void arrive(const Signature& signature);
  SharedSpace& space_;
  Transport& transport_;
};

/// The operation that make() gives once all ranks are there, which may be null. As
/// dist/collectives/checked.h does by messages.
std::unique_ptr<Operation> checked(SharedSpace& space, Transport& transport,
                                   const Signature& signature,
                                   std::function<std::unique_ptr<Operation>()> make);

}  // namespace rondo::dist
