#pragma once
// How kernels report an index that is out of range: a kernel cannot throw, and the host does not
// wait for it. The first such index of a device is noted in memory that the kernel and the host can
// access. The next time the host waits for that device, it throws.

#include <cstdint>

namespace rondo::cuda {

/// One device's note. Plain integers, since kernels write them.
struct IndexNote {
  int raised = 0;  // 1: being written, 2: written
  const char* op = nullptr;
  std::int64_t index = 0, dim = 0, size = 0;
};

/// OpName::called, for files that nvcc compiles.
const char* called_op(const char* kernel);
/// The memory into which the kernels of a device write their note.
IndexNote* index_note(int device);
/// Throws ShapeError, once, if there is a note. Call it after the host has waited for the device.
void check_indices(int device);

}  // namespace rondo::cuda
