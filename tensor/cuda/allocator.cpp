#include "tensor/cuda/allocator.h"

#include <map>

#include "tensor/cuda/capture.h"

namespace rondo::cuda {
namespace {

using EventPtr = std::shared_ptr<CUevent_st>;

EventPtr recorded_in(StreamId id) {
  DeviceGuard guard(id.device);
  cudaEvent_t made = nullptr;
  check(cudart().event_create_with_flags(&made, cudaEventDisableTiming));
  EventPtr event(made, [](cudaEvent_t e) { cudart().event_destroy(e); });
  check(cudart().event_record(made, static_cast<cudaStream_t>(id.handle)));
  return event;
}

/// An event in the stream. While any thread captures a graph, the event is neither recorded nor
/// queried: the stream may be part of the capture, and querying a separate event would invalidate
/// it. For memory that is freed during a capture, the event is recorded when the capture is over.
BlockPool::Mark mark_in(StreamId id) {
  EventPtr event = captures_underway() ? nullptr : recorded_in(id);
  return [event, id](BlockPool::Wait wait) mutable {
    if (captures_underway()) return false;
    try {
      if (event == nullptr) event = recorded_in(id);
      const DeviceGuard guard(id.device);
      const cudaError_t status = wait == BlockPool::Wait::yes
                                     ? cudart().event_synchronize(event.get())
                                     : cudart().event_query(event.get());
      if (status != cudaSuccess) cudart().get_last_error();
      return status == cudaSuccess;
    } catch (const std::exception&) {
      return false;  // the device is lost: the state stays unknown
    }
  };
}

class DeviceMemory final : public BlockPool::Source {
 public:
  explicit DeviceMemory(int device) : device_(device) {}

  void* allocate(std::size_t bytes) override {
    DeviceGuard guard(device_);
    void* data = nullptr;
    const cudaError_t status = cudart().malloc(&data, bytes);
    if (status == cudaErrorMemoryAllocation) {
      cudart().get_last_error();
      return nullptr;
    }
    check(status);
    return data;
  }
  void free(void* segment) noexcept override { cudart().free(segment); }
  BlockPool::Mark mark(StreamId stream) override { return mark_in(stream); }

