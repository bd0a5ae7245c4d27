#include "dist/data_parallel/data_parallel.h"

#include <algorithm>
#include <iterator>
#include <ranges>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/shape.h"
#include "autograd/record.h"
#include "dist/data_parallel/replica.h"
#include "tensor/creation.h"
#include "tensor/cuda.h"
#include "tensor/error.h"
#include "tensor/scratch.h"

#ifdef RONDO_HAS_NCCL
#include "dist/transports/nccl/nccl_peers.h"
#endif

namespace rondo::dist {
namespace {

std::vector<Device> gpus(const std::vector<int>& ids) {
  std::vector<Device> devices;
  if (ids.empty()) {
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

/// Copies one tensor after another; each copy is an op on the tape. Tensors already on `device` are
/// copied, too, since each replica has its own.
ModuleTensors copied(const ModuleTensors& members, Device device) {
  auto copy = [&](const Tensor& x) { return x.device() == device ? x.clone() : x.to(device); };
  ModuleTensors replica;
  for (const Tensor& x : members.parameters) replica.parameters.push_back(copy(x));
  NoGradGuard no_grad;
  for (const Tensor& x : members.buffers) replica.buffers.push_back(copy(x));
  return replica;
}

#ifdef RONDO_HAS_NCCL

/// Outputs: the parameters on the second GPU, then those on the third, …. The gradient of a
/// parameter is the sum of its replicas' gradients.
struct BroadcastBackward final : Node {
  std::shared_ptr<NcclPeers> peers;
  Tensors parameters;
  BroadcastBackward(std::shared_ptr<NcclPeers> peers, Tensors parameters)
      : peers(std::move(peers)), parameters(std::move(parameters)) {}
  const char* name() const override { return "broadcast"; }
  Tensors backward(const Tensors& dy) override {
    const std::size_t count = parameters.size(), replicas = dy.size() / count;
    auto of_replica = [&](std::size_t i, std::size_t d) { return dy[d * count + i]; };
    Tensors sums(count);
    if (GradMode::is_enabled()) {  // second order: uses differentiable ops
      for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t d = 0; d < replicas; ++d) {
          if (!of_replica(i, d).defined()) continue;
          const Tensor here = of_replica(i, d).to(parameters[i].device());
          sums[i] = sums[i].defined() ? sums[i] + here : here;
        }
      }
      return sums;
    }
    std::vector<std::size_t> used;  // a layer that was not called has no gradient on any GPU
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t d = 0; d < replicas; ++d) {
        if (!wants(i) || !of_replica(i, d).defined()) continue;
        used.push_back(i);
        break;
      }
    }
    std::vector<Tensors> parts(1 + replicas);
    for (std::size_t i : used) {
      const Tensor& like = parameters[i];
      for (std::size_t d = 0; d <= replicas; ++d) {
        const Tensor part = d > 0 ? of_replica(i, d - 1) : Tensor();
        parts[d].push_back(part.defined()
                               ? dense(part, like.suggested_format())
                               : zeros(like.shape(), {.dtype = like.dtype(),
                                                      .device = peers->devices()[d],
                                                      .format = like.suggested_format()}));
      }
    }
    if (used.empty()) return sums;
    peers->reduce(parts);
    for (std::size_t k = 0; k < used.size(); ++k) sums[used[k]] = parts[0][k];
    return sums;
  }
  void release_saved() override {}
};

/// Replicas on all GPUs except the first.
std::vector<ModuleTensors> broadcast(const ModuleTensors& members,
                                     const std::shared_ptr<NcclPeers>& peers) {
  Tensors all;
  for (const Tensors& some : {members.parameters, members.buffers}) {
    for (const Tensor& x : some) all.push_back(dense(x, x.suggested_format()));
  }
  std::vector<ModuleTensors> replicas;
  Tensors outputs;
  for (const Tensors& copy : peers->broadcast(all) | std::views::drop(1)) {
    const auto middle = copy.begin() + std::ssize(members.parameters);
    replicas.push_back({Tensors(copy.begin(), middle), Tensors(middle, copy.end())});
    for (std::size_t i = 0; i < members.parameters.size(); ++i) {
      if (members.parameters[i].requires_grad()) outputs.push_back(copy[i]);
    }
  }
  Tensors learning;  // frozen parameters are frozen in the replicas, too
  std::ranges::copy_if(members.parameters, std::back_inserter(learning),
                       [](const Tensor& x) { return x.requires_grad(); });
  if (!learning.empty()) record_all<BroadcastBackward>(learning, outputs, peers, learning);
  return replicas;
}

