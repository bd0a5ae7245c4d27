#include "tensor/cuda/stream.h"

#include <atomic>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "tensor/cuda/index_check.h"
#include "tensor/cuda_graph.h"

namespace rondo::cuda {
namespace {

std::atomic<std::uint64_t> waits{0};

/// The streams that guards have made current in place of the default streams.
std::map<int, Stream>& current_streams() {
  thread_local std::map<int, Stream> streams;
  return streams;
}

/// Streams without an owner. They are reused, never destroyed: the allocator keeps blocks per
/// stream, and the work that is still in a stream must run before the next owner's work.
class IdleStreams {
 public:
  static IdleStreams& instance() {
    static auto* idle = new IdleStreams;
    return *idle;
  }
  using Kind = std::tuple<const Cudart*, int, bool>;  // device, and whether of high priority

  cudaStream_t take(const Kind& kind) {
    std::lock_guard lock(mutex_);
    auto& streams = idle_[kind];
    if (streams.empty()) return nullptr;
    cudaStream_t stream = streams.back();
    streams.pop_back();
    return stream;
  }
  void give_back(const Kind& kind, cudaStream_t stream) {
    std::lock_guard lock(mutex_);
    idle_[kind].push_back(stream);
  }

 private:
  std::mutex mutex_;
  std::map<Kind, std::vector<cudaStream_t>> idle_;
};

/// cudaErrorNotReady is an answer, not a failure, but it stays pending like an error.
bool answered_done(cudaError_t status) {
  if (status == cudaErrorNotReady) {
    cudart().get_last_error();
    return false;
  }
  check(status);
  return true;
}

}  // namespace

Stream Stream::create(int device, bool high_priority) {
  DeviceGuard guard(device);
  const IdleStreams::Kind kind{&cudart(), device, high_priority};
  cudaStream_t made = IdleStreams::instance().take(kind);
  if (made == nullptr) {
    int lowest = 0, highest = 0;
    check(cudart().get_stream_priority_range(&lowest, &highest));
    check(cudart().stream_create_with_priority(&made, cudaStreamNonBlocking,
                                               high_priority ? highest : lowest));
  }
  Stream stream(device);
  stream.owned_ = std::shared_ptr<CUstream_st>(
      made, [kind](cudaStream_t s) { IdleStreams::instance().give_back(kind, s); });
  return stream;
}

void Stream::synchronize() const {
  count_synchronization();
  DeviceGuard guard(device_);
  check(cudart().stream_synchronize(get()));
}

bool Stream::is_done() const {
  DeviceGuard guard(device_);
  return answered_done(cudart().stream_query(get()));
}

Stream current_stream(int device) {
  auto found = current_streams().find(device);
  return found == current_streams().end() ? Stream(device) : found->second;
}

StreamGuard::StreamGuard(const Stream& stream) : before_(current_stream(stream.device())) {
  current_streams().insert_or_assign(stream.device(), stream);
}

StreamGuard::~StreamGuard() { current_streams().insert_or_assign(before_.device(), before_); }

Event::Event(int device, bool with_time) : device_(device) {
  DeviceGuard guard(device);
  cudaEvent_t made = nullptr;
  check(cudart().event_create_with_flags(&made,
                                         with_time ? cudaEventDefault : cudaEventDisableTiming));
  event_ = std::shared_ptr<CUevent_st>(made, [](cudaEvent_t e) { cudart().event_destroy(e); });
}

void Event::record(const Stream& stream) const {
  DeviceGuard guard(stream.device());
  check(cudart().event_record(get(), stream.get()));
}

void Event::block(const Stream& stream) const {
  DeviceGuard guard(stream.device());
  check(cudart().stream_wait_event(stream.get(), get(), 0));
}

bool Event::is_done() const {
  DeviceGuard guard(device_);
  return answered_done(cudart().event_query(get()));
}

void Event::synchronize() const {
  count_synchronization();
  DeviceGuard guard(device_);
  check(cudart().event_synchronize(get()));
}

float Event::ms_since(const Event& start) const {
  float ms = 0;
  check(cudart().event_elapsed_time(&ms, start.get(), get()));
  return ms;
}

void synchronize(int device) {
  require_device(device);
  count_synchronization();
  DeviceGuard guard(device);
  check(cudart().device_synchronize());
  check_indices(device);
}

std::uint64_t synchronizations() { return waits; }
void refuse_host_in_capture() {
  require<CudaError>(
      !is_capturing(),
      "cuda::Graph: a captured step must not use the host or wait for the GPU, but it read a "
      "value or copied to or from the CPU");
}

void count_synchronization() {
  refuse_host_in_capture();
  ++waits;
}

}  // namespace rondo::cuda
