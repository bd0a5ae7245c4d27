#pragma once
// What a kernel does with an index that is out of range: it cannot throw, and the host does not
// wait for it. The first such index of a device is noted in memory that both can see, and the next
// time the host waits for that device it throws.

#include <cstdint>

namespace rondo::cuda {

/// One device's note. Plain numbers, since kernels write them.
struct IndexNote {
  int raised = 0;  // 1: being written, 2: written
  const char* op = nullptr;
  std::int64_t index = 0, dim = 0, size = 0;
};

/// Where the kernels of a device write their note.
IndexNote* index_note(int device);
/// Throws ShapeError, once, if there is a note. Called where the host has waited for the device.
void check_indices(int device);

}  // namespace rondo::cuda
