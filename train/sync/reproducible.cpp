// Shards of the batch, added up in one order: bit-identical on any number of ranks
// (dist/data_parallel/reproducible.h).

#include "dist/data_parallel/reproducible.h"

#include <cmath>
#include <utility>

#include "autograd/autocast.h"
#include "tensor/error.h"
#include "train/sync/strategies.h"

namespace rondo::train {
namespace {

class ReproducibleSync final : public GradientSync {
 public:
  ReproducibleSync(nn::AnyModule& model, std::shared_ptr<dist::Communicator> comm, int shards)
      : parallel_(model, std::move(comm), {.shards = shards}) {}

  Tensor backward(const Step& step) override {
    require(step.batches.size() == 1,
            "TrainStep: gradients of several batches cannot be combined with reproducible "
            "training");
    const data::Batch& batch = step.batches[0];
    step.zero_grad();
    {
      const TimelineTrace::Span span(step.trace, "shards");
      const AutocastIf amp(batch.input.device(), step.amp);
      losses_.push_back(parallel_.backward(batch.input, batch.target, step.criterion, step.scaled));
    }
    const auto& losses = parallel_.losses();
    for (std::size_t shard = 0; shard < losses.size(); ++shard) {
      if (!std::isfinite(losses[shard]))
        throw Error(concat(dist::loss_is(losses[shard]), " on shard ", shard,
                           step.where ? step.where() : ""));
    }
    return {};
  }
  std::vector<double> take_losses(bool) override { return std::exchange(losses_, {}); }
  std::string differences(const io::Checkpoint&, const dist::Communicator&) const override {
    return {};  // the same bits on any number of ranks and threads
  }

 private:
  dist::ReproducibleDataParallel parallel_;
  std::vector<double> losses_;
};

}  // namespace

std::unique_ptr<GradientSync> reproducible_sync(nn::AnyModule& model,
                                                std::shared_ptr<dist::Communicator> comm,
                                                int shards) {
  return std::make_unique<ReproducibleSync>(model, std::move(comm), shards);
}

}  // namespace rondo::train
