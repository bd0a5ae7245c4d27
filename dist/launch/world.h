#pragma once
// The world that dist::init made, for dist::run to end when something fails.

#include <memory>

#include "dist/failure/flight_recorder.h"
#include "dist/failure/watch.h"
#include "dist/transports/transport.h"

namespace rondo::dist {

struct World {
  std::shared_ptr<Transport> transport;      // null before init
  std::shared_ptr<Watch> watch;              // Communicator::watch
  std::shared_ptr<FlightRecorder> recorder;  // of the world's communicator, or null
};
/// At the end of the process `watch` ends, after MPI_Finalize if this was called before MPI_Init.
void set_world(World all);
World world();

/// While a rank has one, a program that has failed on all ranks does not end: that rank is writing
/// what would be lost. Any thread.
class Unfinished {
 public:
  Unfinished();
  ~Unfinished();
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
};

}  // namespace rondo::dist
