#pragma once
// The CUDA runtime's streams, events, memory and graphs on the host, for tests without a GPU.
//
// Work in a device's default stream is done at once, as if the GPU were infinitely fast. Work in
// any other stream is done as late as can be: when a stream that is to run waits for it, when the
// host does, or bit by bit when it is asked about. So a program that forgets to wait for a stream
// sees the numbers from before, and a test of its results fails; what a stream should have waited
// for and has not can be asked (`has_waited_for_device`).
//
// A graph that is captured holds the work itself; launching it does that work. What CUDA forbids
// while a stream is captured (waiting for it, asking about it, events from outside the capture,
// ends that were not joined) is an error here as well.

#include <functional>

#include "tensor/cuda/cudart.h"

namespace rondo::test {

inline constexpr int host_gpus = 4;

const cuda::Cudart& host_cudart();

/// Puts work into a stream (null: the current device's default one), in which it is done when
/// `work` returns true; it is called again until then. `work` is called with the table locked.
void submit(cudaStream_t stream, std::function<bool()> work);
/// For launches (tensor/cuda/simulation.h).
void launch(int device, std::function<void()> kernel);

/// Whether all that has been put into the default stream of the stream's device comes before what
/// is put into `stream` now.
bool has_waited_for_device(cudaStream_t stream);
/// How many bytes a GPU has.
void set_memory_of_gpus(std::size_t bytes);

}  // namespace rondo::test
