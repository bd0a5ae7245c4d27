#include "train/judgement.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "autograd/grad_mode.h"
#include "autograd/ops/activation.h"
#include "data/prefetch.h"
#include "nn/eval_mode.h"
#include "tensor/creation.h"
#include "train/evaluate.h"

namespace rondo::train {
namespace {

bool is_worse(const Judged& a, const Judged& b) {
  return a.loss != b.loss ? a.loss > b.loss : a.index < b.index;
}

/// Keeps the `count` worst, in order.
void keep_worst(std::vector<Judged>& all, std::size_t count) {
  std::ranges::sort(all, is_worse);
  if (all.size() > count) all.resize(count);
}

/// From one row of log-probabilities.
Judged judged(const double* log_probabilities, std::int64_t classes, std::int64_t target) {
  const auto* best = std::max_element(log_probabilities, log_probabilities + classes);
  double loss = -log_probabilities[target];
  if (std::isnan(loss)) loss = std::numeric_limits<double>::infinity();
  return {.target = target,
          .predicted = best - log_probabilities,
          .probability = std::exp(*best),
          .probability_of_target = std::exp(-loss),
          .loss = loss};
}

/// Gathers the kept samples of all ranks.
std::vector<Judged> gathered(const std::vector<Judged>& mine, dist::Communicator& comm) {
  static_assert(std::is_trivially_copyable_v<Judged>);
  std::string bytes(mine.size() * sizeof(Judged), '\0');
  if (!mine.empty()) std::memcpy(bytes.data(), mine.data(), bytes.size());
  std::vector<Judged> all;
  for (const std::string& of_rank : comm.all_gather_bytes(bytes)) {
    const std::size_t before = all.size();
    all.resize(before + of_rank.size() / sizeof(Judged));
    if (!of_rank.empty()) std::memcpy(all.data() + before, of_rank.data(), of_rank.size());
  }
  return all;
}

}  // namespace

Judgement judge(nn::Module& model, const std::shared_ptr<const data::Dataset>& dataset,
                const data::Transform& transform, dist::Communicator& comm, std::size_t worst,
                std::int64_t batch_size, int workers) {
  require(dataset->size() > 0, "judge: the data set is empty");
  data::DataLoader loader = evaluation_loader(dataset, transform, comm, batch_size, workers);
  const nn::EvalMode eval(model);
  const NoGradGuard no_grad;
  // A rank without samples must know the width of the output, too.
  std::int64_t classes = dataset->num_classes();
  Tensor counts = zeros({classes, classes}, {.dtype = i64});
  std::vector<Judged> kept;
  std::int64_t sample = comm.rank();
  for (auto& batch : data::DeviceBatches(loader, device_of(model))) {
    const Tensor logits = model(batch.input);
    require<ShapeError>(logits.dim() == 2 && logits.size(1) == classes,
                        "judge: the model's output is ", logits.shape(), ", but the data set has ",
                        classes, " classes");
    const Tensor rows = log_softmax(logits.to(Device::cpu()).to(f64), 1).contiguous();
    const auto targets = batch.target.to(Device::cpu()).to_vector<std::int64_t>();
    for (std::int64_t i = 0; i < std::ssize(targets); ++i, sample += comm.world_size()) {
      const std::int64_t target = targets[static_cast<std::size_t>(i)];
      require(0 <= target && target < classes, "judge: the target of sample ", sample, " is ",
              target, ", but there are ", classes, " classes");
      kept.push_back(judged(rows.data_ptr<double>() + i * classes, classes, target));
      kept.back().index = sample;
      ++counts.data_ptr<std::int64_t>()[target * classes + kept.back().predicted];
    }
    keep_worst(kept, worst);
  }
  comm.all_reduce(counts);
  Judgement result;
  for (std::int64_t c = 0; c < classes; ++c) {
    const auto* row = counts.data_ptr<std::int64_t>() + c * classes;
    result.confusion.emplace_back(row, row + classes);
  }
  result.worst = gathered(kept, comm);
  keep_worst(result.worst, worst);
  return result;
}

}  // namespace rondo::train
