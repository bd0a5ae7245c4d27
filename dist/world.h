#pragma once
// The world that dist::init made, for dist::run to end when something fails.

#include <memory>

#include "dist/shared/peer_watch.h"
#include "dist/transport.h"

namespace rondo::dist {

/// `watch` may be null.
void set_world(std::shared_ptr<Transport> transport, std::shared_ptr<PeerWatch> watch);
struct World {
  std::shared_ptr<Transport> transport;  // null before init
  std::shared_ptr<PeerWatch> watch;      // who knows which ranks have ended, or null
};
World world();

}  // namespace rondo::dist
