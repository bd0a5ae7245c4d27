#pragma once
// DataParallel: one process, several devices (torch.nn.DataParallel).
//
//   dist::DataParallel net(nn::ResNet({.depth = 18}), {.device_ids = {0, 1}});
//   net.to(Device::cuda(0));
//   cross_entropy(net(images), labels).backward();
//
// A batch is split into one part for each device, and the model is copied to each device. The parts
// are computed concurrently (the host only queues the work in the GPUs' streams), and their outputs
// are concatenated on one device. All of this is on the tape, so backward adds the replicas'
// gradients to the parameters that the optimizer knows. Between GPUs, NCCL broadcasts the
// parameters and sums the gradients, in one group of calls for the whole model. Otherwise, and for
// a batch too small for all devices, each tensor is copied.
//
// Each forward copies the model again, which is slow. Where possible, use DistributedDataParallel
// with one process for each GPU. As in PyTorch, running statistics are those of the first device's
// part.

#include <memory>
#include <vector>

#include "nn/module.h"

namespace rondo::dist {

class NcclPeers;

struct DataParallelOptions {
  /// The GPUs; empty: all GPUs. On a machine without GPUs, forward calls the module, as in PyTorch.
  std::vector<int> device_ids = {};
  /// The GPU on which the outputs are concatenated; -1: the first of device_ids.
  int output_device = -1;
  /// If false, or if NCCL is not installed, the GPUs copy from each other.
  bool use_nccl = true;
};

class DataParallel final : public nn::Module {
 public:
  /// Throws DeviceError for a GPU that does not exist or is named twice, and CommError if NCCL is
  /// installed but cannot connect the GPUs.
  explicit DataParallel(nn::AnyModule module, const DataParallelOptions& options = {});
  /// As above, for any devices. The CPU may be listed several times: each time is a virtual device
  /// with its own replica.
  DataParallel(nn::AnyModule module, std::vector<Device> devices, Device output);

  /// x (N, …), on any device, to outputs (N, …) on the output device. Parts have ceil(N / devices)
  /// rows, the last one the remaining rows; a small batch uses fewer devices. Throws DeviceError if
  /// a parameter or buffer is not on the first device, ShapeError if x has no rows.
  Tensor forward(const Tensor& x) override;
  /// PyTorch's keys: "module.conv1.weight".
  void visit(nn::Visitor& v) override { v.child("module", module_); }

  nn::AnyModule& module() { return module_; }
  const std::vector<Device>& devices() const { return devices_; }
  /// Whether the GPUs communicate through NCCL.
  bool uses_nccl() const { return peers_ != nullptr; }

 private:
  void check_parameters();

  nn::AnyModule module_;
  std::vector<Device> devices_;
  Device output_ = Device::cpu();
  std::shared_ptr<NcclPeers> peers_;  // or null
};

}  // namespace rondo::dist
