#ifdef RONDO_HAS_CUDA

#include "support/host_streams.h"

namespace rondo::test {

cudaError_t begin_capture(cudaStream_t stream, cudaStreamCaptureMode) {
  Lock lock(streams_mutex());
  if (of(stream).is_default || of(stream).capture != nullptr)
    return cudaErrorStreamCaptureUnsupported;
  of(stream).capture = std::make_shared<Graph>(Graph{.origin = &of(stream)});
  return cudaSuccess;
}
cudaError_t end_capture(cudaStream_t stream, cudaGraph_t* graph) {
  Lock lock(streams_mutex());
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

}  // namespace rondo::test

#endif  // RONDO_HAS_CUDA
