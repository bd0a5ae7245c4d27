#pragma once
// Activations as modules, for Sequential. The formulas and errors are in autograd/ops/activation.h.

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
  std::string extra_repr() const override;
};

struct GELU : Module {
  GeluApproximation approximate;
  explicit GELU(GeluApproximation approximate = GeluApproximation::none)
      : approximate(approximate) {}
  Tensor forward(const Tensor& x) override { return gelu(x, approximate); }
  std::string extra_repr() const override;
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

struct ELU : Module {
  double alpha;
  explicit ELU(double alpha = 1) : alpha(alpha) {}
  Tensor forward(const Tensor& x) override { return elu(x, alpha); }
  std::string extra_repr() const override;
};

struct SELU : Module {
  Tensor forward(const Tensor& x) override { return selu(x); }
};

struct CELU : Module {
  double alpha;
  explicit CELU(double alpha = 1) : alpha(alpha) {}
  Tensor forward(const Tensor& x) override { return celu(x, alpha); }
  std::string extra_repr() const override;
};

struct GLU : Module {
  std::int64_t dim;
  explicit GLU(std::int64_t dim = -1) : dim(dim) {}
  Tensor forward(const Tensor& x) override { return glu(x, dim); }
  std::string extra_repr() const override;
};

struct Mish : Module {
  Tensor forward(const Tensor& x) override { return mish(x); }
};

/// weight (num_parameters): one slope, or one for each channel.
struct PReLU : Module {
  Tensor weight;
  explicit PReLU(std::int64_t num_parameters = 1, double init = 0.25);
  Tensor forward(const Tensor& x) override { return prelu(x, weight); }
  std::string extra_repr() const override;
  void visit(Visitor& v) override { v.parameter("weight", weight); }
};

/// Random slopes in training, their mean in evaluation.
struct RReLU : Module {
  double lower, upper;
  explicit RReLU(double lower = 1.0 / 8, double upper = 1.0 / 3) : lower(lower), upper(upper) {}
  Tensor forward(const Tensor& x) override { return rrelu(x, lower, upper, is_training()); }
  std::string extra_repr() const override;
};

struct ReLU6 : Module {
  Tensor forward(const Tensor& x) override { return relu6(x); }
};

struct Hardtanh : Module {
  double min_val, max_val;
  explicit Hardtanh(double min_val = -1, double max_val = 1) : min_val(min_val), max_val(max_val) {}
  Tensor forward(const Tensor& x) override { return hardtanh(x, min_val, max_val); }
  std::string extra_repr() const override;
};

struct Hardsigmoid : Module {
  Tensor forward(const Tensor& x) override { return hardsigmoid(x); }
};

struct Hardswish : Module {
  Tensor forward(const Tensor& x) override { return hardswish(x); }
};

struct Hardshrink : Module {
  double lambd;
  explicit Hardshrink(double lambd = 0.5) : lambd(lambd) {}
  Tensor forward(const Tensor& x) override { return hardshrink(x, lambd); }
  std::string extra_repr() const override;
};

struct Softshrink : Module {
  double lambd;
  explicit Softshrink(double lambd = 0.5) : lambd(lambd) {}
  Tensor forward(const Tensor& x) override { return softshrink(x, lambd); }
  std::string extra_repr() const override;
};

struct Tanhshrink : Module {
  Tensor forward(const Tensor& x) override { return tanhshrink(x); }
};

struct Threshold : Module {
  double threshold, value;
  Threshold(double threshold, double value) : threshold(threshold), value(value) {}
  Tensor forward(const Tensor& x) override { return rondo::threshold(x, threshold, value); }
  std::string extra_repr() const override;
};

struct Softplus : Module {
  double beta, threshold;
  explicit Softplus(double beta = 1, double threshold = 20) : beta(beta), threshold(threshold) {}
  Tensor forward(const Tensor& x) override { return softplus(x, beta, threshold); }
  std::string extra_repr() const override;
};

struct Softsign : Module {
  Tensor forward(const Tensor& x) override { return softsign(x); }
};

struct LogSigmoid : Module {
  Tensor forward(const Tensor& x) override { return logsigmoid(x); }
};

struct Softmax : Module {
  std::int64_t dim;
  explicit Softmax(std::int64_t dim) : dim(dim) {}
  Tensor forward(const Tensor& x) override { return softmax(x, dim); }
  std::string extra_repr() const override;
};

struct LogSoftmax : Module {
  std::int64_t dim;
  explicit LogSoftmax(std::int64_t dim) : dim(dim) {}
  Tensor forward(const Tensor& x) override { return log_softmax(x, dim); }
  std::string extra_repr() const override;
};

struct Softmin : Module {
  std::int64_t dim;
  explicit Softmin(std::int64_t dim) : dim(dim) {}
  Tensor forward(const Tensor& x) override { return softmin(x, dim); }
  std::string extra_repr() const override;
};

/// Softmax over the channels of each pixel, x (N, C, H, W) or (C, H, W). Throws ShapeError for
/// other ranks.
struct Softmax2d : Module {
  Tensor forward(const Tensor& x) override {
    require<ShapeError>(x.dim() == 3 || x.dim() == 4, "Softmax2d: input ", x.shape(),
                        " is not (N, C, H, W) or (C, H, W)");
    return softmax(x, -3);
  }
};

}  // namespace rondo::nn
