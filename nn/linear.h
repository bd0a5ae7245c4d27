#pragma once
// Linear: y = x W^T + b, the fully connected layer.

#include "nn/module.h"
#include "tensor/activation.h"

namespace rondo::nn {

struct LinearOptions {
  bool bias = true;
};

/// A substitute of a Linear (Module::set_submodule) that can apply an activation in the same pass
/// that writes its result. For other substitutes the activation is an op of its own.
struct FusesActivation {
  virtual ~FusesActivation() = default;
  virtual Tensor operator()(const Tensor& x, Activation activation) = 0;
};

/// x (..., in_features) to y (..., out_features); weight (out_features, in_features), bias
/// (out_features), both drawn from U(-1/sqrt(in_features), 1/sqrt(in_features)). Agrees with
/// torch.nn.Linear.
struct Linear : Module {
  std::int64_t in_features, out_features;
  Tensor weight, bias;

  Linear(std::int64_t in_features, std::int64_t out_features, LinearOptions options = {});
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;
  using Module::operator();
  /// The fused form: y = activation(x W^T + b) in one pass (autograd/ops/matmul.h).
  Tensor operator()(const Tensor& x, Activation activation);
  std::int64_t multiply_adds(const Tensor&, const Tensor& y) const override {
    return y.numel() * in_features;
  }
  void visit(Visitor& v) override {
    v.parameter("weight", weight);
    v.parameter("bias", bias);
  }
};

}  // namespace rondo::nn
