#include "nn/data_parallel.h"

#include <algorithm>
#include <map>
#include <set>

#include "autograd/ops/shape.h"
#include "tensor/cuda.h"
#include "tensor/error.h"

namespace rondo::nn {
namespace {

std::vector<Device> gpus(const std::vector<int>& ids) {
  std::vector<Device> devices;
  if (ids.empty()) {
    cuda::require_device(0);
    for (int i = 0; i < cuda::device_count(); ++i) devices.push_back(Device::cuda(i));
  }
  for (const int id : ids) {
    cuda::require_device(id);
    require<DeviceError>(std::ranges::count(ids, id) == 1,
                         "DataParallel: device_ids names cuda:", id, " twice");
    devices.push_back(Device::cuda(id));
  }
  return devices;
}

/// x on a device, as an op on the tape; a copy where it is there already, since each replica has
/// its own.
Tensor replica_of(const Tensor& x, Device device) {
  return x.device() == device ? x.clone() : x.to(device);
}

/// Puts copies on a device in the place of a module's parameters and buffers.
class Replicate final : public Visitor {
 public:
  explicit Replicate(Device device) : device_(device) {}

  void parameter(std::string_view, Tensor& tensor) override {
    if (!tensor.defined()) return;
    auto [found, is_new] = moved_.try_emplace(tensor.impl_ptr().get());
    if (is_new) found->second = {tensor, replica_of(tensor, device_)};
    tensor = found->second.second;  // a weight that is shared stays shared
  }
  void buffer(std::string_view, Tensor& tensor) override {
    NoGradGuard no_grad;
    if (tensor.defined()) tensor = replica_of(tensor, device_);
  }
  void child(std::string_view, Module& module) override { module.visit(*this); }

 private:
  Device device_;
  // With the originals, so that no address is used twice.
  std::map<const TensorImpl*, std::pair<Tensor, Tensor>> moved_;
};

}  // namespace

DataParallel::DataParallel(AnyModule module, const DataParallelOptions& options)
    : module_(std::move(module)), devices_(gpus(options.device_ids)), output_(devices_[0]) {
  if (options.output_device < 0) return;
  cuda::require_device(options.output_device);
  output_ = Device::cuda(options.output_device);
}

DataParallel::DataParallel(AnyModule module, std::vector<Device> devices, Device output)
    : module_(std::move(module)), devices_(std::move(devices)), output_(output) {
  require<DeviceError>(!devices_.empty(), "DataParallel: there are no devices");
}

void DataParallel::check_parameters() {
  for (auto& [name, tensor] : module_.named_parameters())
    require<DeviceError>(tensor.device() == devices_[0], "DataParallel: ", name, " is on ",
                         tensor.device(), ", but the first device is ", devices_[0],
                         "; call to(Device) first");
}

Tensor DataParallel::forward(const Tensor& x) {
  require<ShapeError>(x.dim() > 0 && x.size(0) > 0, "DataParallel: input ", x.shape(),
                      " has no rows to share out");
  check_parameters();
  const std::int64_t rows = x.size(0), devices = std::ssize(devices_);
  const std::int64_t part = (rows + devices - 1) / devices;
  Tensors outputs;
  for (std::int64_t first = 0, i = 0; first < rows; first += part, ++i) {
    const Device device = devices_[static_cast<std::size_t>(i)];
    const Tensor input = x.narrow(0, first, std::min(part, rows - first)).to(device);
    AnyModule replica = module_;  // shares its tensors with the original
    if (i > 0) {
      Replicate replicate(device);
      replica.visit(replicate);
    }
    const Tensor output = (i > 0 ? replica : module_)(input);
    outputs.push_back((output.dim() == 0 ? output.reshape({1}) : output).to(output_));
  }
  return outputs.size() == 1 ? outputs[0] : cat(outputs, 0);
}

}  // namespace rondo::nn
