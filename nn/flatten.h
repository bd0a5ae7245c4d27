#pragma once
// Flatten and Identity: modules without arithmetic.

#include "autograd/ops/shape.h"
#include "nn/module.h"

namespace rondo::nn {

/// By default, (N, C, H, W) to (N, C H W).
struct Flatten : Module {
  std::int64_t start_dim, end_dim;
  explicit Flatten(std::int64_t start_dim = 1, std::int64_t end_dim = -1)
      : start_dim(start_dim), end_dim(end_dim) {}
  Tensor forward(const Tensor& x) override { return flatten(x, start_dim, end_dim); }
};

/// y = x. Use it to replace a layer that you want to remove.
struct Identity : Module {
  Tensor forward(const Tensor& x) override { return x; }
};

}  // namespace rondo::nn
