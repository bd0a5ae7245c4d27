#pragma once
// Optimizers that divide the gradient by the root of its past squares, in PyTorch's form.
//
//   Adagrad (Duchi et al. 2011)   v ← v + g²,  lr' = lr / (1 + (t − 1) lr_decay),
//                                 p ← p − lr' · g / (√v + eps)
//   Adadelta (Zeiler 2012)        v ← ρ v + (1 − ρ) g²,  d = √(u + eps) / √(v + eps) · g,
//                                 u ← ρ u + (1 − ρ) d²,  p ← p − lr · d
//   RMSprop (Hinton 2012)         v ← α v + (1 − α) g²,  d = g / (√v + eps),
//                                 b ← momentum · b + d,  p ← p − lr · b
//
// In all of them g ← g + weight_decay · p first. Centered RMSprop (Graves 2013) uses v − m², where
// m is the average of g.

#include "optim/composed.h"

namespace rondo::optim {

struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0;
  double weight_decay = 0;
  double initial_accumulator_value = 0;
  double eps = 1e-10;
  bool maximize = false;
  std::vector<NamedOption> named();
};
extern template class Composed<AdagradOptions>;

class Adagrad final : public Composed<AdagradOptions> {
 public:
  /// Throws Error for a negative option.
  explicit Adagrad(Tensors params, AdagradOptions options = {});
  explicit Adagrad(const Groups& groups);

 private:
  void update(const AdagradOptions& o, const Parameter& x) override;
  double initial_value(std::size_t group, std::size_t entry) const override;
};

struct AdadeltaOptions {
  double lr = 1;
  double rho = 0.9;
  double eps = 1e-6;
  double weight_decay = 0;
  bool maximize = false;
  std::vector<NamedOption> named();
};
extern template class Composed<AdadeltaOptions>;

class Adadelta final : public Composed<AdadeltaOptions> {
 public:
  /// Throws Error for a negative option, and for rho above 1.
  explicit Adadelta(Tensors params, AdadeltaOptions options = {});
  explicit Adadelta(const Groups& groups);

 private:
  void update(const AdadeltaOptions& o, const Parameter& x) override;
};

struct RMSpropOptions {
  double lr = 1e-2;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;
  bool maximize = false;
  std::vector<NamedOption> named();
};
extern template class Composed<RMSpropOptions>;

class RMSprop final : public Composed<RMSpropOptions> {
 public:
  /// Throws Error for a negative option.
  explicit RMSprop(Tensors params, RMSpropOptions options = {});
  explicit RMSprop(const Groups& groups);

 private:
  void update(const RMSpropOptions& o, const Parameter& x) override;
};

}  // namespace rondo::optim
