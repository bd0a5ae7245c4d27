#pragma once
// Dropout: noise in training, identity in evaluation (Srivastava et al. 2014).

#include "autograd/ops/activation.h"
#include "nn/module.h"

namespace rondo::nn {

/// In training, zeroes each element with probability p and scales the others by 1 / (1 - p), so
/// that the mean does not change; in evaluation y = x. Throws Error unless 0 <= p <= 1.
struct Dropout : Module {
  double p;

  explicit Dropout(double p = 0.5) : p(p) {
    require(p >= 0 && p <= 1, "Dropout: the probability is ", p, ", but must be in [0, 1]");
  }
  Tensor forward(const Tensor& x) override { return dropout(x, p, is_training()); }
  std::string extra_repr() const override;
};

/// Zeroes whole channels: x (N, C, L) or (C, L).
struct Dropout1d : Dropout {
  using Dropout::Dropout;
  Tensor forward(const Tensor& x) override { return dropout1d(x, p, is_training()); }
};
/// x (N, C, H, W) or (N, C, L).
struct Dropout2d : Dropout {
  using Dropout::Dropout;
  Tensor forward(const Tensor& x) override { return dropout2d(x, p, is_training()); }
};
/// x (N, C, D, H, W) or (C, D, H, W).
struct Dropout3d : Dropout {
  using Dropout::Dropout;
  Tensor forward(const Tensor& x) override { return dropout3d(x, p, is_training()); }
};

/// For networks with SELU: keeps mean 0 and variance 1.
struct AlphaDropout : Dropout {
  using Dropout::Dropout;
  Tensor forward(const Tensor& x) override { return alpha_dropout(x, p, is_training()); }
};
/// The same for whole channels of x (N, C, ...).
struct FeatureAlphaDropout : Dropout {
  using Dropout::Dropout;
  Tensor forward(const Tensor& x) override { return feature_alpha_dropout(x, p, is_training()); }
};

}  // namespace rondo::nn
