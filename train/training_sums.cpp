#include "train/training_sums.h"

#include <variant>
#include <vector>

#include "autograd/ops/unary.h"

namespace rondo::train {

TrainingSums::TrainingSums(const FitOptions& options, Device device)
    : options_(options), sums_(2 + std::ssize(options.metrics), device) {}

std::function<void(const Tensor&, const Tensor&)> TrainingSums::observer() {
  if (!options_.train_metrics) return {};
  return [this](const Tensor& output, const Tensor& target) {
    sums_.add_correct(1, output, target);
    sums_.add_metrics(2, options_.metrics, output, target);
  };
}

void TrainingSums::add_norm(const Tensor& norm) { sums_.add(0, norm, isfinite(norm)); }

void TrainingSums::begin_epoch() { sums_.set(std::vector<BatchSums::Sum>(sums_.size())); }

void TrainingSums::end_epoch(dist::Communicator& comm) {
  metrics_.clear();
  if (!measures()) return;
  const std::vector<BatchSums::Sum> sums = sums_.total(comm);
  if (options_.max_grad_norm > 0) metrics_["grad_norm"] = sums[0].mean();
  if (sums[1].count > 0) metrics_["train_accuracy"] = sums[1].mean();
  for (std::size_t m = 0; options_.train_metrics && m < options_.metrics.size(); ++m)
    metrics_[concat("train_", options_.metrics[m].name)] = sums[m + 2].mean();
}

void TrainingSums::save(io::Metadata& metadata, dist::Communicator& comm) const {
  for (const auto& [name, value] : metrics_) metadata[concat("train.", name)] = value;
  if (!measures()) return;
  // Those of all ranks. A resumed run gives them to rank 0, because only their total matters.
  const std::vector<BatchSums::Sum> sums = sums_.total(comm);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    metadata["train_sum." + name_of(i)] = sums[i].value;
    metadata["train_count." + name_of(i)] = sums[i].count;
  }
}

void TrainingSums::restore(const io::Metadata& metadata, const dist::Communicator& comm) {
  const auto get = [&](const std::string& name) {
    const auto found = metadata.find(name);
    const double* value = found == metadata.end() ? nullptr : std::get_if<double>(&found->second);
    return value != nullptr ? *value : 0;
  };
  const auto restore = [&](const std::string& name) { metrics_[name] = get("train." + name); };
  if (options_.max_grad_norm > 0) restore("grad_norm");
  if (options_.train_metrics && metadata.contains("train.train_accuracy"))
    restore("train_accuracy");
  for (const Metric& metric : options_.metrics)
    if (options_.train_metrics) restore(concat("train_", metric.name));
  std::vector<BatchSums::Sum> sums(sums_.size());
  for (std::size_t i = 0; comm.rank() == 0 && i < sums.size(); ++i) {
    sums[i] = {.value = get("train_sum." + name_of(i)), .count = get("train_count." + name_of(i))};
  }
  sums_.set(sums);
}

std::string TrainingSums::name_of(std::size_t sum) const {
  return sum == 0 ? "grad_norm" : sum == 1 ? "correct" : "metric." + options_.metrics[sum - 2].name;
}

}  // namespace rondo::train
