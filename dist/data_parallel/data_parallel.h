#pragma once
// DataParallel: one process, several devices (torch.nn.DataParallel).
//
//   dist::DataParallel net(nn::ResNet({.depth = 18}), {.device_ids = {0, 1}});
//   net.to(Device::cuda(0));
//   cross_entropy(net(images), labels).backward();
//
// A batch is split into one part for each device, and the model is copied to each device. The parts
// are computed concurrently (the host only queues the work in the GPUs' streams), and their outputs
// are concatenated on one device. Models with several arguments and results work, too: each tensor
// in the arguments is split, and each tensor in the results is concatenated. All of this is on the
// tape, so backward adds the replicas' gradients to the parameters that the optimizer knows.
// Between GPUs, NCCL broadcasts the parameters and sums the gradients, in one group of calls for
// the whole model. Otherwise, and for a batch too small for all devices, each tensor is copied.
//
// Each forward copies the model again, which is slow. Where possible, use DistributedDataParallel
// with one process for each GPU. As in PyTorch, running statistics are those of the first device's
// part.

#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "dist/data_parallel/replica.h"
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

namespace detail {
/// What DataParallel does with tensors, whatever the signature of forward.
class Devices {
 public:
  explicit Devices(const DataParallelOptions& options);
  Devices(std::vector<Device> devices, Device output);

  const std::vector<Device>& all() const { return devices_; }
  bool uses_nccl() const { return peers_ != nullptr; }
  /// Throws DeviceError if a parameter or buffer is not on the first device.
  void check(nn::Module& module) const;
  /// The parts of the inputs, for as many devices as have one.
  std::vector<Tensors> scatter(const Tensors& inputs) const;
  /// Copies of the members for the devices from the second on; `used`: the number of all devices
  /// that have a part.
  std::vector<ModuleTensors> replicate(const ModuleTensors& members, std::size_t used) const;
  /// The outputs of all devices, concatenated on the output device.
  Tensors gather(std::vector<Tensors> outputs) const;

 private:
  std::vector<Device> devices_;
  Device output_ = Device::cpu();
  std::shared_ptr<NcclPeers> peers_;  // or null
};
}  // namespace detail

template <class M, class Forward = typename M::Forward>
class DataParallel;

template <class M, class Result, class... Args>
class DataParallel<M, Result(Args...)> final : public nn::ModuleOf<Result(Args...)> {
 public:
  /// Throws DeviceError for a GPU that does not exist or is named twice, and CommError if NCCL is
  /// installed but cannot connect the GPUs.
  explicit DataParallel(M module, const DataParallelOptions& options = {})
      : module_(std::move(module)), devices_(options) {}
  /// As above, for any devices. The CPU may be listed several times: each time is a virtual device
  /// with its own replica.
  DataParallel(M module, std::vector<Device> devices, Device output)
      : module_(std::move(module)), devices_(std::move(devices), output) {}

  /// Tensors (N, …), on any device, to results (N, …) on the output device. Parts have ceil(N /
  /// devices) rows, the last one the remaining rows; a small batch uses fewer devices. All devices
  /// get the same arguments other than tensors, and what is not a tensor in the result comes from
  /// the first device. Throws DeviceError if a parameter or buffer is not on the first device, and
  /// ShapeError if the arguments have no rows or different numbers of rows.
  Result forward(Args... args) override {
    if (devices_.all().empty()) return module_(args...);
    std::tuple<std::decay_t<Args>...> part(args...);
    const std::vector<Tensors> inputs = devices_.scatter(tensors_of(part));
    devices_.check(module_);
    const ModuleTensors members = members_of(module_);
    const std::vector<ModuleTensors> replicas = devices_.replicate(members, inputs.size());
    std::optional<Result> result;
    std::vector<Tensors> outputs;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      put_tensors(part, inputs[i]);
      if (i == 0) {
        result = std::apply(module_, part);
        outputs.push_back(tensors_of(*result));
      } else {
        M replica = replica_of(module_, members, replicas[i - 1]);
        outputs.push_back(tensors_of(std::apply(replica, part)));
      }
    }
    put_tensors(*result, devices_.gather(std::move(outputs)));
    return *std::move(result);
  }
  /// PyTorch's keys: "module.conv1.weight".
  void visit(nn::Visitor& v) override { v.child("module", module_); }

  M& module() { return module_; }
  const std::vector<Device>& devices() const { return devices_.all(); }
  /// Whether the GPUs communicate through NCCL.
  bool uses_nccl() const { return devices_.uses_nccl(); }

 private:
  M module_;
  detail::Devices devices_;
};

template <class M>
DataParallel(M, const DataParallelOptions& = {}) -> DataParallel<M>;
template <class M>
DataParallel(M, std::vector<Device>, Device) -> DataParallel<M>;

}  // namespace rondo::dist