/// Null if NCCL is not installed: then tensors are copied.
std::shared_ptr<NcclPeers> joined(const std::vector<Device>& devices) {
  if (devices.size() < 2) return nullptr;
  try {
    nccl();
  } catch (const CommError&) {
    return nullptr;
  }
  return std::make_shared<NcclPeers>(devices);
}

#else

std::vector<ModuleTensors> broadcast(const ModuleTensors&, const std::shared_ptr<NcclPeers>&) {
  return {};
}
std::shared_ptr<NcclPeers> joined(const std::vector<Device>&) { return nullptr; }

#endif

}  // namespace

detail::Devices::Devices(const DataParallelOptions& options) : devices_(gpus(options.device_ids)) {
  if (devices_.empty()) return;
  output_ = devices_[0];
  if (options.output_device >= 0) {
    cuda::require_device(options.output_device);
    output_ = Device::cuda(options.output_device);
  }
  if (options.use_nccl) peers_ = joined(devices_);
}

detail::Devices::Devices(std::vector<Device> devices, Device output)
    : devices_(std::move(devices)), output_(output) {
  require<DeviceError>(!devices_.empty(), "DataParallel: the list of devices is empty");
}

void detail::Devices::check(nn::Module& module) const {
  auto check = [&](const std::string& name, const Tensor& tensor) {
    require<DeviceError>(tensor.device() == devices_[0], "DataParallel: ", name, " is on ",
                         tensor.device(), ", but the first device is ", devices_[0],
                         "; call to(Device) first");
  };
  for (auto& [name, tensor] : module.named_parameters()) check(name, tensor);
  for (auto& [name, tensor] : module.named_buffers()) check(name, tensor);
}

std::vector<Tensors> detail::Devices::scatter(const Tensors& inputs) const {
  std::int64_t rows = 0;
  for (const Tensor& x : inputs) {
    if (!x.defined()) continue;
    require<ShapeError>(x.dim() > 0 && x.size(0) > 0, "DataParallel: input ", x.shape(),
                        " has no rows to split");
    require<ShapeError>(rows == 0 || x.size(0) == rows, "DataParallel: input ", x.shape(), " has ",
                        x.size(0), " rows, but an input before it has ", rows,
                        "; each tensor is split by its first dimension");
    rows = x.size(0);
  }
  require<ShapeError>(rows > 0, "DataParallel: the arguments have no tensor to split");
  const std::int64_t devices = std::ssize(devices_);
  const std::int64_t part = (rows + devices - 1) / devices, used = (rows + part - 1) / part;
  std::vector<Tensors> parts(static_cast<std::size_t>(used));
  for (std::int64_t i = 0; i < used; ++i) {
    const auto device = static_cast<std::size_t>(i);
    for (const Tensor& x : inputs)
      parts[device].push_back(
          x.defined() ? x.narrow(0, i * part, std::min(part, rows - i * part)).to(devices_[device])
                      : x);
  }
  return parts;
}

std::vector<ModuleTensors> detail::Devices::replicate(const ModuleTensors& members,
                                                      std::size_t used) const {
  if (peers_ != nullptr && used == devices_.size()) return broadcast(members, peers_);
  std::vector<ModuleTensors> replicas;
  for (std::size_t i = 1; i < used; ++i) replicas.push_back(copied(members, devices_[i]));
  return replicas;
}

Tensors detail::Devices::gather(std::vector<Tensors> outputs) const {
  Tensors gathered;
  for (std::size_t k = 0; k < outputs[0].size(); ++k) {
    Tensors parts;
    for (const Tensors& of_device : outputs) {
      require(of_device.size() == outputs[0].size(), "DataParallel: the model returned ",
              outputs[0].size(), " tensors on one device and ", of_device.size(), " on another");
      const Tensor& y = of_device[k];
      if (y.defined()) parts.push_back((y.dim() == 0 ? y.reshape({1}) : y).to(output_));
    }
    require(parts.empty() || parts.size() == outputs.size(),
            "DataParallel: a result is undefined on some devices only");
    gathered.push_back(parts.empty() ? Tensor() : parts.size() == 1 ? parts[0] : cat(parts, 0));
  }
  return gathered;
}

}  // namespace rondo::dist
