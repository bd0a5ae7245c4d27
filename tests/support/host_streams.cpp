#ifdef RONDO_HAS_CUDA

#include "support/host_streams.h"

#include <algorithm>
#include <array>
#include <thread>
#include <utility>

#include "support/device_memory.h"

namespace rondo::test {
namespace {

struct HostEvent {
  using Time = std::chrono::steady_clock::time_point;
  bool is_timed = false;
  HostStream* stream = nullptr;
  std::uint64_t place = 0;
  std::map<const HostStream*, std::uint64_t> waited;
  std::shared_ptr<Graph> capture;
  std::shared_ptr<Time> time;  // when the stream reached the event
};
HostEvent& of(cudaEvent_t event) { return *reinterpret_cast<HostEvent*>(event); }

std::array<HostStream, host_gpus>& defaults() {
  static auto* streams = [] {
    auto* made = new std::array<HostStream, host_gpus>;
    for (int i = 0; i < host_gpus; ++i) {
      (*made)[static_cast<std::size_t>(i)].device = i;
      (*made)[static_cast<std::size_t>(i)].is_default = true;
    }
    return made;
  }();
  return *streams;
}
std::vector<HostStream*>& created() {
  static auto* streams = new std::vector<HostStream*>;
  return *streams;
}

bool pump_all() {
  bool moved = false;
  for (HostStream& stream : defaults()) moved |= pump(stream);
  for (HostStream* stream : created()) moved |= pump(*stream);
  return moved;
}

/// As in CUDA, work that is already in the stream still runs, and other streams that it waits for.
cudaError_t answer(HostStream& stream, std::uint64_t place) {
  if (stream.completed < place && ++stream.asked % 2 == 0 && !pump(stream)) pump_all();
  return stream.completed >= place ? cudaSuccess : cudaErrorNotReady;
}

}  // namespace

std::recursive_mutex& streams_mutex() {
  static auto* made = new std::recursive_mutex;
  return *made;
}
int& current_device() {
  thread_local int device = 0;
  return device;
}
HostStream& default_of(int device) { return defaults()[static_cast<std::size_t>(device)]; }
HostStream& of(cudaStream_t stream) {
  return stream != nullptr ? *reinterpret_cast<HostStream*>(stream) : default_of(current_device());
}
const std::vector<HostStream*>& created_streams() { return created(); }

void put(HostStream& stream, std::function<bool()> work) {
  if (stream.capture != nullptr) {
    stream.capture->work.push_back(std::move(work));
    if (&stream != stream.capture->origin) stream.capture->joined[&stream] = false;
    return;
  }
  stream.queue.push_back({std::move(work)});
  ++stream.submitted;
}

void when_reached(HostStream& stream, std::function<void()> what) {
  if (stream.queue.empty()) return what();
  stream.queue.back().then.push_back(std::move(what));
}

bool pump(HostStream& stream) {
  if (stream.queue.empty()) return false;
  auto work = stream.queue.front().work;  // a copy: the work may access its own stream
  {
    const DeviceAccess access;
    if (!work()) return false;
  }
  const HostStream::Item item = std::move(stream.queue.front());
  stream.queue.pop_front();
  ++stream.completed;
  for (const auto& what : item.then) what();
  return true;
}

void run_until(HostStream& stream, std::uint64_t place, Lock& lock) {
  while (stream.completed < place) {
    {
      const DeviceAccess access;  // once for all items: opening the memory takes system calls
      while (stream.completed < place && (pump(stream) || pump_all())) {
      }
    }
    if (stream.completed >= place) return;
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
  }
}

// ---- streams ----

cudaError_t get_stream_priority_range(int* lowest, int* highest) {
  *lowest = 0;
  *highest = -5;
  return cudaSuccess;
}
cudaError_t stream_create(cudaStream_t* stream, unsigned, int) {
  Lock lock(streams_mutex());
  // Never freed: other streams' positions may refer to it.
  static auto* all = new std::vector<std::unique_ptr<HostStream>>;
  HostStream* made = all->emplace_back(new HostStream{.device = current_device()}).get();
  created().push_back(made);
  *stream = reinterpret_cast<cudaStream_t>(made);
  return cudaSuccess;
}
cudaError_t forbidden(Graph& capture, cudaError_t error) {
  capture.is_void = true;
  return error;
}
cudaError_t stream_query(cudaStream_t stream) {
  Lock lock(streams_mutex());
  if (of(stream).capture != nullptr)
    return forbidden(*of(stream).capture, cudaErrorStreamCaptureUnsupported);
  return answer(of(stream), of(stream).submitted);
}
cudaError_t stream_synchronize(cudaStream_t stream) {
  Lock lock(streams_mutex());
  if (of(stream).capture != nullptr)
    return forbidden(*of(stream).capture, cudaErrorStreamCaptureUnsupported);
  run_until(of(stream), of(stream).submitted, lock);
  return cudaSuccess;
}
cudaError_t device_synchronize() {
  Lock lock(streams_mutex());
  for (HostStream* stream : std::vector(created())) {  // other threads may create more meanwhile
    if (stream->device != current_device()) continue;
    if (stream->capture != nullptr)
      return forbidden(*stream->capture, cudaErrorStreamCaptureUnsupported);
    run_until(*stream, stream->submitted, lock);
  }
  return stream_synchronize(nullptr);
}

// ---- events ----

cudaError_t event_create(cudaEvent_t* event, unsigned flags) {
  *event = reinterpret_cast<cudaEvent_t>(
      new HostEvent{.is_timed = (flags & cudaEventDisableTiming) == 0});
  return cudaSuccess;
}
cudaError_t event_destroy(cudaEvent_t event) {
  delete &of(event);
  return cudaSuccess;
}
cudaError_t event_record(cudaEvent_t event, cudaStream_t stream_) {
  Lock lock(streams_mutex());
  HostStream& stream = of(stream_);
  auto time = std::make_shared<HostEvent::Time>();
  if (stream.capture == nullptr)
    when_reached(stream, [time] { *time = std::chrono::steady_clock::now(); });
  of(event) = {of(event).is_timed, &stream, stream.submitted, stream.waited, stream.capture, time};
  return cudaSuccess;
}
cudaError_t stream_wait_event(cudaStream_t stream_, cudaEvent_t event_, unsigned) {
  Lock lock(streams_mutex());
  HostStream& stream = of(stream_);
  const HostEvent& event = of(event_);
  if (event.stream == nullptr) return cudaSuccess;  // never recorded
  if (event.capture != nullptr) {
    if (stream.capture != nullptr && stream.capture != event.capture)
      return cudaErrorStreamCaptureMerge;
    stream.capture = event.capture;
    if (&stream != event.capture->origin) event.capture->joined.try_emplace(&stream, true);
    if (event.stream != event.capture->origin) event.capture->joined[event.stream] = true;
    return cudaSuccess;
  }
  if (stream.capture != nullptr) return cudaErrorStreamCaptureIsolation;
  auto raise = [&](const HostStream* to, std::uint64_t place) {
    std::uint64_t& known = stream.waited[to];
    known = std::max(known, place);
  };
  raise(event.stream, event.place);
  for (const auto& [to, place] : event.waited) raise(to, place);
  HostStream* of_event = event.stream;
  const std::uint64_t place = event.place;
  if (of_event == &stream || of_event->completed >= place) return cudaSuccess;
  put(stream, [=] {
    while (of_event->completed < place && pump(*of_event)) {
    }
    return of_event->completed >= place;
  });
  return cudaSuccess;
}
cudaError_t event_query(cudaEvent_t event) {
  Lock lock(streams_mutex());
  if (of(event).stream == nullptr) return cudaSuccess;
  if (of(event).capture != nullptr) return forbidden(*of(event).capture, cudaErrorCapturedEvent);
  return answer(*of(event).stream, of(event).place);
}
cudaError_t event_synchronize(cudaEvent_t event) {
  Lock lock(streams_mutex());
  if (of(event).stream == nullptr) return cudaSuccess;
  if (of(event).capture != nullptr) return forbidden(*of(event).capture, cudaErrorCapturedEvent);
  run_until(*of(event).stream, of(event).place, lock);
  return cudaSuccess;
}
cudaError_t event_elapsed_time(float* ms, cudaEvent_t start, cudaEvent_t end) {
  Lock lock(streams_mutex());
  for (const cudaEvent_t event : {start, end}) {
    if (!of(event).is_timed || of(event).stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (of(event).capture != nullptr) return forbidden(*of(event).capture, cudaErrorCapturedEvent);
    if (of(event).stream->completed < of(event).place) return cudaErrorNotReady;
  }
  *ms = std::chrono::duration<float, std::milli>(*of(end).time - *of(start).time).count();
  return cudaSuccess;
}

}  // namespace rondo::test

#endif  // RONDO_HAS_CUDA
