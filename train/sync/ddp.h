#pragma once
// DdpSync: gradients are averaged while backward runs. Private to train/sync.

#include <utility>

#include "train/gradient_sync.h"

namespace rondo::train {

class DdpSync : public GradientSync {
 public:
  explicit DdpSync(dist::DistributedDataParallel& ddp) : ddp_(ddp) {}
  /// With a DistributedDataParallel of its own. Collective.
  DdpSync(nn::Module& model, std::shared_ptr<dist::Communicator> comm,
          const dist::DdpOptions& options)
      : own_(std::in_place, model, std::move(comm), options), ddp_(*own_) {}

  Tensor backward(const Step& step) override;
  std::vector<double> take_losses(bool wait) override { return ddp_.take_mean_losses(wait); }

  std::int64_t warm_up_steps() const override;
  void begin_capture() override;
  void end_capture() override;
  void replayed(const Tensor& loss, const std::function<std::string()>& where) override;

  void broadcast_buffers() override { ddp_.broadcast_buffers(); }
  nn::StateDict state() override;
  bool state_per_rank() const override;
  void join(const std::function<void()>& step) override { ddp_.join(step); }

  dist::DistributedDataParallel& ddp() { return ddp_; }

 private:
  std::optional<dist::DistributedDataParallel> own_;
  dist::DistributedDataParallel& ddp_;
  std::uint64_t collectives_before_ = 0, collectives_in_graph_ = 0;
};

}  // namespace rondo::train
