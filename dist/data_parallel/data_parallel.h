#pragma once
// DataParallel: one process, several devices (torch.nn.DataParallel).
//
//   dist::DataParallel net(nn::ResNet({.depth = 18}), {.device_ids = {0, 1}});
//   net.to(Device::cuda(0));
//   cross_entropy(net(images), labels).backward();
//
// A batch is cut into a part for each device, the model is copied there, the parts are computed
// side by side (the host only puts them into the GPUs' streams) and their outputs are put together
// on one device. All of that is on the tape, so backward adds the replicas' gradients into the one
// set of parameters that the optimizer knows. Between GPUs the parameters go by NCCL's broadcast
// and the gradients come back by its sum, a group of them for the whole model; elsewhere, and for a
// batch too small for all devices, each is copied.
//
// The model goes out anew in each forward, which is the price: where there is a choice,
// DistributedDataParallel with a process for each GPU is faster. As in PyTorch, running statistics
// are those of the first device's part.

#include <memory>
#include <vector>

#include "nn/module.h"

namespace rondo::dist {

class NcclPeers;

struct DataParallelOptions {
  /// The GPUs; empty: all there are. On a machine without GPUs, forward calls the module, as in
  /// PyTorch.
  std::vector<int> device_ids = {};
  /// Where the outputs come together; -1: the first of device_ids.
  int output_device = -1;
  /// Without it, or where NCCL is not there, the GPUs copy from each other.
  bool use_nccl = true;
};

class DataParallel final : public nn::Module {
 public:
  /// Throws DeviceError for a GPU that does not exist or is named twice, and
  /// CommError where NCCL is there but cannot join the GPUs.
  explicit DataParallel(nn::AnyModule module, const DataParallelOptions& options = {});
  /// The same over any devices, the CPU as often as one likes: each time is a virtual device with a
  /// replica of its own.
  DataParallel(nn::AnyModule module, std::vector<Device> devices, Device output);

  /// x (N, …), from any device, to outputs (N, …) on the output device. Parts have
  /// ceil(N / devices) rows, the last one what is left; a small batch uses fewer devices. Throws
  /// DeviceError when a parameter or buffer is not on the first device, ShapeError for x without
  /// rows.
  Tensor forward(const Tensor& x) override;
  /// PyTorch's keys: "module.conv1.weight".
  void visit(nn::Visitor& v) override { v.child("module", module_); }

  nn::AnyModule& module() { return module_; }
  const std::vector<Device>& devices() const { return devices_; }
  /// Whether the GPUs talk by NCCL.
  bool uses_nccl() const { return peers_ != nullptr; }

 private:
  void check_parameters();

  nn::AnyModule module_;
  std::vector<Device> devices_;
  Device output_ = Device::cpu();
  std::shared_ptr<NcclPeers> peers_;  // or null
};

}  // namespace rondo::dist
