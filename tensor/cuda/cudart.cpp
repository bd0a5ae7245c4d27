#include "tensor/cuda/cudart.h"

#include <atomic>

namespace rondo::cuda {
namespace {

std::atomic<const Cudart*> cudart_replacement{nullptr};

constexpr Cudart real = {
    .get_device_count = cudaGetDeviceCount,
    .get_device = cudaGetDevice,
    .set_device = cudaSetDevice,
    .device_synchronize = cudaDeviceSynchronize,
    .get_device_properties = cudaGetDeviceProperties,
    .driver_get_version = cudaDriverGetVersion,
    .get_pci_bus_id = cudaDeviceGetPCIBusId,
    .malloc = cudaMalloc,
    .free = cudaFree,
    .host_alloc = cudaHostAlloc,
    .free_host = cudaFreeHost,
    .mem_get_info = cudaMemGetInfo,
    .memcpy_async = cudaMemcpyAsync,
    .memcpy_peer_async = cudaMemcpyPeerAsync,
    .device_can_access_peer = cudaDeviceCanAccessPeer,
    .device_enable_peer_access = cudaDeviceEnablePeerAccess,
    .get_stream_priority_range = cudaDeviceGetStreamPriorityRange,
    .stream_create_with_priority = cudaStreamCreateWithPriority,
    .stream_query = cudaStreamQuery,
    .stream_synchronize = cudaStreamSynchronize,
    .stream_wait_event = cudaStreamWaitEvent,
    .event_create_with_flags = cudaEventCreateWithFlags,
    .event_destroy = cudaEventDestroy,
    .event_record = cudaEventRecord,
    .event_query = cudaEventQuery,
    .event_synchronize = cudaEventSynchronize,
    .event_elapsed_time = cudaEventElapsedTime,
    .stream_begin_capture = cudaStreamBeginCapture,
    .stream_end_capture = cudaStreamEndCapture,
    .graph_instantiate = cudaGraphInstantiateWithFlags,
    .graph_launch = cudaGraphLaunch,
    .graph_exec_destroy = cudaGraphExecDestroy,
    .graph_destroy = cudaGraphDestroy,
    .get_last_error = cudaGetLastError,
};

}  // namespace

const Cudart& cudart() {
  const Cudart* table = cudart_replacement;
  return table != nullptr ? *table : real;
}

void set_cudart(const Cudart* table) { cudart_replacement = table; }

}  // namespace rondo::cuda
