#pragma once
// Graph: a step of a program on a GPU, captured once and launched again and again.
//
// Launching a kernel costs the host some microseconds, and a small network's step has hundreds. A
// graph holds them all, and is launched as one:
//
//   cuda::Graph graph(device);
//   for (int i = 0; i < 3; ++i) step();      // plans are made, memory is found, connections stand
//   graph.capture(step);                      // runs nothing: notes what the GPU was asked for
//   while (…) { x.copy_(next batch); graph.replay(); }
//
// What a step must be: the same kernels on the same memory every time. It reads its input from
// tensors that stay (x above) and leaves its results in tensors that stay; shapes do not change;
// it never looks at a value on the host (item, a comparison, a copy to the CPU: CudaError). Numbers
// that change between replays lie in the GPU's memory: the learning rate and step count of
// optimizers do, and random numbers go on from replay to replay as they would without a graph.
//
// Memory that a captured step allocates is the graph's own, since every replay writes there again:
// nothing else gets it while the graph or a tensor of it lives.

#include <functional>
#include <memory>

#include "tensor/device.h"

namespace rondo::cuda {

class Graph {
 public:
  /// Throws DeviceError where there is no such GPU.
  explicit Graph(Device device);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// Calls step() and notes what it puts into the current stream of the device, and into streams
  /// that wait for it and for which it waits in turn (a DDP's communication). What step() throws
  /// comes out, and the graph is empty then. Once.
  void capture(const std::function<void()>& step);
  bool is_captured() const;
  /// Does what was captured, as the next work of the current stream.
  void replay();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Whether the calling thread is inside Graph::capture.
bool is_capturing();

}  // namespace rondo::cuda
