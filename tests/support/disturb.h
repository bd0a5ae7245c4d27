#pragma once
// disturb: gives an untrained model values of which each has an effect.

#include "autograd/grad_mode.h"
#include "autograd/ops/arithmetic.h"
#include "nn/module.h"
#include "tensor/creation.h"

namespace rondo::test {

/// Sets values that start as zeros and ones to other numbers.
inline void disturb(nn::Module& model) {
  const NoGradGuard no_grad;
  for (const auto& [name, p] : model.named_parameters())
    if (p.dim() == 1) p.detach().add_(randn_like(p) * 0.1);
  for (const auto& [name, buffer] : model.named_buffers()) {
    if (name.ends_with("running_mean")) buffer.copy_(randn_like(buffer) * 0.1);
    if (name.ends_with("running_var")) buffer.copy_(rand_like(buffer) + 0.5);
  }
}

}  // namespace rondo::test
