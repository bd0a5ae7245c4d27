#pragma once
// Adam (Kingma and Ba 2015) and AdamW (Loshchilov and Hutter 2019), in PyTorch's form.
//
//   Adam:  g ← g + weight_decay · p          AdamW:  p ← p − lr · weight_decay · p
//   m ← β₁ m + (1 − β₁) g                    v ← β₂ v + (1 − β₂) g²
//   p ← p − lr · m̂ / (√v̂ + eps),             m̂ = m / (1 − β₁ᵗ),  v̂ = v / (1 − β₂ᵗ)
//
// With amsgrad (Reddi et al. 2018), v̂ uses the largest v so far. t counts the steps of each
// parameter separately: a parameter without a gradient keeps its t.

#include "optim/optimizer.h"

namespace rondo::optim {

struct AdamOptions {
  double lr = 1e-3;
  Betas betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;
  bool maximize = false;
};

struct AdamWOptions {
  double lr = 1e-3;
  Betas betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 1e-2;
  bool amsgrad = false;
  bool maximize = false;
};

/// The base of Adam and AdamW, which differ only in the weight decay.
class AdamBase : public Optimizer {
 public:
  const char* type() const override { return decoupled_ ? "AdamW" : "Adam"; }
  double momentum(std::size_t group = 0) const override { return options_.at(group).betas[0]; }
  void set_momentum(std::size_t group, double beta1) override;

 protected:
  AdamBase(bool decoupled, const std::vector<ParamGroup<AdamOptions>>& groups);
  void add(ParamGroup<AdamOptions> group);

 private:
  enum Entry : std::size_t { kStep, kM, kV, kMaxV };

  void update(std::size_t group, std::vector<Update>& updates, const Tensor& found_inf) override;
  Tensor make_state(std::size_t group, std::size_t index, std::size_t entry) override;
  void forget() override { steps_.assign(steps_.size(), Tensor()); }
  std::map<std::string, double> options(std::size_t group) const override;
  void set_options(std::size_t group, const std::map<std::string, double>& values) override;
  Tensor step_of(std::size_t group, std::size_t index);
  void count(std::size_t group, const std::vector<Update>& updates, const Tensor& found_inf,
             double steps);

  bool decoupled_;
  std::vector<AdamOptions> options_;
  // The step counts of a group, one f64 for each parameter, in one tensor. If all parameters have
  // gradients, as is usual, one kernel increments them all.
  std::vector<Tensor> steps_;
};

class Adam final : public AdamBase {
 public:
  /// Throws Error for a negative rate, eps or decay, and for betas outside [0, 1).
  explicit Adam(Tensors params, AdamOptions options = {});
  explicit Adam(const std::vector<ParamGroup<AdamOptions>>& groups);
  /// Adds parameters to train, for example of layers that were frozen so far. Call it before
  /// schedules, ZeroSharding and captured steps are made. If it throws, nothing has changed: Error
  /// for a parameter that is already trained and for invalid options.
  void add_param_group(ParamGroup<AdamOptions> group) { add(std::move(group)); }
};

class AdamW final : public AdamBase {
 public:
  /// Throws as Adam does.
  explicit AdamW(Tensors params, AdamWOptions options = {});
  explicit AdamW(std::vector<ParamGroup<AdamWOptions>> groups);
  /// As that of Adam.
  void add_param_group(ParamGroup<AdamWOptions> group);
};

}  // namespace rondo::optim
