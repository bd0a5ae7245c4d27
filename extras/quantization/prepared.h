#pragma once
// Linear and Conv2d between prepare and convert (prepare.h): the original layer, with an observer
// before it. The observer may round the input; the weights are then rounded as well.

#include <optional>
#include <string>

#include "extras/quantization/fake_quantize.h"
#include "nn/batch_norm.h"
#include "nn/conv2d.h"
#include "nn/linear.h"

namespace rondo::nn {

/// Folds a batch norm into a convolution, for inference: w f and (b - mean) f + beta, with f as in
/// PreparedConv2d.
Conv2d fold_batch_norm(const Conv2d& conv, const BatchNorm2d& bn);

/// A Linear between prepare and convert.
struct PreparedLinear : Module {
  Linear linear;  // its parameters appear under this module's own names
  FakeQuantize input;

  PreparedLinear(const Linear& linear, const ObserverOptions& observer)
      : linear(linear), input(observer) {}
  Tensor forward(const Tensor& x) override;
  std::int64_t multiply_adds(const Tensor& x, const Tensor& y) const override {
    return linear.multiply_adds(x, y);
  }
  void visit(Visitor& v) override {
    linear.visit(v);
    v.child("input", input);
  }
};

/// A Conv2d between prepare and convert, with the batch norm that followed it: bn(conv(x, round(w
/// f)) / f), f = gamma / sqrt(running_var + eps). So the weight is rounded at the scale that it has
/// after folding (torch.ao.nn.intrinsic.qat.ConvBn2d).
struct PreparedConv2d : Module {
  Conv2d conv;
  std::optional<BatchNorm2d> bn;
  std::string bn_path;  // its path in the model
  FakeQuantize input;

  PreparedConv2d(const Conv2d& conv, const BatchNorm2d* bn, std::string bn_path,
                 const ObserverOptions& observer);
  Tensor forward(const Tensor& x) override;
  std::int64_t multiply_adds(const Tensor& x, const Tensor& y) const override {
    return conv.multiply_adds(x, y);
  }
  void visit(Visitor& v) override {
    conv.visit(v);
    if (bn) v.child("bn", *bn);
    v.child("input", input);
  }
  /// conv with bn folded in.
  Conv2d folded() const;
};

}  // namespace rondo::nn
