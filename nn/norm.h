#pragma once
// GroupNorm, LayerNorm, RMSNorm, LocalResponseNorm: normalisation inside one sample. So training
// and evaluation compute the same, and the batch may be small. The arithmetic is in
// autograd/ops/norm.h.

#include <optional>

#include "autograd/ops/norm.h"
#include "nn/module.h"

namespace rondo::nn {

struct GroupNormOptions {
  double eps = 1e-5;
  bool affine = true;
};

/// Normalises each of num_groups groups of channels of x (N, C, ...); weight = 1, bias = 0 (C).
/// Throws ShapeError if num_groups does not divide the channels. Agrees with torch.nn.GroupNorm.
struct GroupNorm : Module {
  std::int64_t num_groups, num_channels;
  double eps;
  Tensor weight, bias;

  GroupNorm(std::int64_t num_groups, std::int64_t num_channels, GroupNormOptions options = {});
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;
  void visit(Visitor& v) override {
    v.parameter("weight", weight);
    v.parameter("bias", bias);
  }
};

struct LayerNormOptions {
  double eps = 1e-5;
  bool elementwise_affine = true;
  bool bias = true;
};

/// Normalises over the last dimensions, which must equal normalized_shape; weight = 1 and bias = 0
/// have that shape. Agrees with torch.nn.LayerNorm.
struct LayerNorm : Module {
  Dims normalized_shape;
  double eps;
  Tensor weight, bias;

  LayerNorm(const Dims& normalized_shape, LayerNormOptions options = {});
  LayerNorm(std::int64_t size, LayerNormOptions options = {}) : LayerNorm(Dims{size}, options) {}
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;
  void visit(Visitor& v) override {
    v.parameter("weight", weight);
    v.parameter("bias", bias);
  }
};

struct RMSNormOptions {
  std::optional<double> eps = {};  // not given: the spacing of the dtype at 1
  bool elementwise_affine = true;
};

/// Divides by the root mean square over the last dimensions, which must equal normalized_shape;
/// weight = 1 has that shape. Agrees with torch.nn.RMSNorm.
struct RMSNorm : Module {
  Dims normalized_shape;
  std::optional<double> eps;
  Tensor weight;

  RMSNorm(const Dims& normalized_shape, RMSNormOptions options = {});
  RMSNorm(std::int64_t size, RMSNormOptions options = {}) : RMSNorm(Dims{size}, options) {}
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;
  void visit(Visitor& v) override { v.parameter("weight", weight); }
};

/// Agrees with torch.nn.LocalResponseNorm.
struct LocalResponseNorm : Module {
  std::int64_t size;
  LocalResponseNormOptions options;
  explicit LocalResponseNorm(std::int64_t size, LocalResponseNormOptions options = {})
      : size(size), options(options) {}
  Tensor forward(const Tensor& x) override { return local_response_norm(x, size, options); }
  std::string extra_repr() const override;
};

}  // namespace rondo::nn
