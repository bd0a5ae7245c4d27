#ifdef RONDO_HAS_CUDA

#include "support/host_cudart.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "support/device_memory.h"
#include "tensor/cuda/stream.h"

namespace rondo::test {
namespace {

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
  int device = 0;
  bool is_default = false;
  std::deque<std::function<bool()>> queue;
  std::uint64_t submitted = 0, completed = 0;
  std::map<const HostStream*, std::uint64_t> waited;  // how much of each stream comes before
  std::shared_ptr<Graph> capture;
  int asked = 0;
};

struct HostEvent {
  HostStream* stream = nullptr;
  std::uint64_t place = 0;
  std::map<const HostStream*, std::uint64_t> waited;
  std::shared_ptr<Graph> capture;
  std::chrono::steady_clock::time_point time;
};

std::recursive_mutex& mutex() {
  static auto* made = new std::recursive_mutex;
  return *made;
}
using Lock = std::unique_lock<std::recursive_mutex>;

thread_local int current_device = 0;
std::size_t memory_of_gpu = std::size_t{1} << 40;
thread_local cudaError_t pending = cudaSuccess;
std::map<void*, std::size_t> allocations;
std::set<std::pair<int, int>> peers;  // (a, b): GPU a reaches the memory of GPU b
std::size_t allocated = 0;

std::array<HostStream, host_gpus>& defaults() {
  static auto* streams = new std::array<HostStream, host_gpus>;
  return *streams;
}
std::set<HostStream*>& others() {
  static auto* streams = new std::set<HostStream*>;
  return *streams;
}

HostStream& of(cudaStream_t stream) {
  if (stream != nullptr) return *reinterpret_cast<HostStream*>(stream);
  HostStream& found = defaults()[static_cast<std::size_t>(current_device)];
  found.device = current_device;
  found.is_default = true;
  return found;
}
HostEvent& of(cudaEvent_t event) { return *reinterpret_cast<HostEvent*>(event); }

/// Executes the first item in the queue if it is ready.
bool pump(HostStream& stream) {
  if (stream.queue.empty()) return false;
  auto work = stream.queue.front();  // a copy: the work may access its own stream
  {
    const DeviceAccess access;
    if (!work()) return false;
  }
  stream.queue.pop_front();
  ++stream.completed;
  return true;
}

/// Waits until the queue is empty; other streams run while it waits for them.
void drain(HostStream& stream, Lock& lock) {
  while (!stream.queue.empty()) {
    bool moved = pump(stream);
    if (!moved)
      for (HostStream* other : others()) moved |= pump(*other);
    if (moved) continue;
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
  }
}

void put(HostStream& stream, std::function<bool()> work, Lock& lock) {
  if (stream.capture != nullptr) {
    stream.capture->work.push_back(std::move(work));
    if (&stream != stream.capture->origin) stream.capture->joined[&stream] = false;
    return;
  }
  stream.queue.push_back(std::move(work));
  ++stream.submitted;
  if (stream.is_default) drain(stream, lock);
}

// ---- devices and memory ----

cudaError_t get_device_count(int* count) {
  *count = host_gpus;
  return cudaSuccess;
}
cudaError_t get_device(int* device) {
  *device = current_device;
  return cudaSuccess;
}
cudaError_t set_device(int device) {
  if (device < 0 || device >= host_gpus) return cudaErrorInvalidDevice;
  current_device = device;
  return cudaSuccess;
}
cudaError_t get_device_properties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "a GPU of the test's own");
  return cudaSuccess;
}
cudaError_t driver_get_version(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t get_pci_bus_id(char* id, int length, int device) {
  std::snprintf(id, static_cast<std::size_t>(length), "0000:%02d:00.0", device);
  return cudaSuccess;
}
cudaError_t host_malloc(void** data, std::size_t bytes) {
  Lock lock(mutex());
  if (allocated + bytes > memory_of_gpu) return cudaErrorMemoryAllocation;
  *data = allocate_device_memory(bytes);
  allocations[*data] = bytes;
  allocated += bytes;
  return cudaSuccess;
}
cudaError_t host_free(void* data) {
  Lock lock(mutex());
  allocated -= allocations[data];
  allocations.erase(data);
  free_device_memory(data);
  return cudaSuccess;
}
cudaError_t host_alloc(void** data, std::size_t bytes, unsigned) {
  if (posix_memalign(data, 512, bytes) != 0) throw std::bad_alloc();
  std::memset(*data, 0xFF, bytes);
  return cudaSuccess;
}
cudaError_t free_host(void* data) {
  std::free(data);
  return cudaSuccess;
}
cudaError_t mem_get_info(std::size_t* free, std::size_t* total) {
  Lock lock(mutex());
  *total = memory_of_gpu;
  *free = memory_of_gpu - allocated;
  return cudaSuccess;
}
cudaError_t memcpy_async(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                         cudaStream_t stream) {
  submit(stream, [=] {
    if (bytes > 0) std::memcpy(to, from, bytes);
    return true;
  });
  return cudaSuccess;
}
cudaError_t memcpy_peer_async(void* to, int, const void* from, int, std::size_t bytes,
                              cudaStream_t stream) {
  return memcpy_async(to, from, bytes, cudaMemcpyDefault, stream);
}

// The GPUs are joined in pairs: 0 and 1, 2 and 3.
cudaError_t device_can_access_peer(int* can, int device, int peer) {
  *can = device / 2 == peer / 2;
  return cudaSuccess;
}
cudaError_t device_enable_peer_access(int peer, unsigned) {
  Lock lock(mutex());
  if (current_device / 2 != peer / 2) return cudaErrorPeerAccessUnsupported;
  return peers.emplace(current_device, peer).second ? cudaSuccess
                                                    : cudaErrorPeerAccessAlreadyEnabled;
}

// ---- streams ----

cudaError_t get_stream_priority_range(int* lowest, int* highest) {
  *lowest = 0;
  *highest = -5;
  return cudaSuccess;
}
cudaError_t stream_create(cudaStream_t* stream, unsigned, int) {
  Lock lock(mutex());
  // Never freed: other streams' positions may refer to it.
  static auto* all = new std::vector<std::unique_ptr<HostStream>>;
  HostStream* made = all->emplace_back(new HostStream{.device = current_device}).get();
  others().insert(made);
  *stream = reinterpret_cast<cudaStream_t>(made);
  return cudaSuccess;
}
/// As in CUDA, work that is already in the stream still runs.
cudaError_t answer(HostStream& stream, std::uint64_t place) {
  if (stream.completed < place && ++stream.asked % 2 == 0) pump(stream);
  return stream.completed >= place ? cudaSuccess : cudaErrorNotReady;
}
/// A forbidden operation also invalidates the capture.
cudaError_t forbidden(Graph& capture, cudaError_t error) {
  capture.is_void = true;
  return error;
}
cudaError_t stream_query(cudaStream_t stream) {
  Lock lock(mutex());
  if (of(stream).capture != nullptr)
    return forbidden(*of(stream).capture, cudaErrorStreamCaptureUnsupported);
  return answer(of(stream), of(stream).submitted);
}
cudaError_t stream_synchronize(cudaStream_t stream) {
  Lock lock(mutex());
  if (of(stream).capture != nullptr)
    return forbidden(*of(stream).capture, cudaErrorStreamCaptureUnsupported);
  drain(of(stream), lock);
  return cudaSuccess;
}
cudaError_t device_synchronize() {
  Lock lock(mutex());
  for (HostStream* stream : others()) {
    if (stream->device != current_device) continue;
    if (stream->capture != nullptr)
      return forbidden(*stream->capture, cudaErrorStreamCaptureUnsupported);
    drain(*stream, lock);
  }
  return stream_synchronize(nullptr);
}

// ---- events ----

cudaError_t event_create(cudaEvent_t* event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(new HostEvent);
  return cudaSuccess;
}
cudaError_t event_destroy(cudaEvent_t event) {
  delete &of(event);
  return cudaSuccess;
}
cudaError_t event_record(cudaEvent_t event, cudaStream_t stream_) {
  Lock lock(mutex());
  HostStream& stream = of(stream_);
  of(event) = {&stream, stream.submitted, stream.waited, stream.capture,
               std::chrono::steady_clock::now()};
  return cudaSuccess;
}
cudaError_t stream_wait_event(cudaStream_t stream_, cudaEvent_t event_, unsigned) {
  Lock lock(mutex());
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
  put(
      stream,
      [=] {
        while (of_event->completed < place && pump(*of_event)) {
        }
        return of_event->completed >= place;
      },
      lock);
  return cudaSuccess;
}
cudaError_t event_query(cudaEvent_t event) {
  Lock lock(mutex());
  if (of(event).stream == nullptr) return cudaSuccess;
  if (of(event).capture != nullptr) return forbidden(*of(event).capture, cudaErrorCapturedEvent);
  return answer(*of(event).stream, of(event).place);
}
cudaError_t event_synchronize(cudaEvent_t event) {
  Lock lock(mutex());
  if (of(event).stream == nullptr) return cudaSuccess;
  if (of(event).capture != nullptr) return forbidden(*of(event).capture, cudaErrorCapturedEvent);
  while (of(event).stream->completed < of(event).place) {
    if (!pump(*of(event).stream)) {
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
    }
  }
  return cudaSuccess;
}
cudaError_t event_elapsed_time(float* ms, cudaEvent_t start, cudaEvent_t end) {
  *ms = std::chrono::duration<float, std::milli>(of(end).time - of(start).time).count();
  return cudaSuccess;
}

// ---- graphs ----

cudaError_t begin_capture(cudaStream_t stream, cudaStreamCaptureMode) {
  Lock lock(mutex());
  if (of(stream).is_default || of(stream).capture != nullptr)
    return cudaErrorStreamCaptureUnsupported;
  of(stream).capture = std::make_shared<Graph>(Graph{.origin = &of(stream)});
  return cudaSuccess;
}
cudaError_t end_capture(cudaStream_t stream, cudaGraph_t* graph) {
  Lock lock(mutex());
  std::shared_ptr<Graph> captured = of(stream).capture;
  if (captured == nullptr || captured->origin != &of(stream))
    return cudaErrorStreamCaptureUnmatched;
  bool joined = true;
  of(stream).capture = nullptr;
  for (auto [other, is_joined] : captured->joined) {
    other->capture = nullptr;
    joined &= is_joined;
  }
  if (captured->is_void) return cudaErrorStreamCaptureInvalidated;
  if (!joined) return cudaErrorStreamCaptureUnjoined;
  *graph = reinterpret_cast<cudaGraph_t>(new Graph(*captured));
  return cudaSuccess;
}
cudaError_t graph_instantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  *exec = reinterpret_cast<cudaGraphExec_t>(new Graph(*reinterpret_cast<Graph*>(graph)));
  return cudaSuccess;
}
cudaError_t graph_launch(cudaGraphExec_t exec, cudaStream_t stream) {
  auto work = std::make_shared<const std::vector<std::function<bool()>>>(
      reinterpret_cast<Graph*>(exec)->work);
  auto next = std::make_shared<std::size_t>(0);
  submit(stream, [work, next] {
    while (*next < work->size() && (*work)[*next]()) ++*next;
    return *next == work->size();
  });
  return cudaSuccess;
}
cudaError_t graph_exec_destroy(cudaGraphExec_t exec) {
  delete reinterpret_cast<Graph*>(exec);
  return cudaSuccess;
}
cudaError_t graph_destroy(cudaGraph_t graph) {
  delete reinterpret_cast<Graph*>(graph);
  return cudaSuccess;
}
cudaError_t get_last_error() { return std::exchange(pending, cudaSuccess); }

