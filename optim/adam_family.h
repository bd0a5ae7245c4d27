#pragma once
// Relatives of Adam, in PyTorch's form. m and v are Adam's averages of g and g², m̂ and v̂ the same
// without bias (adam.h); t counts the steps of a parameter.
//
//   NAdam (Dozat 2016)            Adam with Nesterov's momentum: μₜ = β₁ (1 − 0.96^(t · ψ) / 2),
//                                 p ← p − lr ((1 − μₜ) g / (1 − Πμ) + μₜ₊₁ m / (1 − Πμ · μₜ₊₁)) /
//                                 (√v̂ + eps), with ψ = momentum_decay and Πμ = μ₁ … μₜ
//   RAdam (Liu et al. 2020)       p ← p − lr · m̂ · r √(1 − β₂ᵗ) / (√v + eps), where r rectifies the
//                                 variance; p ← p − lr · m̂ in the first steps, where it is unknown
//   Adamax (Kingma and Ba 2015)   u ← max(β₂ u, |g| + eps),  p ← p − lr · m̂ / u
//   Lion (Chen et al. 2023)       p ← p − lr · weight_decay · p,  c = β₁ m + (1 − β₁) g,
//                                 p ← p − lr · sign(c),  m ← β₂ m + (1 − β₂) g
//
// The first three add weight_decay · p to g; decoupled_weight_decay does as AdamW.

#include "optim/composed.h"

namespace rondo::optim {

struct NAdamOptions {
  double lr = 2e-3;
  Betas betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum_decay = 4e-3;
  bool decoupled_weight_decay = false;
  bool maximize = false;
  std::vector<NamedOption> named();
};
extern template class Composed<NAdamOptions>;

class NAdam final : public Composed<NAdamOptions> {
 public:
  /// Throws Error for a negative option, and for betas outside [0, 1).
  explicit NAdam(Tensors params, NAdamOptions options = {});
  explicit NAdam(const Groups& groups);

 private:
  void update(const NAdamOptions& o, const Parameter& x) override;
  double initial_value(std::size_t group, std::size_t entry) const override;
};

struct RAdamOptions {
  double lr = 1e-3;
  Betas betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  bool decoupled_weight_decay = false;
  bool maximize = false;
  std::vector<NamedOption> named();
};
extern template class Composed<RAdamOptions>;

class RAdam final : public Composed<RAdamOptions> {
 public:
  /// Throws as NAdam does.
  explicit RAdam(Tensors params, RAdamOptions options = {});
  explicit RAdam(const Groups& groups);

 private:
  void update(const RAdamOptions& o, const Parameter& x) override;
};

struct AdamaxOptions {
  double lr = 2e-3;
  Betas betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  bool maximize = false;
  std::vector<NamedOption> named();
};
extern template class Composed<AdamaxOptions>;

class Adamax final : public Composed<AdamaxOptions> {
 public:
  /// Throws as NAdam does.
  explicit Adamax(Tensors params, AdamaxOptions options = {});
  explicit Adamax(const Groups& groups);

 private:
  void update(const AdamaxOptions& o, const Parameter& x) override;
};

struct LionOptions {
  double lr = 1e-4;
  Betas betas = {0.9, 0.99};
  double weight_decay = 0;
  bool maximize = false;
  std::vector<NamedOption> named();
};
extern template class Composed<LionOptions>;

/// Not in PyTorch. Use a learning rate 3 to 10 times smaller, and a weight decay as much larger,
/// than for AdamW.
class Lion final : public Composed<LionOptions> {
 public:
  /// Throws as NAdam does.
  explicit Lion(Tensors params, LionOptions options = {});
  explicit Lion(const Groups& groups);

 private:
  void update(const LionOptions& o, const Parameter& x) override;
};

}  // namespace rondo::optim
