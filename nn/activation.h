#pragma once
// Activations as modules, for Sequential. The formulas are in autograd/ops/activation.h.

#include "autograd/ops/activation.h"
#include "nn/module.h"

namespace rondo::nn {

struct ReLU : Module {
  Tensor forward(const Tensor& x) override { return relu(x); }
};

struct LeakyReLU : Module {
  double negative_slope;
  explicit LeakyReLU(double negative_slope = 0.01) : negative_slope(negative_slope) {}
  Tensor forward(const Tensor& x) override { return leaky_relu(x, negative_slope); }
};

struct GELU : Module {
  GeluApproximation approximate;
  explicit GELU(GeluApproximation approximate = GeluApproximation::none)
      : approximate(approximate) {}
  Tensor forward(const Tensor& x) override { return gelu(x, approximate); }
};

struct SiLU : Module {
  Tensor forward(const Tensor& x) override { return silu(x); }
};

struct Sigmoid : Module {
  Tensor forward(const Tensor& x) override { return sigmoid(x); }
};

struct Tanh : Module {
  Tensor forward(const Tensor& x) override { return tanh(x); }
};

struct Softmax : Module {
  std::int64_t dim;
  explicit Softmax(std::int64_t dim) : dim(dim) {}
  Tensor forward(const Tensor& x) override { return softmax(x, dim); }
};

struct LogSoftmax : Module {
  std::int64_t dim;
  explicit LogSoftmax(std::int64_t dim) : dim(dim) {}
  Tensor forward(const Tensor& x) override { return log_softmax(x, dim); }
};

}  // namespace rondo::nn
