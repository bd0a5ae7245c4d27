#pragma once
// cuda.h: queries about the GPUs, and settings for how they compute.
//
//   if (cuda::device_count() > 0) model.to(Device::cuda(0));
//
// If rondo was built without CUDA, device_count() is 0, why_unavailable() gives the reason, and all
// other functions here that take a device throw DeviceError.

#include <cstddef>
#include <cstdint>
#include <string>

namespace rondo::cuda {

/// The number of GPUs that CUDA_VISIBLE_DEVICES allows; 0 if the driver is missing or too old.
int device_count();
/// Why there is no GPU, in one sentence: built without CUDA, no driver, a driver too old for this
/// build, or no device. Empty if there is a GPU.
std::string why_unavailable();
/// Throws DeviceError with the index and the number of devices unless the device exists.
void require_device(int index);

/// One line for a log, with the card and the versions of the libraries that compute on it: "NVIDIA
/// H200, compute capability 9.0, 132 multiprocessors, 140 GiB; driver for CUDA 13.0, runtime 13.0,
/// cuDNN 9.19.0, cuBLASLt 13.1". Missing libraries are named as missing.
std::string description(int device = 0);

/// Waits until the device has finished all work in all of its streams. Throws errors that a kernel
/// could only record, such as an index out of range.
void synchronize(int device = 0);

struct MemoryStats {
  std::size_t in_use = 0;    // bytes of all existing tensors
  std::size_t peak = 0;      // the maximum of in_use so far
  std::size_t reserved = 0;  // bytes allocated from the device, excluding those of graphs
  std::size_t graphs = 0;    // bytes that cuda::Graphs keep for their replays
  std::size_t blocks = 0;    // number of blocks in use
  std::uint64_t requests = 0;
  std::uint64_t segments = 0;  // number of allocations from the device itself
};
MemoryStats memory_stats(int device = 0);
/// Sets memory_stats().peak to the current in_use.
void reset_peak_memory(int device = 0);
/// Returns memory that is reserved but not in use to the device.
void empty_cache(int device = 0);

// Settings of the libraries. Each one applies to the whole process, from the next call on.

/// Which f32 operations may round their factors to 10 mantissa bits (TF32: about 8 times as fast on
/// tensor cores). As in PyTorch convolutions may, and matrix products may not. RONDO_TF32=0 in the
/// environment means none, RONDO_TF32=1 all.
enum class Tf32 { none, convolutions, all };
Tf32 allowed_tf32();
void allow_tf32(Tf32 where);

/// Whether only kernels with reproducible (bit-identical) results may run. This excludes cuDNN's
/// engines that add values in the order in which threads arrive; rondo's own kernels never do so.
/// Off unless RONDO_DETERMINISTIC=1 is in the environment.
bool is_deterministic();
void set_deterministic(bool on);

/// Whether the first convolution of each shape times the engines that cuDNN proposes and keeps the
/// fastest (torch.backends.cudnn.benchmark), instead of using the first one. The first batch norm
/// of each shape times cuDNN's engines and rondo's own kernels, and the first convolution with a
/// bias also those that add it. Only these first calls wait for the device. Off unless
/// RONDO_MEASURE_PLANS=1 is in the environment.
bool measures_plans();
void measure_plans(bool on);

}  // namespace rondo::cuda