 private:
  int device_;
};

class PinnedMemory final : public BlockPool::Source {
 public:
  void* allocate(std::size_t bytes) override {
    void* data = nullptr;
    // Portable: pinned for every device, not only for the current one.
    const cudaError_t status = cudart().host_alloc(&data, bytes, cudaHostAllocPortable);
    if (status == cudaErrorMemoryAllocation) {
      cudart().get_last_error();
      return nullptr;
    }
    check(status);
    return data;
  }
  void free(void* segment) noexcept override { cudart().free_host(segment); }
  BlockPool::Mark mark(StreamId stream) override { return mark_in(stream); }
};

}  // namespace

CachingAllocator::CachingAllocator(int device)
    : device_(device), pool_(std::make_unique<DeviceMemory>(device)) {}

CachingAllocator& CachingAllocator::of(int device) {
  static auto* mutex = new std::mutex;
  static auto* allocators = new std::map<int, CachingAllocator*>;
  std::lock_guard lock(*mutex);
  CachingAllocator*& found = (*allocators)[device];
  if (found == nullptr) {
    require_device(device);
    found = new CachingAllocator(device);
  }
  return *found;
}

void* CachingAllocator::allocate(std::size_t bytes) {
  BlockPool* graph = capture_memory(device_);
  BlockPool& pool = graph != nullptr ? *graph : pool_;
  const StreamId stream = current_stream(device_).id();
  void* data = pool.allocate(bytes, stream, AllocationTag::current());
  if (data == nullptr && graph != nullptr) {  // unused memory outside the graph may suffice
    pool_.empty_cache();
    data = pool.allocate(bytes, stream, AllocationTag::current());
  }
  if (data != nullptr && graph != nullptr) {
    std::lock_guard lock(mutex_);
    others_[data] = graph->shared_from_this();
    ++others_given_out_;
  }
  if (data != nullptr) return data;
  std::size_t free = 0, total = 0;
  DeviceGuard guard(device_);
  check(cudart().mem_get_info(&free, &total));
  const std::size_t kept = stats().graphs;
  const std::string graphs = kept > 0 ? concat(", its graphs ", kept, " bytes") : "";
  throw OutOfMemoryError(concat("cuda:", device_, " is out of memory: cannot allocate ", bytes,
                                " bytes; of ", total, " bytes, this process holds ", pool_.report(),
                                graphs, ", and ", free, " bytes are free"));
}

void CachingAllocator::deallocate(void* data, std::size_t) noexcept {
  std::shared_ptr<BlockPool> other;
  if (others_given_out_ > 0) {
    std::lock_guard lock(mutex_);
    if (auto found = others_.find(data); found != others_.end()) {
      other = std::move(found->second);
      others_.erase(found);
      --others_given_out_;
    }
  }
  (other != nullptr ? *other : pool_).free(data);
}

std::shared_ptr<BlockPool> CachingAllocator::new_pool() {
  auto pool = std::make_shared<BlockPool>(std::make_unique<DeviceMemory>(device_),
                                          BlockPool::Unused::is_kept);
  std::lock_guard lock(mutex_);
  std::erase_if(new_pools_, [](auto& old) { return old.expired(); });
  new_pools_.push_back(pool);
  return pool;
}

MemoryStats CachingAllocator::stats() const {
  MemoryStats stats = pool_.stats();
  std::lock_guard lock(mutex_);
  for (const auto& pool : new_pools_) {
    if (const auto alive = pool.lock()) stats.graphs += alive->stats().reserved;
  }
  return stats;
}

void CachingAllocator::record_stream(void* data, const Stream& stream) {
  std::shared_ptr<BlockPool> other;
  if (others_given_out_ > 0) {
    std::lock_guard lock(mutex_);
    if (auto found = others_.find(data); found != others_.end()) other = found->second;
  }
  (other != nullptr ? *other : pool_).record_stream(data, stream.id());
}

void record_stream(const Tensor& x, const Stream& stream) {
  CachingAllocator::of(x.device().index).record_stream(x.impl().storage->data(), stream);
}

MemoryStats memory_stats(int device) { return CachingAllocator::of(device).stats(); }
void reset_peak_memory(int device) { CachingAllocator::of(device).reset_peak(); }
void empty_cache(int device) { CachingAllocator::of(device).empty_cache(); }

PinnedAllocator::PinnedAllocator() : pool_(std::make_unique<PinnedMemory>()) {}

PinnedAllocator& PinnedAllocator::instance() {
  static auto* allocator = new PinnedAllocator;
  return *allocator;
}

/// Blocks in host memory have no stream of their own: every use is recorded.
constexpr StreamId no_stream{.device = -1};

void* PinnedAllocator::allocate(std::size_t bytes) {
  void* data = pool_.allocate(bytes, no_stream, AllocationTag::current());
  if (data == nullptr)
    throw CudaError(concat("out of pinned memory: cannot allocate ", bytes,
                           " bytes; this process holds ", pool_.report()));
  return data;
}

void PinnedAllocator::deallocate(void* data, std::size_t) noexcept { pool_.free(data); }

void PinnedAllocator::record_stream(void* data, const Stream& stream) {
  pool_.record_stream(data, stream.id());
}

StoragePtr pinned_storage(std::size_t bytes, const Stream& user) {
  PinnedAllocator& allocator = PinnedAllocator::instance();
  void* data = bytes > 0 ? allocator.allocate(bytes) : nullptr;
  return std::make_shared<Storage>(data, bytes, Device::cpu(), [=, &allocator] {
    if (data == nullptr) return;
    allocator.record_stream(data, user);  // `user` still exists here
    allocator.deallocate(data, bytes);
  });
}

}  // namespace rondo::cuda
