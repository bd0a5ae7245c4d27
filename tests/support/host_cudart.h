#pragma once
// The CUDA runtime's streams, events, memory and graphs on the host, for tests without a GPU.
//
// Work runs as late as possible, also in default streams: when a stream that must run waits for it,
// when the host does, or step by step when it is queried. So a program that forgets to wait for a
// stream reads old values, and a test of its results fails. `has_waited_for_device` tells whether a
// stream has waited for what it needs.
//
// Errors stay pending until get_last_error, as in CUDA, and a kernel must not be launched before. A
// sticky error stays forever, and every call returns it.
// The memory of the GPUs is device_memory.h's.
//
// A captured graph stores the work itself, and launching it runs that work. What CUDA forbids
// during a capture (waiting for the stream, querying it, events from outside the capture, branches
// that are not joined) is an error here too.

#include <functional>
#include <optional>
#include <set>
#include <utility>

#include "tensor/cuda/cudart.h"

namespace rondo::test {

inline constexpr int host_gpus = 4;

const cuda::Cudart& host_cudart();

/// Appends work to a stream (null: the current device's default one). The work is done when `work`
/// returns true; until then it is called again. `work` is called with the table locked.
void submit(cudaStream_t stream, std::function<bool()> work);
/// For launches (tensor/cuda/simulation.h).
void launch(int device, std::function<void()> kernel);

/// Whether everything in the default stream of the stream's device comes before work that is added
/// to `stream` now.
bool has_waited_for_device(cudaStream_t stream);
/// Which GPUs have been given direct access to which others. The hardware joins 0 with 1, and 2
/// with 3.
std::set<std::pair<int, int>> enabled_peers();
/// Sets the memory size of a GPU in bytes.
void set_memory_of_gpus(std::size_t bytes);
/// cudaMalloc, and each allocation of an `exact` block, succeeds `count` more times; nullopt: as
/// long as there is memory.
void set_allocations_left(std::optional<int> count);
/// Counts an allocation. Whether it must fail.
bool is_out_of_memory();
/// Frees a block of memory when the work that is in the stream now is done.
void free_when_reached(int device, cudaStream_t stream, void* data);
/// From now on every call fails with this error, as after an illegal access in a kernel;
/// cudaSuccess: no longer.
void set_sticky_error(cudaError_t error);

}  // namespace rondo::test
