#include "train/evaluate.h"

#include "autograd/grad_mode.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/reduce.h"
#include "tensor/creation.h"

namespace rondo::train {
namespace {

/// The model in eval mode while this lives; then each module is in the mode that it had, so that a
/// frozen batch norm stays frozen.
class EvalMode {
 public:
  explicit EvalMode(nn::Module& model) {
    for (const auto& [name, module] : model.named_modules())
      before_.emplace_back(module, module->is_training());
    model.eval();
  }
  ~EvalMode() {  // parents come first, and train() reaches their children, who then say otherwise
    for (auto [module, training] : before_) module->train(training);
  }
  EvalMode(const EvalMode&) = delete;
  EvalMode& operator=(const EvalMode&) = delete;

 private:
  std::vector<std::pair<nn::Module*, bool>> before_;
};

}  // namespace

Evaluation evaluate(nn::Module& model, const std::shared_ptr<const data::Dataset>& dataset,
                    const data::Transform& transform, dist::Communicator& comm,
                    std::int64_t batch_size, int workers) {
  require(dataset->size() > 0, "evaluate: the data set is empty");
  auto sampler = std::make_shared<data::DistributedSampler>(
      dataset->size(),
      data::DistributedSamplerOptions{
          .rank = comm.rank(), .world_size = comm.world_size(), .shuffle = false, .even = false});
  data::DataLoader loader(dataset, sampler, {.batch_size = batch_size, .workers = workers},
                          transform);
  EvalMode eval(model);
  NoGradGuard no_grad;
  Tensor sums = zeros({2}, {.dtype = f64});  // correct, loss
  double* sum = sums.data_ptr<double>();
  for (auto& batch : loader) {
    Tensor logits = model(batch.input);
    sum[0] += rondo::sum(eq(argmax(logits, 1), batch.target)).item<double>();
    sum[1] += cross_entropy(logits, batch.target, {.reduction = Reduction::sum}).item<double>();
  }
  comm.all_reduce(sums);
  return {static_cast<std::int64_t>(sum[0]), dataset->size(),
          sum[1] / static_cast<double>(dataset->size())};
}

}  // namespace rondo::train
