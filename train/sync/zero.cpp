// ZeRO: DDP's gradients, and each rank keeps its part of the optimizer's state
// (dist/data_parallel/zero.h).

#include "dist/data_parallel/zero.h"

#include "tensor/creation.h"
#include "train/evaluate.h"
#include "train/sync/ddp.h"
#include "train/sync/strategies.h"

namespace rondo::train {
namespace {

class ZeroSync final : public DdpSync {
 public:
  ZeroSync(nn::Module& model, optim::Optimizer& optimizer, std::shared_ptr<dist::Communicator> comm,
           const dist::DdpOptions& options)
      : DdpSync(model, std::move(comm), options), zero_(ddp()), device_(device_of(model)) {
    zero_.shard(optimizer);
  }
  Tensor clip_grad_norm(const Tensors&, double max_norm) override {
    return full({1}, zero_.clip_grad_norm(max_norm), {.dtype = f64, .device = device_});
  }
  /// All ranks get all parameters.
  void after_step() override { zero_.gather(); }
  bool state_per_rank() const override { return true; }

 private:
  dist::ZeroSharding zero_;
  Device device_;
};

}  // namespace

std::unique_ptr<GradientSync> zero_sync(nn::Module& model, optim::Optimizer& optimizer,
                                        std::shared_ptr<dist::Communicator> comm,
                                        const dist::DdpOptions& options) {
  return std::make_unique<ZeroSync>(model, optimizer, std::move(comm), options);
}

}  // namespace rondo::train
