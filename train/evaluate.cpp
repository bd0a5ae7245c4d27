#include "train/evaluate.h"

#include "autograd/grad_mode.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/reduce.h"
#include "data/prefetch.h"
#include "nn/eval_mode.h"
#include "tensor/creation.h"

namespace rondo::train {

data::DataLoader evaluation_loader(const std::shared_ptr<const data::Dataset>& dataset,
                                   const data::Transform& transform, dist::Communicator& comm,
                                   std::int64_t batch_size, int workers) {
  auto sampler = std::make_shared<data::DistributedSampler>(
      dataset->size(),
      data::DistributedSamplerOptions{
          .rank = comm.rank(), .world_size = comm.world_size(), .shuffle = false, .even = false});
  return {dataset, std::move(sampler), {.batch_size = batch_size, .workers = workers}, transform};
}

Evaluation evaluate(nn::Module& model, const std::shared_ptr<const data::Dataset>& dataset,
                    const data::Transform& transform, dist::Communicator& comm,
                    std::int64_t batch_size, int workers) {
  require(dataset->size() > 0, "evaluate: the data set is empty");
  data::DataLoader loader = evaluation_loader(dataset, transform, comm, batch_size, workers);
  const nn::EvalMode eval(model);
  NoGradGuard no_grad;
  const Device device = device_of(model);
  Tensor sums = zeros({2}, {.dtype = f64, .device = device});  // correct, loss
  for (auto& batch : data::DeviceBatches(loader, device)) {
    Tensor logits = model(batch.input);
    sums.narrow(0, 0, 1).add_(rondo::sum(eq(argmax(logits, 1), batch.target)).to(f64));
    sums.narrow(0, 1, 1).add_(
        cross_entropy(logits, batch.target, {.reduction = Reduction::sum}).to(f64));
  }
  comm.all_reduce(sums);
  const auto total = sums.to(Device::cpu()).to_vector<double>();
  return {static_cast<std::int64_t>(total[0]), dataset->size(),
          total[1] / static_cast<double>(dataset->size())};
}

Device device_of(nn::Module& model) {
  const Tensors parameters = model.parameters();
  return parameters.empty() ? Device::cpu() : parameters[0].device();
}

}  // namespace rondo::train
