#include "train/evaluate.h"

#include <set>

#include "autograd/grad_mode.h"
#include "autograd/ops/loss.h"
#include "data/prefetch.h"
#include "nn/eval_mode.h"
#include "train/batch_sums.h"
#include "train/share_of_data.h"

namespace rondo::train {

data::DataLoader evaluation_loader(const std::shared_ptr<const data::Dataset>& dataset,
                                   const data::Transform& transform, dist::Communicator& comm,
                                   std::int64_t batch_size, int workers) {
  auto sampler = distributed_sampler(dataset->size(), comm, {.shuffle = false, .even = false});
  return {dataset, std::move(sampler), {.batch_size = batch_size, .workers = workers}, transform};
}

Tensor default_criterion(const Tensor& y, const Tensor& target) {
  require<ShapeError>((y.dim() >= 2 && y.size(1) != 1) || !is_floating(target.dtype()),
                      "cross_entropy: the model's output ", y.shape(),
                      " has one number for each sample and the targets are floats; set a "
                      "criterion, for example mse_loss");
  return cross_entropy(y, target);
}

Evaluation evaluate(nn::Module& model, const std::shared_ptr<const data::Dataset>& dataset,
                    const data::Transform& transform, dist::Communicator& comm,
                    const EvaluateOptions& options) {
  require(dataset->size() > 0, "evaluate: the data set is empty");
  check_metrics(options.metrics);
  std::vector<Metric> metrics = {{"loss", options.criterion ? options.criterion : default_criterion,
                                  options.count ? options.count : count_of}};
  metrics.insert(metrics.end(), options.metrics.begin(), options.metrics.end());
  data::DataLoader loader =
      evaluation_loader(dataset, transform, comm, options.batch_size, options.workers);
  const nn::EvalMode eval(model);
  NoGradGuard no_grad;
  const Device device = device_of(model);
  BatchSums sums(1 + std::ssize(metrics), device);
  for (auto& batch : data::DeviceBatches(loader, device)) {
    const Tensor output = model(batch.input);
    sums.add_metrics(1, metrics, output, batch.target);
    sums.add_correct(0, output, batch.target);
  }
  const std::vector<BatchSums::Sum> total = sums.total(comm);
  Evaluation result{.correct = static_cast<std::int64_t>(total[0].value),
                    .total = static_cast<std::int64_t>(total[0].count),
                    .loss = total[1].mean(),
                    .samples = dataset->size()};
  for (std::size_t m = 1; m < metrics.size(); ++m)
    result.metrics[metrics[m].name] = total[m + 1].mean();
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
