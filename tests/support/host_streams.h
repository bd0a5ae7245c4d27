#pragma once
// What the parts of the CUDA runtime's double share (host_cudart.h): the streams and their work.

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "support/host_cudart.h"

namespace rondo::test {

struct HostStream;

/// A capture in progress, and later the graph: the work of all its streams in the order of
/// submission, which is one of the orders that the streams permit.
struct Graph {
  HostStream* origin = nullptr;
  std::vector<std::function<bool()>> work;
  std::map<HostStream*, bool> joined;  // by stream, except the origin
  bool is_void = false;                // an operation was called that a capture forbids
};

struct HostStream {
  struct Item {
    std::function<bool()> work;
    std::vector<std::function<void()>> then = {};
  };
  int device = 0;
  bool is_default = false;
  std::deque<Item> queue;
  std::uint64_t submitted = 0, completed = 0;
  std::map<const HostStream*, std::uint64_t> waited;  // how much of each stream comes before
  std::shared_ptr<Graph> capture;
  int asked = 0;
};

using Lock = std::unique_lock<std::recursive_mutex>;

/// Guards the streams, and is held while their work runs.
std::recursive_mutex& streams_mutex();
int& current_device();
HostStream& of(cudaStream_t stream);
/// The default stream of a device.
HostStream& default_of(int device);
/// The streams that programs created, of all devices.
const std::vector<HostStream*>& created_streams();

/// Adds work to a stream, or to the graph that it captures.
void put(HostStream& stream, std::function<bool()> work);
/// Calls `what` after the work that the stream has now: at once if it has none.
void when_reached(HostStream& stream, std::function<void()> what);
/// Executes the first item in the queue if it is ready.
bool pump(HostStream& stream);
/// Waits until `place` items of the stream are done. Other streams run while it waits for them.
void run_until(HostStream& stream, std::uint64_t place, Lock& lock);
/// A forbidden operation also invalidates the capture.
cudaError_t forbidden(Graph& capture, cudaError_t error);

cudaError_t device_synchronize();
cudaError_t get_stream_priority_range(int* lowest, int* highest);
cudaError_t stream_create(cudaStream_t* stream, unsigned flags, int priority);
cudaError_t stream_query(cudaStream_t stream);
cudaError_t stream_synchronize(cudaStream_t stream);
cudaError_t stream_wait_event(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t event_create(cudaEvent_t* event, unsigned flags);
cudaError_t event_destroy(cudaEvent_t event);
cudaError_t event_record(cudaEvent_t event, cudaStream_t stream);
cudaError_t event_query(cudaEvent_t event);
cudaError_t event_synchronize(cudaEvent_t event);
cudaError_t event_elapsed_time(float* ms, cudaEvent_t start, cudaEvent_t end);

cudaError_t begin_capture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t end_capture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t graph_instantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags);
cudaError_t graph_launch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t graph_exec_destroy(cudaGraphExec_t exec);
cudaError_t graph_destroy(cudaGraph_t graph);

}  // namespace rondo::test
