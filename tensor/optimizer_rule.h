#pragma once
// The arithmetic of one optimizer step on one element, the same on all devices. The formulas and
// the order of operations are those of torch.optim.SGD, Adam and AdamW; see tensor/backend.h.

#include <cmath>

#include "tensor/backend.h"

namespace rondo {

template <class C>
struct SgdRule {
  C lr, momentum, weight_decay, undampened, sign;
  bool nesterov, first_step;

  RONDO_HD SgdRule(const double* rates, const SgdParams& params)
      : lr(static_cast<C>(rates[0])),
        momentum(static_cast<C>(rates[1])),
        weight_decay(static_cast<C>(params.weight_decay)),
        undampened(static_cast<C>(1 - params.dampening)),
        sign(params.maximize ? C(-1) : C(1)),
        nesterov(params.nesterov),
        first_step(params.first_step) {}

  RONDO_HD void operator()(C& p, C g) const { p -= lr * (sign * g + weight_decay * p); }
  /// The step with momentum. The first step sets the buffer to the undampened gradient, as in
  /// PyTorch.
  RONDO_HD void operator()(C& p, C g, C& buffer) const {
    const C d = sign * g + weight_decay * p;
    buffer = first_step ? d : momentum * buffer + undampened * d;
    p -= lr * (nesterov ? d + momentum * buffer : buffer);
  }
};

template <class C>
struct AdamRule {
  C step_size;   // lr / (1 - beta1^step)
  C root_scale;  // 1 / sqrt(1 - beta2^step)
  C beta1, beta2, rest1, rest2, eps, sign;
  C decay_gradient;  // Adam: g += decay p
  C keep_weight;     // AdamW: p *= 1 - lr decay

  RONDO_HD AdamRule(const double* rates, double step, const AdamParams& params)
      : step_size(static_cast<C>(rates[0] / (1 - std::pow(rates[1], step)))),
        root_scale(static_cast<C>(1 / std::sqrt(1 - std::pow(params.beta2, step)))),
        beta1(static_cast<C>(rates[1])),
        beta2(static_cast<C>(params.beta2)),
        rest1(static_cast<C>(1 - rates[1])),
        rest2(static_cast<C>(1 - params.beta2)),
        eps(static_cast<C>(params.eps)),
        sign(params.maximize ? C(-1) : C(1)),
        decay_gradient(static_cast<C>(params.decoupled ? 0 : params.weight_decay)),
        keep_weight(static_cast<C>(params.decoupled ? 1 - rates[0] * params.weight_decay : 1)) {}

  RONDO_HD void moments(C p, C g, C& m, C& v) const {
    const C d = sign * g + decay_gradient * p;
    m = beta1 * m + rest1 * d;
    v = beta2 * v + rest2 * d * d;
  }
  /// second: v, or with amsgrad the largest v so far.
  RONDO_HD void step(C& p, C m, C second) const {
    p = keep_weight * p - step_size * m / (std::sqrt(second) * root_scale + eps);
  }
};

}  // namespace rondo
