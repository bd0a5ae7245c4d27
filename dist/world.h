#pragma once
// The world that dist::init made, for dist::run to end when something fails.

#include <memory>

#include "dist/flight_recorder.h"
#include "dist/shared/peer_watch.h"
#include "dist/transport.h"

namespace rondo::dist {

/// `watch` and `recorder` may be null.
void set_world(std::shared_ptr<Transport> transport, std::shared_ptr<PeerWatch> watch,
               std::shared_ptr<FlightRecorder> recorder);
struct World {
  std::shared_ptr<Transport> transport;      // null before init
  std::shared_ptr<PeerWatch> watch;          // who knows which ranks have ended, or null
  std::shared_ptr<FlightRecorder> recorder;  // of the world's communicator, or null
};
World world();

}  // namespace rondo::dist
