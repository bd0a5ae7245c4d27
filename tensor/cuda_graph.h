#pragma once
// Graph: a program's step on a GPU, captured once and launched repeatedly.
//
// Launching a kernel costs the host some microseconds, and a small network's step has hundreds of
// kernels. A graph contains all of them and is launched as one unit:
//
//   cuda::Graph graph(device);
//   for (int i = 0; i < 3; ++i) step();      // warm up: plans, memory, connections
//   graph.capture(step);                      // runs nothing: records the GPU's work
//   while (…) { x.copy_(next batch); graph.replay(); }
//
// A step must run the same kernels on the same memory every time. It reads its input from tensors
// that persist (x above) and writes its results to tensors that persist. Shapes do not change. It
// never reads a value on the host (item, a comparison, a copy to the CPU: CudaError). Numbers that
// change between replays are in the GPU's memory: the learning rate and step count of optimizers
// are. Random numbers continue from replay to replay as they would without a graph.
//
// Memory that a captured step allocates belongs to the graph, because every replay writes to it
// again. No other tensor gets this memory while the graph or one of its tensors exists.

#include <functional>
#include <memory>

#include "tensor/device.h"

namespace rondo::cuda {

class Graph {
 public:
  /// Throws DeviceError if the GPU does not exist.
  explicit Graph(Device device);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// Calls step() and records the work that it submits to the device's current stream, and to
  /// streams that wait for that stream and that it waits for in turn (a DDP's communication). If
  /// step() throws, capture rethrows the exception and the graph is empty. Call it once.
  void capture(const std::function<void()>& step);
  bool is_captured() const;
  /// Runs the captured work as the next work of the current stream.
  void replay();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Whether the calling thread is inside Graph::capture.
bool is_capturing();

}  // namespace rondo::cuda
