#include "tensor/cuda/index_check.h"

#include <array>
#include <atomic>
#include <mutex>

#include "tensor/cuda/runtime.h"
#include "tensor/index_error.h"
#include "tensor/record_function.h"

namespace rondo::cuda {
namespace {

struct Notes {
  std::mutex mutex;
  std::array<IndexNote*, 64> of{};
};

Notes& notes() {
  static auto* all = new Notes;
  return *all;
}

}  // namespace

const char* called_op(const char* kernel) { return OpName::called(kernel); }

IndexNote* index_note(int device) {
  std::lock_guard lock(notes().mutex);
  IndexNote*& note = notes().of[static_cast<std::size_t>(device)];
  if (note != nullptr) return note;
  void* memory = nullptr;
  DeviceGuard guard(device);
  check(
      cudart().host_alloc(&memory, sizeof(IndexNote), cudaHostAllocMapped | cudaHostAllocPortable));
  return note = new (memory) IndexNote;
}

void check_indices(int device) {
  std::lock_guard lock(notes().mutex);
  IndexNote* note = notes().of[static_cast<std::size_t>(device)];
  if (note == nullptr) return;
  // Kernels may be writing at the same time. 2 means that the note is complete; 0 lets the next
  // kernel write.
  std::atomic_ref<int> raised(note->raised);
  if (raised.load(std::memory_order_acquire) != 2) return;
  const IndexNote seen = *note;
  raised.store(0, std::memory_order_release);
  throw ShapeError(index_error(seen.op, seen.index, seen.dim, seen.size));
}

}  // namespace rondo::cuda
