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
    require(p >= 0 && p <= 1, "Dropout: the probability is ", p);
  }
  Tensor forward(const Tensor& x) override { return dropout(x, p, is_training()); }
};

}  // namespace rondo::nn
