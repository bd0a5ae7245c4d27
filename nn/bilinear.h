#pragma once
// Bilinear: y[k] = x1^T W[k] x2 + b[k]. The arithmetic is in autograd/ops/composed.h.

#include "nn/module.h"

namespace rondo::nn {

struct BilinearOptions {
  bool bias = true;
};

/// x1 (..., in1_features) and x2 (..., in2_features) to y (..., out_features); weight (out, in1,
/// in2), bias (out), both drawn from U(-1/sqrt(in1), 1/sqrt(in1)). Agrees with torch.nn.Bilinear.
struct Bilinear : Module {
  std::int64_t in1_features, in2_features, out_features;
  Tensor weight, bias;

  Bilinear(std::int64_t in1_features, std::int64_t in2_features, std::int64_t out_features,
           BilinearOptions options = {});
  /// Both inputs are x.
  Tensor forward(const Tensor& x) override;
  std::string extra_repr() const override;
  using Module::operator();
  Tensor operator()(const Tensor& x1, const Tensor& x2);
  std::int64_t multiply_adds(const Tensor&, const Tensor& y) const override {
    return y.numel() * in1_features * (in2_features + 1);
  }
  void visit(Visitor& v) override {
    v.parameter("weight", weight);
    v.parameter("bias", bias);
  }
};

}  // namespace rondo::nn
