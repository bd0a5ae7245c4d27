#pragma once
// DeviceClock: the time, on the host's clock, at which an event in a GPU's stream was reached.
//
// The host learns only later that an event has been reached. But the GPU can tell the time between
// two events. So a reference event is put into an idle stream, and the host reads its own clock
// when the event is reached. The times of other events are computed from their distance to the
// reference. The clocks drift apart, so there is a new reference every second. Not thread-safe:
// belongs to one thread, which may wait a few microseconds for a reference.

#include "dist/transports/transport.h"
#include "tensor/cuda/stream.h"

namespace rondo::dist {

class DeviceClock {
 public:
  explicit DeviceClock(int device)
      : stream_(cuda::Stream::create(device)), mark_(device, /*with_time=*/true) {}

  /// The time of an event with_time that has been reached.
  Clock::time_point time_of(const cuda::Event& reached);

 private:
  void set();

  cuda::Stream stream_;
  cuda::Event mark_;
  Clock::time_point at_{};  // when mark_ was reached
};

}  // namespace rondo::dist
