#include "train/evaluate.h"

#include <set>

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
                    std::int64_t batch_size, int workers, const std::vector<Metric>& metrics) {
  require(dataset->size() > 0, "evaluate: the data set is empty");
  check_metrics(metrics);
  data::DataLoader loader = evaluation_loader(dataset, transform, comm, batch_size, workers);
  const nn::EvalMode eval(model);
  NoGradGuard no_grad;
  const Device device = device_of(model);
  const std::int64_t fixed = 2, count = fixed + std::ssize(metrics);
  const Tensor sums = zeros({count}, {.dtype = f64, .device = device});  // correct, loss, metrics
  for (auto& batch : data::DeviceBatches(loader, device)) {
    Tensor logits = model(batch.input);
    sums.narrow(0, 0, 1).add_(rondo::sum(eq(argmax(logits, 1), batch.target)).to(f64));
    sums.narrow(0, 1, 1).add_(
        cross_entropy(logits, batch.target, {.reduction = Reduction::sum}).to(f64));
    for (std::size_t m = 0; m < metrics.size(); ++m) {
      const Tensor mean = metrics[m].function(logits, batch.target);
      require<ShapeError>(mean.numel() == 1, "evaluate: the metric ", metrics[m].name,
                          " of a batch has shape ", mean.shape(), ", but must be one number");
      sums.narrow(0, fixed + static_cast<std::int64_t>(m), 1)
          .add_(mean.reshape({1}).to(f64) * static_cast<double>(batch.size()));
    }
  }
  comm.all_reduce(sums);
  const auto total = sums.to(Device::cpu()).to_vector<double>();
  const auto samples = static_cast<double>(dataset->size());
  Evaluation result{.correct = static_cast<std::int64_t>(total[0]),
                    .total = dataset->size(),
                    .loss = total[1] / samples};
  for (std::size_t m = 0; m < metrics.size(); ++m)
    result.metrics[metrics[m].name] = total[static_cast<std::size_t>(fixed) + m] / samples;
  return result;
}

void check_metrics(const std::vector<Metric>& metrics) {
  std::set<std::string> names = {"loss", "accuracy"};
  for (const Metric& metric : metrics) {
    require(!metric.name.empty() && metric.name.find_first_of(",\"\r\n") == std::string::npos,
            "evaluate: \"", metric.name,
            "\" cannot be the name of a metric: it is empty, or has a "
            "comma, a quotation mark or the end of a line");
    require(metric.function != nullptr, "evaluate: the metric ", metric.name, " has no function");
    require(names.insert(metric.name).second, "evaluate: there are two metrics called ",
            metric.name);
  }
}

Device device_of(nn::Module& model) {
  const Tensors parameters = model.parameters();
  return parameters.empty() ? Device::cpu() : parameters[0].device();
}

}  // namespace rondo::train