/// A function of the runtime, whose errors (among them cudaErrorNotReady) stay pending until
/// get_last_error.
template <auto function>
struct Remembering;
template <class... Args, cudaError_t (*function)(Args...)>
struct Remembering<function> {
  static cudaError_t call(Args... args) {
    const cudaError_t status = function(args...);
    if (status != cudaSuccess) pending = status;
    return status;
  }
};

}  // namespace

const cuda::Cudart& host_cudart() {
  static constexpr cuda::Cudart table{
      .get_device_count = Remembering<get_device_count>::call,
      .get_device = Remembering<get_device>::call,
      .set_device = Remembering<set_device>::call,
      .device_synchronize = Remembering<device_synchronize>::call,
      .get_device_properties = Remembering<get_device_properties>::call,
      .driver_get_version = Remembering<driver_get_version>::call,
      .get_pci_bus_id = Remembering<get_pci_bus_id>::call,
      .malloc = Remembering<host_malloc>::call,
      .free = Remembering<host_free>::call,
      .host_alloc = Remembering<host_alloc>::call,
      .free_host = Remembering<free_host>::call,
      .mem_get_info = Remembering<mem_get_info>::call,
      .memcpy_async = Remembering<memcpy_async>::call,
      .memcpy_peer_async = Remembering<memcpy_peer_async>::call,
      .device_can_access_peer = Remembering<device_can_access_peer>::call,
      .device_enable_peer_access = Remembering<device_enable_peer_access>::call,
      .get_stream_priority_range = Remembering<get_stream_priority_range>::call,
      .stream_create_with_priority = Remembering<stream_create>::call,
      .stream_query = Remembering<stream_query>::call,
      .stream_synchronize = Remembering<stream_synchronize>::call,
      .stream_wait_event = Remembering<stream_wait_event>::call,
      .event_create_with_flags = Remembering<event_create>::call,
      .event_destroy = Remembering<event_destroy>::call,
      .event_record = Remembering<event_record>::call,
      .event_query = Remembering<event_query>::call,
      .event_synchronize = Remembering<event_synchronize>::call,
      .event_elapsed_time = Remembering<event_elapsed_time>::call,
      .stream_begin_capture = Remembering<begin_capture>::call,
      .stream_end_capture = Remembering<end_capture>::call,
      .graph_instantiate = Remembering<graph_instantiate>::call,
      .graph_launch = Remembering<graph_launch>::call,
      .graph_exec_destroy = Remembering<graph_exec_destroy>::call,
      .graph_destroy = Remembering<graph_destroy>::call,
      .get_last_error = get_last_error,
  };
  return table;
}

void submit(cudaStream_t stream, std::function<bool()> work) {
  Lock lock(mutex());
  put(of(stream), std::move(work), lock);
}

void launch(int device, std::function<void()> kernel) {
  // rondo asks for the last error after a launch, and would blame the kernel.
  cuda::check(pending);
  const cuda::DeviceGuard guard(device);
  submit(cuda::current_stream(device).get(), [kernel = std::move(kernel)] {
    kernel();
    return true;
  });
}

bool has_waited_for_device(cudaStream_t stream) {
  Lock lock(mutex());
  const HostStream& asked = of(stream);
  if (asked.is_default || asked.capture != nullptr) return true;
  const HostStream& computing = defaults()[static_cast<std::size_t>(asked.device)];
  auto found = asked.waited.find(&computing);
  return computing.submitted == 0 ||
         (found != asked.waited.end() && found->second >= computing.submitted);
}

std::set<std::pair<int, int>> enabled_peers() {
  Lock lock(mutex());
  return peers;
}

void set_memory_of_gpus(std::size_t bytes) { memory_of_gpu = bytes; }

}  // namespace rondo::test

#endif  // RONDO_HAS_CUDA
