#pragma once
// The CUDA runtime as a table of the functions that rondo uses. Private to rondo's cuda folders.
//
// cudart is linked statically, so this table loads nothing. It lets a test without a GPU replace
// the functions with streams, events and memory on the host (Note [Kernels on the host]).

#include <cuda_runtime_api.h>

#include <cstddef>

namespace rondo::cuda {

struct Cudart {
  cudaError_t (*get_device_count)(int*);
  cudaError_t (*get_device)(int*);
  cudaError_t (*set_device)(int);
  cudaError_t (*device_synchronize)();
  cudaError_t (*get_device_properties)(cudaDeviceProp*, int device);
  cudaError_t (*driver_get_version)(int*);
  cudaError_t (*get_pci_bus_id)(char* id, int length, int device);

  cudaError_t (*malloc)(void**, std::size_t);
  cudaError_t (*free)(void*);
  cudaError_t (*host_alloc)(void**, std::size_t, unsigned flags);
  cudaError_t (*free_host)(void*);
  cudaError_t (*mem_get_info)(std::size_t* free, std::size_t* total);
  cudaError_t (*memcpy_async)(void* to, const void* from, std::size_t, cudaMemcpyKind,
                              cudaStream_t);
  cudaError_t (*memcpy_peer_async)(void* to, int to_device, const void* from, int from_device,
                                   std::size_t, cudaStream_t);
  cudaError_t (*device_can_access_peer)(int* can, int device, int peer);
  cudaError_t (*device_enable_peer_access)(int peer, unsigned flags);

  cudaError_t (*get_stream_priority_range)(int* lowest, int* highest);
  cudaError_t (*stream_create_with_priority)(cudaStream_t*, unsigned flags, int priority);
  cudaError_t (*stream_query)(cudaStream_t);
  cudaError_t (*stream_synchronize)(cudaStream_t);
  cudaError_t (*stream_wait_event)(cudaStream_t, cudaEvent_t, unsigned flags);

  cudaError_t (*event_create_with_flags)(cudaEvent_t*, unsigned flags);
  cudaError_t (*event_destroy)(cudaEvent_t);
  cudaError_t (*event_record)(cudaEvent_t, cudaStream_t);
  cudaError_t (*event_query)(cudaEvent_t);
  cudaError_t (*event_synchronize)(cudaEvent_t);
  cudaError_t (*event_elapsed_time)(float* ms, cudaEvent_t start, cudaEvent_t end);

  cudaError_t (*stream_begin_capture)(cudaStream_t, cudaStreamCaptureMode);
  cudaError_t (*stream_end_capture)(cudaStream_t, cudaGraph_t*);
  cudaError_t (*graph_instantiate)(cudaGraphExec_t*, cudaGraph_t, unsigned long long flags);
  cudaError_t (*graph_launch)(cudaGraphExec_t, cudaStream_t);
  cudaError_t (*graph_exec_destroy)(cudaGraphExec_t);
  cudaError_t (*graph_destroy)(cudaGraph_t);

  /// Returns and clears the pending error. Even some normal answers (not ready) stay pending like
  /// errors.
  cudaError_t (*get_last_error)();
};

const Cudart& cudart();
/// Replaces the table, for tests; null restores the real one.
void set_cudart(const Cudart* table);

}  // namespace rondo::cuda
