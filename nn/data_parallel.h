#pragma once
// DataParallel: one process, several devices (torch.nn.DataParallel).
//
//   nn::DataParallel net(nn::ResNet({.depth = 18}), {.device_ids = {0, 1}});
//   net.to(Device::cuda(0));
//   cross_entropy(net(images), labels).backward();
//
// A batch is cut into a part for each device, the model is copied there, the parts are computed
// side by side (the host only puts them into the GPUs' streams) and their outputs are put together
// on one device. Copies and cuts are ops on the tape like any other, so backward adds the replicas'
// gradients into the one set of parameters that the optimizer knows.
//
// Everything is copied anew in each forward, which is its price: where there is a choice,
// dist::DistributedDataParallel with a process for each GPU is faster. As in PyTorch, running
// statistics are those of the first device's part.

#include <vector>

#include "nn/module.h"

namespace rondo::nn {

struct DataParallelOptions {
  /// The GPUs; empty: all there are.
  std::vector<int> device_ids = {};
  /// Where the outputs come together; -1: the first of device_ids.
  int output_device = -1;
};

class DataParallel final : public Module {
 public:
  /// Throws DeviceError where there is no GPU, or one that does not exist or is named twice.
  explicit DataParallel(AnyModule module, const DataParallelOptions& options = {});
  /// The same over any devices, the CPU as often as one likes: each time is a virtual device with a
  /// replica of its own.
  DataParallel(AnyModule module, std::vector<Device> devices, Device output);

  /// x (N, …), from any device, to outputs (N, …) on the output device. Parts have
  /// ceil(N / devices) rows, the last one what is left; a small batch uses fewer devices. Throws
  /// DeviceError when a parameter is not on the first device, ShapeError for x without rows.
  Tensor forward(const Tensor& x) override;
  /// PyTorch's keys: "module.conv1.weight".
  void visit(Visitor& v) override { v.child("module", module_); }

  AnyModule& module() { return module_; }
  const std::vector<Device>& devices() const { return devices_; }

 private:
  void check_parameters();

  AnyModule module_;
  std::vector<Device> devices_;
  Device output_;
};

}  // namespace rondo::nn
