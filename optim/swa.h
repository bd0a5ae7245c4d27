#pragma once
// Averages of a model's weights over training (torch.optim.swa_utils): equal averages (SWA:
// Izmailov et al. 2018) and exponential moving averages (EMA).
//
//   optim::AveragedModel ema(net, {.multi_avg_fn = optim::get_ema_multi_avg_fn(0.999)});
//   ... after each step: ema.update_parameters(net);
//   ... to evaluate: ema.eval(); ema(x)
//
// With equal averages, update_bn computes the running statistics of batch norms for the averaged
// weights, and SWALR keeps the learning rate constant while they are collected.

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "nn/batch_norm.h"
#include "nn/module.h"
#include "optim/lr_schedule.h"
#include "optim/per_group.h"

namespace rondo::optim {

/// Updates the averages in place, given the current values and the number of values that each
/// average contains, which is at least 1.
using MultiAvgFn =
    std::function<void(const Tensors& averages, const Tensors& values, std::int64_t n_averaged)>;

/// average ← decay · average + (1 − decay) · value. Throws Error for a decay outside [0, 1].
MultiAvgFn get_ema_multi_avg_fn(double decay = 0.999);
/// average ← average + (value − average) / (n_averaged + 1).
MultiAvgFn get_swa_multi_avg_fn();

struct AveragedModelOptions {
  std::optional<Device> device = {};  // where the averages are; none: where the model is
  MultiAvgFn multi_avg_fn = {};       // none: get_swa_multi_avg_fn()
  bool use_buffers = false;           // true: averages buffers, too; false: copies them
};

namespace detail {
void update_average(nn::Module& average, nn::Module& model, const Tensor& n_averaged,
                    const AveragedModelOptions& options);
}  // namespace detail

/// A copy of a model that holds averages. Its names begin with "module."; the buffer n_averaged
/// counts the updates. The state dict does not contain the options.
template <class M>
class AveragedModel final : public nn::Module {
 public:
  explicit AveragedModel(const M& model, AveragedModelOptions options = {})
      : options_(std::move(options)), module_(nn::clone(model)) {
    if (options_.device) to(*options_.device);
  }

  M& module() { return module_; }
  std::int64_t n_averaged() const { return n_averaged_.item<std::int64_t>(); }
  /// The first call copies the model's parameters, each further call averages. Throws Error if the
  /// model's parameters do not match in number or shape.
  void update_parameters(nn::Module& model) {
    detail::update_average(module_, model, n_averaged_, options_);
  }

  Tensor forward(const Tensor& x) override { return module_(x); }
  void visit(nn::Visitor& v) override {
    v.buffer("n_averaged", n_averaged_);
    v.child("module", module_);
  }

 private:
  AveragedModelOptions options_;
  M module_;
  Tensor n_averaged_ = Tensor::empty({}, {.dtype = i64}).zero_();
};

namespace detail {

/// While this object lives, the model is in training mode and its batch norms take plain averages
/// over the batches, from the start.
class FreshStatistics {
 public:
  explicit FreshStatistics(nn::Module& model);
  ~FreshStatistics();
  FreshStatistics(const FreshStatistics&) = delete;
  FreshStatistics& operator=(const FreshStatistics&) = delete;
  bool empty() const { return momenta_.empty(); }

 private:
  std::vector<std::pair<nn::Module*, bool>> modes_;
  std::vector<std::pair<nn::BatchNorm*, std::optional<double>>> momenta_;
};

}  // namespace detail

/// Replaces the running statistics of all batch norms by those of the batches in `loader`: a
/// data::DataLoader, or any range of tensors or of structs with a member `input`.
template <class Loader>
void update_bn(Loader&& loader, nn::Module& model, std::optional<Device> device = {}) {
  const NoGradGuard no_grad;
  const detail::FreshStatistics fresh(model);
  if (fresh.empty()) return;
  for (auto&& batch : loader) {
    Tensor x;
    if constexpr (requires { batch.input; }) {
      x = batch.input;
    } else {
      x = batch;
    }
    model(device ? x.to(*device) : x);
  }
}

struct SWALROptions {
  PerGroup swa_lr;
  std::int64_t anneal_epochs = 10;
  Anneal anneal_strategy = Anneal::cos;
};

/// From the current rate to swa_lr in anneal_epochs steps, then constant.
class SWALR final : public LRSchedule {
 public:
  /// Throws Error for a negative anneal_epochs, and for a list of another length than the
  /// optimizer's groups.
  SWALR(Optimizer& optimizer, SWALROptions options);
  const char* type() const override { return "SWALR"; }

 private:
  double first_lr(std::size_t group, double lr) override { return next_lr(group, lr); }
  double next_lr(std::size_t group, double lr) override;
  void restart() override { start(); }
  std::map<std::string, std::vector<double>> settings() const override;
  void load_settings(const std::map<std::string, std::vector<double>>& values) override;

  SWALROptions o_;
};

}  // namespace rondo::optim
