#pragma once
// Optimizers that compute with whole parameters: with their norms, or as matrices.
// dist::ZeroSharding refuses them, because it splits parameters.
//
//   LARS (You et al. 2017)      r = trust_coefficient ‖p‖ / (‖g‖ + weight_decay ‖p‖)
//                               b ← momentum · b + lr · r (g + weight_decay · p),  p ← p − b
//   LAMB (You et al. 2020)      d = m̂ / (√v̂ + eps) + weight_decay · p,  m̂ and v̂ as in adam.h
//                               p ← p − lr ‖p‖ / ‖d‖ · d
//   Muon (Jordan et al. 2024)   b ← b + (1 − momentum) (g − b),  d = g + momentum (b − g), or b
//                               without nesterov
//                               p ← p − lr · weight_decay · p,  p ← p − lr · a · NewtonSchulz(d)
//
// In LARS, r is 1 if one of the norms is 0; in LAMB, so is ‖p‖ / ‖d‖. For Muon, see below.

#include "optim/composed.h"

namespace rondo::optim {

struct LARSOptions {
  double lr = 1e-3;
  double momentum = 0.9;
  double weight_decay = 0;
  double trust_coefficient = 1e-3;
  bool maximize = false;
  std::vector<NamedOption> named();
};
extern template class Composed<LARSOptions>;

/// Not in PyTorch.
class LARS final : public Composed<LARSOptions> {
 public:
  /// Throws Error for a negative option.
  explicit LARS(Tensors params, LARSOptions options = {});
  explicit LARS(const Groups& groups);

 private:
  void update(const LARSOptions& o, const Parameter& x) override;
};

struct LAMBOptions {
  double lr = 1e-3;
  Betas betas = {0.9, 0.999};
  double eps = 1e-6;
  double weight_decay = 0;
  bool maximize = false;
  std::vector<NamedOption> named();
};
extern template class Composed<LAMBOptions>;

/// Not in PyTorch.
class LAMB final : public Composed<LAMBOptions> {
 public:
  /// Throws Error for a negative option, and for betas outside [0, 1).
  explicit LAMB(Tensors params, LAMBOptions options = {});
  explicit LAMB(const Groups& groups);

 private:
  void update(const LAMBOptions& o, const Parameter& x) override;
};

/// The factor a for a matrix of shape (A, B).
enum class MuonAdjustLr : std::uint8_t {
  original,            // √max(1, A / B)
  match_rms_adamw,     // 0.2 √max(A, B): updates are as large as AdamW's
  spectral_unclamped,  // √(A / B)
};

struct MuonOptions {
  double lr = 1e-3;
  double weight_decay = 0.1;
  double momentum = 0.95;
  bool nesterov = true;
  std::array<double, 3> ns_coefficients = {3.4445, -4.7750, 2.0315};
  double eps = 1e-7;
  std::int64_t ns_steps = 5;  // below 100
  MuonAdjustLr adjust_lr_fn = MuonAdjustLr::original;
  std::vector<NamedOption> named();
};
extern template class Composed<MuonOptions>;

/// Momentum, made orthogonal by Newton-Schulz iterations: they move all singular values of d / ‖d‖
/// near 1, in bf16, with X ← a X + (b X Xᵀ + c (X Xᵀ)²) X. For the matrices of hidden layers; train
/// biases, embeddings and the last layer with AdamW.
class Muon final : public Composed<MuonOptions> {
 public:
  /// Throws Error for a negative option, and ShapeError for a parameter that is not a matrix.
  explicit Muon(Tensors params, MuonOptions options = {});
  explicit Muon(const Groups& groups);

 private:
  void check_parameters_of(const Tensors& params) const override;
  void update(const MuonOptions& o, const Parameter& x) override;
};

}  // namespace rondo::optim
