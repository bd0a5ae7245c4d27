#pragma once
// The world that dist::init made. dist::run ends it when a rank fails.

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
/// Sets the world. At process exit its `watch` is destroyed; if the first call was before MPI_Init,
/// this happens after MPI_Finalize.
void set_world(World all);
World world();

/// While a rank has an Unfinished object, a program that has failed on all ranks does not end: the
/// rank is writing data that would be lost. Thread-safe.
class Unfinished {
 public:
  Unfinished();
  ~Unfinished();
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
};

}  // namespace rondo::dist
