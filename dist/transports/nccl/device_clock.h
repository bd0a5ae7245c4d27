#pragma once
// DeviceClock: when a mark in a stream of a GPU was reached, by the host's clock.
//
// The host learns that a mark has been reached some time later. But the GPU knows how far apart two
// marks are; so one is put into a stream where nothing else is and the time is read when it is
// reached, and others are told by their distance to it. Clocks drift apart, and so every second
// there is a new one. Belongs to one thread, which may wait a few microseconds for it.

#include "dist/transports/transport.h"
#include "tensor/cuda/stream.h"

namespace rondo::dist {

class DeviceClock {
 public:
  explicit DeviceClock(int device)
      : stream_(cuda::Stream::create(device)), mark_(device, /*with_time=*/true) {}

  /// Of an event with_time that has been reached.
  Clock::time_point time_of(const cuda::Event& reached);

 private:
  void set();

  cuda::Stream stream_;
  cuda::Event mark_;
  Clock::time_point at_{};  // when it was reached
};

}  // namespace rondo::dist
