// Ranks train alone, and average their parameters every few steps (dist/data_parallel/averager.h).

#include "dist/data_parallel/averager.h"
#include "tensor/creation.h"
#include "train/sync/strategies.h"

namespace rondo::train {
namespace {

class AveragingSync final : public GradientSync {
 public:
  AveragingSync(nn::Module& model, const std::shared_ptr<dist::Communicator>& comm,
                const dist::AveragerOptions& options)
      : own_(no_sync(comm->rank_in_world())),
        comm_(comm),
        averager_(model, comm, options),
        every_(options.every),
        is_async_(options.async) {}

  Tensor backward(const Step& step) override { return own_->backward(step); }
  void after_step() override { averager_.step(); }
  std::vector<double> take_losses(bool wait) override { return own_->take_losses(wait); }
  double mean_over_ranks(double value) override {
    Tensor sum = full({1}, value, {.dtype = f64});
    comm_->all_reduce(sum, dist::ReduceOp::avg);
    return sum.item<double>();
  }
  void replayed(const Tensor& loss, const std::function<std::string()>& where) override {
    own_->replayed(loss, where);
  }

  void finish() override { averager_.finish(); }
  nn::StateDict state() override { return averager_.state(); }
  void restored() override { averager_.restored(); }
  bool state_per_rank() const override { return true; }
  /// A question at every step would synchronise ranks that average seldom.
  std::int64_t steps_between_questions(Device) const override { return every_; }
  /// On the ranks' own communicator, a question would wait for the average that is under way.
  std::shared_ptr<dist::Communicator> questions(std::shared_ptr<dist::Communicator> comm) override {
    return is_async_ ? comm->duplicate() : comm;
  }

 private:
  std::unique_ptr<GradientSync> own_;
  std::shared_ptr<dist::Communicator> comm_;
  dist::ParameterAverager averager_;
  std::int64_t every_;
  bool is_async_;
};

}  // namespace

std::unique_ptr<GradientSync> averaging_sync(nn::Module& model,
                                             const std::shared_ptr<dist::Communicator>& comm,
                                             const dist::AveragerOptions& options) {
  return std::make_unique<AveragingSync>(model, comm, options);
}

}  // namespace rondo::train
