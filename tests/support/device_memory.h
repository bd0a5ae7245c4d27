#pragma once
// The memory of simulated GPUs: the host cannot touch it, as on a machine with a GPU.
//
// All of it is in one range of addresses without access rights. Simulated kernels, copies and calls
// of NVIDIA's doubles open the range while they run (DeviceAccess), so that a read or write by any
// other code is a segmentation fault, and says what it is. (It is not found while another thread
// runs a kernel.) Fresh blocks are filled with 0xFF: NaN in every float type. Behind each block are
// at least 512 bytes: AddressSanitizer reports accesses there, and without it a write is found when
// the block is freed; compiled kernels ask for each address whether it is in a block
// (device_bounds). A process that was forked shares the memory, so death tests start their own
// process (the style "threadsafe").

#include <cstddef>
#include <cstdint>

namespace rondo::test {

/// Aligned for 512 bytes. Aborts if 64 GiB are in use.
void* allocate_device_memory(std::size_t bytes);
void free_device_memory(void* data) noexcept;
bool is_device_memory(const void* data);
std::size_t device_blocks_in_use();

/// The range of addresses, and for each 512 bytes of it how many belong to a block in use.
struct DeviceBounds {
  static constexpr std::size_t granule = 512;
  std::uint64_t begin, bytes;
  const std::uint16_t* valid;
};
DeviceBounds device_bounds();

class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

}  // namespace rondo::test
