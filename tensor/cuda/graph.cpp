#include <atomic>
#include <vector>

#include "tensor/backend.h"
#include "tensor/cuda/allocator.h"
#include "tensor/cuda/capture.h"
#include "tensor/cuda_graph.h"
#include "tensor/random.h"

namespace rondo::cuda {
namespace {

struct Capture {
  int device;
  BlockPool& memory;
  std::vector<std::shared_ptr<void>>& kept;
};
thread_local const Capture* capture_of_thread = nullptr;
std::atomic<int> captures{0};

/// While it exists, all allocations of the thread belong to the graph.
class CaptureScope {
 public:
  explicit CaptureScope(const Capture& capture) { capture_of_thread = &capture; }
  ~CaptureScope() { capture_of_thread = nullptr; }
  CaptureScope(const CaptureScope&) = delete;
  CaptureScope& operator=(const CaptureScope&) = delete;
};

/// Counts as one capture in captures_underway while it exists.
struct Underway {
  Underway() { ++captures; }
  ~Underway() { --captures; }
  Underway(const Underway&) = delete;
  Underway& operator=(const Underway&) = delete;
};

}  // namespace

bool is_capturing() { return capture_of_thread != nullptr; }
bool captures_underway() { return captures > 0; }

BlockPool* capture_memory(int device) {
  if (capture_of_thread == nullptr) return nullptr;
  require<CudaError>(capture_of_thread->device == device,
                     "cuda::Graph: capturing cuda:", capture_of_thread->device,
                     ", but the step also uses cuda:", device, "; a graph uses one device");
  return &capture_of_thread->memory;
}

void keep_with_capture(std::shared_ptr<void> kept) {
  if (capture_of_thread != nullptr) capture_of_thread->kept.push_back(std::move(kept));
}

class Graph::Impl {
 public:
  explicit Impl(Device device)
      : device_(device.index),
        stream_(Stream::create(device_)),
        memory_(CachingAllocator::of(device_).new_pool()),
        random_(Tensor::empty({}, {.dtype = i64, .device = device})) {}
  ~Impl() {
    if (exec_ != nullptr) cudart().graph_exec_destroy(exec_);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  bool is_captured() const { return exec_ != nullptr; }

  void capture(const std::function<void()>& step) {
    require<CudaError>(!is_captured(), "cuda::Graph: it has been captured already");
    require<CudaError>(!is_capturing(), "cuda::Graph: captures cannot be nested");
    const DeviceGuard guard(device_);
    const Event before(device_);
    before.record(current_stream(device_));
    before.block(stream_);
    const Underway underway;  // until the stream's capture has ended
    check(cudart().stream_begin_capture(stream_.get(), cudaStreamCaptureModeRelaxed));
    cudaGraph_t graph = nullptr;
    try {
      const StreamGuard current(stream_);
      const Capture capture{device_, *memory_, kept_};
      const CaptureScope scope(capture);
      const Generator::Replayable numbers(static_cast<const std::uint64_t*>(random_.data_ptr()));
      step();
      seed_ = default_generator().state().seed;
      draws_ = default_generator().state().next_stream;
    } catch (...) {
      // The graph is invalid because the step did not finish. Only the step's own error is
      // reported.
      if (cudart().stream_end_capture(stream_.get(), &graph) == cudaSuccess && graph != nullptr)
        cudart().graph_destroy(graph);
      cudart().get_last_error();
      throw;
    }
    check(cudart().stream_end_capture(stream_.get(), &graph));
    const cudaError_t status = cudart().graph_instantiate(&exec_, graph, 0);
    cudart().graph_destroy(graph);
    check(status);
  }

  void replay() {
    require<CudaError>(is_captured(), "cuda::Graph: nothing to replay; call capture first");
    if (draws_ > 0) {
      const Generator::State state = default_generator().state();
      require<CudaError>(state.seed == seed_, "cuda::Graph: it was captured with seed ", seed_,
                         ", but the generator has seed ", state.seed, " now");
      backend(random_).fill(random_, static_cast<std::int64_t>(state.next_stream));
      default_generator().set_state({state.seed, state.next_stream + draws_});
    }
    const DeviceGuard guard(device_);
    check(cudart().graph_launch(exec_, current_stream(device_).get()));
  }

 private:
  int device_;
  Stream stream_;
  std::shared_ptr<BlockPool> memory_;
  std::vector<std::shared_ptr<void>> kept_;  // destroyed after the graph itself
  Tensor random_;                            // the first stream of random numbers in a replay
  std::uint64_t seed_ = 0, draws_ = 0;
  cudaGraphExec_t exec_ = nullptr;
};

Graph::Graph(Device device) {
  require_device(device.index);
  impl_ = std::make_unique<Impl>(device);
}
Graph::~Graph() = default;
void Graph::capture(const std::function<void()>& step) { impl_->capture(step); }
bool Graph::is_captured() const { return impl_->is_captured(); }
void Graph::replay() { impl_->replay(); }

}  // namespace rondo::cuda
