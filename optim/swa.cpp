#include "optim/swa.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "autograd/grad_mode.h"
#include "autograd/ops/arithmetic.h"
#include "optim/settings.h"

namespace rondo::optim {

// ---- Averages

MultiAvgFn get_ema_multi_avg_fn(double decay) {
  require(decay >= 0 && decay <= 1, "get_ema_multi_avg_fn: decay is ", decay,
          ", but must be in [0, 1]");
  return [decay](const Tensors& averages, const Tensors& values, std::int64_t) {
    for (std::size_t i = 0; i < averages.size(); ++i)
      averages[i].add_(values[i] - averages[i], 1 - decay);
  };
}

MultiAvgFn get_swa_multi_avg_fn() {
  return [](const Tensors& averages, const Tensors& values, std::int64_t n_averaged) {
    for (std::size_t i = 0; i < averages.size(); ++i)
      averages[i].add_(values[i] - averages[i], 1.0 / static_cast<double>(n_averaged + 1));
  };
}

namespace detail {

void update_average(nn::Module& average, nn::Module& model, const Tensor& n_averaged,
                    const AveragedModelOptions& options) {
  const NoGradGuard no_grad;
  const auto n = n_averaged.item<std::int64_t>();
  struct Pair {
    Tensor average, value;
    bool is_copied;
  };
  std::vector<Pair> pairs;
  const auto match = [&](const std::vector<nn::NamedTensor>& own,
                         const std::vector<nn::NamedTensor>& others, bool is_averaged) {
    require(own.size() == others.size(), "AveragedModel.update_parameters: the model has ",
            others.size(), " parameters or buffers, but the average has ", own.size());
    for (std::size_t i = 0; i < own.size(); ++i) {
      const Tensor &a = own[i].tensor, &b = others[i].tensor;
      require<ShapeError>(a.shape() == b.shape(),
                          "AveragedModel.update_parameters: ", others[i].name, " has shape ",
                          b.shape(), ", but its average has ", a.shape());
      // A counter, such as num_batches_tracked, has no average.
      pairs.push_back({a, b, n == 0 || !is_averaged || !is_floating(a.dtype())});
    }
  };
  match(average.named_parameters(), model.named_parameters(), true);
  match(average.named_buffers(), model.named_buffers(), options.use_buffers);
  Tensors averages, values;
  for (const Pair& pair : pairs) {
    const Tensor value = pair.value.to(pair.average.device());
    if (pair.is_copied) {
      pair.average.copy_(value);
    } else {
      averages.push_back(pair.average);
      values.push_back(value);
    }
  }
  const MultiAvgFn& update = options.multi_avg_fn ? options.multi_avg_fn : get_swa_multi_avg_fn();
  if (!averages.empty()) update(averages, values, n);
  n_averaged.fill_(n + 1);
}

FreshStatistics::FreshStatistics(nn::Module& model) {
  for (const auto& [name, module] : model.named_modules()) {
    modes_.emplace_back(module, module->is_training());
    auto* norm = dynamic_cast<nn::BatchNorm*>(module);
    if (norm == nullptr || !norm->running_mean.defined()) continue;
    norm->running_mean.zero_();
    norm->running_var.fill_(1);
    norm->num_batches_tracked.zero_();
    momenta_.emplace_back(norm, norm->options.momentum);
    norm->options.momentum = std::nullopt;
  }
  if (!momenta_.empty()) model.train();
}

FreshStatistics::~FreshStatistics() {
  for (auto& [norm, momentum] : momenta_) norm->options.momentum = momentum;
  // Parents first: train() also sets their children, which then get their own modes.
  for (auto& [module, training] : modes_) module->train(training);
}

}  // namespace detail

// ---- SWALR

namespace {

void check(const Optimizer& optimizer, const SWALROptions& o) {
  require(o.anneal_epochs >= 0, "SWALR: anneal_epochs is ", o.anneal_epochs,
          ", but must not be negative");
  o.swa_lr.check_length("SWALR", "swa_lr", optimizer);
}

}  // namespace

SWALR::SWALR(Optimizer& optimizer, SWALROptions options)
    : LRSchedule(optimizer), o_(std::move(options)) {
  check(optimizer, o_);
  start();
}

double SWALR::next_lr(std::size_t group, double lr) {
  const auto total = static_cast<double>(std::max<std::int64_t>(1, o_.anneal_epochs));
  const auto step = static_cast<double>(
      o_.anneal_epochs == 0 ? std::max<std::int64_t>(1, last_step_) : last_step_);
  const auto share_of_swa_lr = [&](double at) {
    const double t = std::clamp(at / total, 0.0, 1.0);
    return o_.anneal_strategy == Anneal::linear ? t : (1 - std::cos(std::numbers::pi * t)) / 2;
  };
  const double swa_lr = o_.swa_lr.at(group), before = share_of_swa_lr(step - 1),
               now = share_of_swa_lr(step);
  const double from = before == 1 ? swa_lr : (lr - before * swa_lr) / (1 - before);
  return swa_lr * now + from * (1 - now);
}

std::map<std::string, std::vector<double>> SWALR::settings() const {
  return {{"swa_lr", o_.swa_lr.values},
          {"anneal_epochs", {static_cast<double>(o_.anneal_epochs)}},
          {"linear", {o_.anneal_strategy == Anneal::linear ? 1.0 : 0.0}}};
}

void SWALR::load_settings(const std::map<std::string, std::vector<double>>& values) {
  detail::Settings s{type(), values};
  SWALROptions o{.swa_lr = s.list("swa_lr"),
                 .anneal_epochs = s.integer("anneal_epochs"),
                 .anneal_strategy = s.number("linear") != 0 ? Anneal::linear : Anneal::cos};
  check(*optimizer_, o);
  o_ = std::move(o);
}

}  // namespace rondo::optim
