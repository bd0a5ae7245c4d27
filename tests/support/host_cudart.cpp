#ifdef RONDO_HAS_CUDA

#include "support/host_cudart.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "support/device_memory.h"
#include "support/host_streams.h"
#include "tensor/cuda/stream.h"

namespace rondo::test {
namespace {

std::size_t memory_of_gpu = std::size_t{1} << 40;
thread_local cudaError_t pending = cudaSuccess;
std::atomic<cudaError_t> sticky = cudaSuccess;
std::optional<int> allocations_left;                       // before all others fail
std::map<void*, std::pair<std::size_t, int>> allocations;  // bytes, device
std::map<const char*, std::size_t> pinned;
std::set<std::pair<int, int>> peers;  // (a, b): GPU a reaches the memory of GPU b
std::size_t allocated = 0;

// ---- devices and memory ----

cudaError_t get_device_count(int* count) {
  *count = host_gpus;
  return cudaSuccess;
}
cudaError_t get_device(int* device) {
  *device = current_device();
  return cudaSuccess;
}
cudaError_t set_device(int device) {
  if (device < 0 || device >= host_gpus) return cudaErrorInvalidDevice;
  current_device() = device;
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
  Lock lock(streams_mutex());
  if (is_out_of_memory() || allocated + bytes > memory_of_gpu) return cudaErrorMemoryAllocation;
  *data = allocate_device_memory(bytes);
  allocations[*data] = {bytes, current_device()};
  allocated += bytes;
  return cudaSuccess;
}
/// Waits for the memory's GPU, as cudaFree does.
cudaError_t host_free(void* data) {
  Lock lock(streams_mutex());
  const auto [bytes, device] = allocations[data];
  run_until(default_of(device), default_of(device).submitted, lock);
  for (HostStream* stream : std::vector(created_streams()))
    if (stream->device == device) run_until(*stream, stream->submitted, lock);
  allocated -= bytes;
  allocations.erase(data);
  free_device_memory(data);
  return cudaSuccess;
}
cudaError_t host_alloc(void** data, std::size_t bytes, unsigned) {
  if (posix_memalign(data, 512, bytes) != 0) throw std::bad_alloc();
  std::memset(*data, 0xFF, bytes);
  Lock lock(streams_mutex());
  pinned[static_cast<const char*>(*data)] = bytes;
  return cudaSuccess;
}
cudaError_t free_host(void* data) {
  Lock lock(streams_mutex());
  pinned.erase(static_cast<const char*>(data));
  std::free(data);
  return cudaSuccess;
}
cudaError_t mem_get_info(std::size_t* free, std::size_t* total) {
  Lock lock(streams_mutex());
  *total = memory_of_gpu;
  *free = memory_of_gpu - allocated;
  return cudaSuccess;
}
/// Whether it is memory of the host that is not pinned.
bool is_pageable(const void* data) {
  if (is_device_memory(data)) return false;
  const auto* at = static_cast<const char*>(data);
  auto block = pinned.upper_bound(at);
  return block == pinned.begin() || at >= std::prev(block)->first + std::prev(block)->second;
}
/// As documented: from pageable memory the bytes are taken during the call; to pageable memory,
/// and between two places of the host, the call returns when the copy is complete.
cudaError_t memcpy_async(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                         cudaStream_t stream) {
  Lock lock(streams_mutex());
  if (bytes == 0) return cudaSuccess;
  const bool on_host = !is_device_memory(from) && !is_device_memory(to);
  const bool is_staged = is_pageable(from), waits = is_pageable(to) || on_host;
  if ((is_staged || waits) && of(stream).capture != nullptr)
    return forbidden(*of(stream).capture, cudaErrorStreamCaptureUnsupported);
  if (is_staged) {
    const auto* bytes_now = static_cast<const char*>(from);
    put(of(stream), [to, copied = std::vector<char>(bytes_now, bytes_now + bytes)] {
      std::memcpy(to, copied.data(), copied.size());
      return true;
    });
  } else {
    put(of(stream), [=] {
      std::memcpy(to, from, bytes);
      return true;
    });
  }
  if (waits) run_until(of(stream), of(stream).submitted, lock);
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
  Lock lock(streams_mutex());
  if (current_device() / 2 != peer / 2) return cudaErrorPeerAccessUnsupported;
  return peers.emplace(current_device(), peer).second ? cudaSuccess
                                                      : cudaErrorPeerAccessAlreadyEnabled;
}

cudaError_t get_last_error() {
  const cudaError_t last = std::exchange(pending, cudaSuccess);
  return sticky != cudaSuccess ? sticky.load() : last;
}

/// A function of the runtime, whose errors (among them cudaErrorNotReady) stay pending until
/// get_last_error.
template <auto function>
struct Remembering;
template <class... Args, cudaError_t (*function)(Args...)>
struct Remembering<function> {
  static cudaError_t call(Args... args) {
    if (sticky != cudaSuccess) return sticky;
    const cudaError_t status = function(args...);
    if (status != cudaSuccess) pending = status;
    return status;
  }
};

/// A function that ends an object: after a sticky error it returns the error, too, but the memory
/// of the double is freed.
template <auto function>
struct Destroying;
template <class Handle, cudaError_t (*function)(Handle)>
struct Destroying<function> {
  static cudaError_t call(Handle handle) {
    const cudaError_t status = function(handle);
    return sticky != cudaSuccess ? sticky.load() : status;
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
      .event_destroy = Destroying<event_destroy>::call,
      .event_record = Remembering<event_record>::call,
      .event_query = Remembering<event_query>::call,
      .event_synchronize = Remembering<event_synchronize>::call,
      .event_elapsed_time = Remembering<event_elapsed_time>::call,
      .stream_begin_capture = Remembering<begin_capture>::call,
      .stream_end_capture = Remembering<end_capture>::call,
      .graph_instantiate = Remembering<graph_instantiate>::call,
      .graph_launch = Remembering<graph_launch>::call,
      .graph_exec_destroy = Destroying<graph_exec_destroy>::call,
      .graph_destroy = Destroying<graph_destroy>::call,
      .get_last_error = get_last_error,
  };
  return table;
}

void submit(cudaStream_t stream, std::function<bool()> work) {
  Lock lock(streams_mutex());
  put(of(stream), std::move(work));
}

void launch(int device, std::function<void()> kernel) {
  // rondo asks for the last error after a launch, and would blame the kernel.
  cuda::check(sticky != cudaSuccess ? sticky.load() : pending);
  const cuda::DeviceGuard guard(device);
  submit(cuda::current_stream(device).get(), [kernel = std::move(kernel)] {
    kernel();
    return true;
  });
}

bool has_waited_for_device(cudaStream_t stream) {
  Lock lock(streams_mutex());
  const HostStream& asked = of(stream);
  if (asked.is_default || asked.capture != nullptr) return true;
  const HostStream& computing = default_of(asked.device);
  auto found = asked.waited.find(&computing);
  return computing.submitted == 0 ||
         (found != asked.waited.end() && found->second >= computing.submitted);
}

std::set<std::pair<int, int>> enabled_peers() {
  Lock lock(streams_mutex());
  return peers;
}

void set_memory_of_gpus(std::size_t bytes) { memory_of_gpu = bytes; }

void set_allocations_left(std::optional<int> count) {
  Lock lock(streams_mutex());
  allocations_left = count;
}
bool is_out_of_memory() {
  Lock lock(streams_mutex());
  return allocations_left && --*allocations_left < 0;
}

void set_sticky_error(cudaError_t error) { sticky = error; }

void free_when_reached(int device, cudaStream_t stream, void* data) {
  Lock lock(streams_mutex());
  HostStream& used = stream != nullptr ? of(stream) : default_of(device);
  if (used.capture != nullptr) return;  // the graph's replays will write there
  when_reached(used, [data] { free_device_memory(data); });
}

}  // namespace rondo::test

#endif  // RONDO_HAS_CUDA
