#include "extras/quantization/quantize.h"

#include <cmath>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "autograd/record.h"
#include "tensor/backend.h"
#include "tensor/record_function.h"

namespace rondo {
namespace {

Tensor pass_through(const Tensor& dy, const Tensor& x, OpParams range);
struct FakeQuantizeBackward final : Node {
  SavedTensor x;
  OpParams range;
  bool second;  // the derivative of the derivative with respect to dy, which is the same map
  FakeQuantizeBackward(const Tensor& x, OpParams range, bool second)
      : x(x), range(range), second(second) {}
  const char* name() const override { return second ? "fake_quantize_backward" : "fake_quantize"; }
  Tensors backward(const Tensors& dy) override {
    return {pass_through(dy[0], x.get(*this), range)};
  }
  void release_saved() override { x.reset(); }
};
Tensor pass_through(const Tensor& dy, const Tensor& x, OpParams range) {
  Tensor dx = Tensor::empty_like(x);
  backend(x).binary(BinaryOp::fake_quantize_backward, dy, x, dx, range);
  return record<FakeQuantizeBackward>({dy}, dx, x, range, true);
}

/// Without a zero point: q ranges from quant_min - zero_point to quant_max - zero_point instead.
Tensor fake_quantize(const Tensor& x, double scale, std::int64_t low, std::int64_t high) {
  const OpParams range{
      .alpha = scale, .beta = static_cast<double>(low), .gamma = static_cast<double>(high)};
  return record<FakeQuantizeBackward>({x}, apply_unary(UnaryOp::fake_quantize, x, range), x, range,
                                      false);
}

}  // namespace

Tensor fake_quantize_per_tensor_affine(const Tensor& x, double scale, std::int64_t zero_point,
                                       std::int64_t quant_min, std::int64_t quant_max) {
  const OpRange op("fake_quantize_per_tensor_affine");
  require<DTypeError>(is_floating(x.dtype()), "fake_quantize_per_tensor_affine: the input is ",
                      x.dtype(), ", not a float");
  require(scale > 0 && std::isfinite(scale), "fake_quantize_per_tensor_affine: scale ", scale,
          ", but it must be finite and positive");
  require(quant_min <= zero_point && zero_point <= quant_max,
          "fake_quantize_per_tensor_affine: zero point ", zero_point, " is not within ", quant_min,
          " to ", quant_max);
  return fake_quantize(x, scale, quant_min - zero_point, quant_max - zero_point);
}

Tensor fake_quantize_per_channel_symmetric(const Tensor& x, const Tensor& scale,
                                           std::int64_t quant_min, std::int64_t quant_max) {
  const OpRange op("fake_quantize_per_channel_symmetric");
  require<DTypeError>(is_floating(x.dtype()), "fake_quantize_per_channel_symmetric: the input is ",
                      x.dtype(), ", not a float");
  require<ShapeError>(x.dim() > 0 && scale.shape() == Dims{x.size(0)},
                      "fake_quantize_per_channel_symmetric: scales ", scale.shape(),
                      " for an input ", x.shape());
  require(quant_min <= 0 && 0 <= quant_max, "fake_quantize_per_channel_symmetric: 0 is not within ",
          quant_min, " to ", quant_max);
  Dims sizes = {x.size(0)};
  for (std::int64_t d = 1; d < x.dim(); ++d) sizes.push_back(1);
  const DType wide = x.dtype() == f64 ? f64 : f32;  // a scale may be too small for 16 bits
  const Tensor each = reshape(scale.detach().to(wide), sizes);
  // Not x / each: it would round some numbers to other bytes than PyTorch and the other functions
  // of extras/quantization.
  const Tensor steps = x.to(wide) * reciprocal(each);
  return (fake_quantize(steps, 1, quant_min, quant_max) * each).to(x.dtype());
}

}  // namespace rondo
