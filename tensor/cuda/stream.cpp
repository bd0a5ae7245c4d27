#include "tensor/cuda/stream.h"

#include <atomic>
#include <map>

namespace rondo::cuda {
namespace {

std::atomic<std::uint64_t> waits{0};

/// Streams that a guard has put in the place of the defaults.
std::map<int, Stream>& current_streams() {
  thread_local std::map<int, Stream> streams;
  return streams;
}

/// cudaErrorNotReady is an answer, not a failure, but it sticks like one.
bool answered_done(cudaError_t status) {
  if (status == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  check(status);
  return true;
}

}  // namespace

Stream Stream::create(int device, bool high_priority) {
  DeviceGuard guard(device);
  int lowest = 0, highest = 0;
  check(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
  cudaStream_t made = nullptr;
  check(
      cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, high_priority ? highest : lowest));
  Stream stream(device);
  stream.owned_ = std::shared_ptr<CUstream_st>(made, [](cudaStream_t s) { cudaStreamDestroy(s); });
  return stream;
}

void Stream::synchronize() const {
  count_synchronization();
  DeviceGuard guard(device_);
  check(cudaStreamSynchronize(get()));
}

bool Stream::is_done() const {
  DeviceGuard guard(device_);
  return answered_done(cudaStreamQuery(get()));
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
  check(cudaEventCreateWithFlags(&made, with_time ? cudaEventDefault : cudaEventDisableTiming));
  event_ = std::shared_ptr<CUevent_st>(made, [](cudaEvent_t e) { cudaEventDestroy(e); });
}

void Event::record(const Stream& stream) const {
  DeviceGuard guard(stream.device());
  check(cudaEventRecord(get(), stream.get()));
}

void Event::block(const Stream& stream) const {
  DeviceGuard guard(stream.device());
  check(cudaStreamWaitEvent(stream.get(), get(), 0));
}

bool Event::is_done() const { return answered_done(cudaEventQuery(get())); }

void Event::synchronize() const {
  count_synchronization();
  check(cudaEventSynchronize(get()));
}

float Event::ms_since(const Event& start) const {
  float ms = 0;
  check(cudaEventElapsedTime(&ms, start.get(), get()));
  return ms;
}

std::uint64_t synchronizations() { return waits; }
void count_synchronization() { ++waits; }

}  // namespace rondo::cuda
