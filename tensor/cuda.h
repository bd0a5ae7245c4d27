#pragma once
// cuda.h: what a program may ask of the GPUs, and how it wants them to compute.
//
//   if (cuda::device_count() > 0) model.to(Device::cuda(0));
//
// A rondo that was built without CUDA has no GPU: device_count() is 0, why_unavailable() says so,
// and everything else here that names a device throws DeviceError.

#include <cstddef>
#include <cstdint>
#include <string>

namespace rondo::cuda {

/// GPUs that CUDA_VISIBLE_DEVICES leaves; 0 where there is no driver, or one that is too old.
int device_count();
/// One sentence: built without CUDA, no driver, a driver too old for this build, or no device.
/// Empty where there is one.
std::string why_unavailable();
/// Throws DeviceError naming the index and how many devices there are.
void require_device(int index);

/// One line for a log: the card, and the versions of what computes on it: "NVIDIA H200, compute
/// capability 9.0, 132 multiprocessors, 140 GiB; driver for CUDA 13.0, runtime 13.0, cuDNN 9.19.0,
/// cuBLASLt 13.1". Libraries that are missing are named as such.
std::string description(int device = 0);

/// Waits until the device has done all that was put into any of its streams. Throws what a kernel
/// could only note: an index that was out of range.
void synchronize(int device = 0);

struct MemoryStats {
  std::size_t in_use = 0;    // bytes of the tensors that are alive
  std::size_t peak = 0;      // the most that in_use has been
  std::size_t reserved = 0;  // bytes taken from the device, without those of graphs
  std::size_t graphs = 0;    // bytes that cuda::Graphs keep for their replays
  std::size_t blocks = 0;    // how many pieces in_use is
  std::uint64_t requests = 0;
  std::uint64_t segments = 0;  // how often the device itself was asked
};
MemoryStats memory_stats(int device = 0);
/// memory_stats().peak counts from now on.
void reset_peak_memory(int device = 0);
/// Gives what is reserved and not in use back to the device.
void empty_cache(int device = 0);

// How the libraries compute; each holds for the whole process from the next call on.

/// Whether f32 matrix products and convolutions may round their factors to 10 bits (TF32: some 8
/// times as fast on tensor cores). Off unless RONDO_TF32=1 is in the environment.
bool allows_tf32();
void allow_tf32(bool on);

/// Whether only kernels may run that give the same bits every time: cuDNN's engines that add up in
/// the order in which threads arrive are passed over. rondo's own kernels never do so. Off unless
/// RONDO_DETERMINISTIC=1 is in the environment.
bool is_deterministic();
void set_deterministic(bool on);

/// Whether the first convolution of each shape tries the engines that cuDNN names and keeps the
/// fastest (torch.backends.cudnn.benchmark), instead of trusting the first, and the first batch
/// norm tries them beside rondo's own kernels. It waits for the device that once. Off unless
/// RONDO_MEASURE_PLANS=1 is in the environment.
bool measures_plans();
void measure_plans(bool on);

}  // namespace rondo::cuda
