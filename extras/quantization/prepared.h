#pragma once
// What Linear and Conv2d are between prepare and convert (prepare.h): themselves, with an observer
// before them, which may round what comes in, and weights that are then rounded as well.

#include <optional>
#include <string>

#include "extras/quantization/fake_quantize.h"
#include "nn/batch_norm.h"
#include "nn/conv2d.h"
#include "nn/linear.h"

namespace rondo::nn {

/// w f and (b - mean) f + beta, f as above: conv and bn in one, for inference.
Conv2d fold_batch_norm(const Conv2d& conv, const BatchNorm2d& bn);

/// A Linear between prepare and convert.
struct PreparedLinear : Module {
  Linear linear;  // its names are shown as this module's own
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

/// A Conv2d between prepare and convert, with the batch norm that followed it:
/// bn(conv(x, round(w f)) / f), f = gamma / sqrt(running_var + eps), so that the weight is rounded
/// at the size it will have once all is folded (torch.ao.nn.intrinsic.qat.ConvBn2d).
struct PreparedConv2d : Module {
  Conv2d conv;
  std::optional<BatchNorm2d> bn;
  std::string bn_path;  // where it stood
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
  /// conv and bn in one.
  Conv2d folded() const;
};

}  // namespace rondo::nn
