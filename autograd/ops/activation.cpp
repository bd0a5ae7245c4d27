#include "autograd/ops/activation.h"

#include "autograd/autocast.h"
#include "autograd/ops/activation_node.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/fused.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/reduced.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "autograd/record.h"
#include "autograd/trace.h"
#include "tensor/backend.h"
#include "tensor/creation.h"
#include "tensor/record_function.h"

namespace rondo {
namespace {

using detail::activation_from_input;
using detail::activation_from_output;
using detail::ActivationBackward;

struct ReluDerivative {  // dy where y > 0 or y is NaN; saving y lets x be freed
  static constexpr auto name = "relu";
  static constexpr BinaryOp op = BinaryOp::relu_backward;
  static Tensor in_ops(const Tensor& dy, const Tensor& y, OpParams) {
    return masked_fill(dy, le(y, 0), 0.0);  // not dy times a mask, because inf times 0 is NaN
  }
};
struct LeakyReluDerivative {
  static constexpr auto name = "leaky_relu";
  static constexpr BinaryOp op = BinaryOp::leaky_relu_backward;
  static Tensor in_ops(const Tensor& dy, const Tensor& x, OpParams params) {
    return where(gt(x, 0), dy, dy * params.alpha);
  }
  static void tell(AttributeVisitor& v, OpParams params) { v.real("slope", params.alpha); }
};
struct SigmoidDerivative {  // y (1 - y)
  static constexpr auto name = "sigmoid";
  static constexpr BinaryOp op = BinaryOp::sigmoid_backward;
  static Tensor in_ops(const Tensor& dy, const Tensor& y, OpParams) { return dy * (y * (1 - y)); }
};
struct TanhDerivative {  // 1 - y^2
  static constexpr auto name = "tanh";
  static constexpr BinaryOp op = BinaryOp::tanh_backward;
  static Tensor in_ops(const Tensor& dy, const Tensor& y, OpParams) { return dy * (1 - square(y)); }
};
struct GeluDerivative {  // Phi(x) + x phi(x)
  static constexpr auto name = "gelu";
  static constexpr BinaryOp op = BinaryOp::gelu_backward;
  static Tensor in_ops(const Tensor& dy, const Tensor& x, OpParams) {
    Tensor cdf = (erf(x * 0.70710678118654752440) + 1) * 0.5;
    Tensor pdf = exp(square(x) * -0.5) * 0.39894228040143267794;
    return dy * (cdf + x * pdf);
  }
  static void tell(AttributeVisitor& v, OpParams) { v.text("approximation", "none"); }
};
struct GeluTanhDerivative {
  static constexpr auto name = "gelu";
  static constexpr BinaryOp op = BinaryOp::gelu_tanh_backward;
  static Tensor in_ops(const Tensor& dy, const Tensor& x, OpParams) {
    constexpr double k = 0.79788456080286535588;
    Tensor squared = square(x);
    Tensor t = tanh(x * (squared * 0.044715 + 1) * k);
    Tensor slope = (squared * (3 * 0.044715) + 1) * k;
    return dy * ((t + 1 + x * (1 - square(t)) * slope) * 0.5);
  }
  static void tell(AttributeVisitor& v, OpParams) { v.text("approximation", "tanh"); }
};
struct SiluDerivative {  // s (1 + x (1 - s)), s = sigmoid(x)
  static constexpr auto name = "silu";
  static constexpr BinaryOp op = BinaryOp::silu_backward;
  static Tensor in_ops(const Tensor& dy, const Tensor& x, OpParams) {
    Tensor s = sigmoid(x);
    return dy * (s * (x * (1 - s) + 1));
  }
};

struct SoftplusBackward final : Node {
  SavedTensor x;
  explicit SoftplusBackward(const Tensor& x) : x(x) {}
  const char* name() const override { return "softplus"; }
  Tensors backward(const Tensors& dy) override { return {dy[0] * sigmoid(x.get(*this))}; }
  void release_saved() override { x.reset(); }
};

Tensor softmax_gradient(bool log, const Tensor& dy, const Tensor& y, std::int64_t dim) {
  Tensor dx = Tensor::empty_like(y);
  backend(y).softmax_backward(log, dy, y, dim, dx);
  return dx;
}

struct SoftmaxBackward final : Node {
  SavedTensor y;
  std::int64_t dim;
  SoftmaxBackward(const Tensor& y, std::int64_t dim) : y(y, SavedTensor::output), dim(dim) {}
  const char* name() const override { return "softmax"; }
  Tensors backward(const Tensors& dy) override {  // y (dy - sum dy y)
    Tensor p = y.get(*this);
    if (!GradMode::is_enabled()) return {softmax_gradient(false, dy[0], p, dim)};
    return {p * (dy[0] - sum(dy[0] * p, {dim}, true))};
  }
  void release_saved() override { y.reset(); }
  void attributes(AttributeVisitor& v) override { v.integer("dim", dim); }
};

struct LogSoftmaxBackward final : Node {
  SavedTensor y;
  std::int64_t dim;
  LogSoftmaxBackward(const Tensor& y, std::int64_t dim) : y(y, SavedTensor::output), dim(dim) {}
  const char* name() const override { return "log_softmax"; }
  Tensors backward(const Tensors& dy) override {  // dy - exp(y) sum dy
    Tensor log_p = y.get(*this);
    if (!GradMode::is_enabled()) return {softmax_gradient(true, dy[0], log_p, dim)};
    return {dy[0] - exp(log_p) * sum(dy[0], {dim}, true)};
  }
  void release_saved() override { y.reset(); }
  void attributes(AttributeVisitor& v) override { v.integer("dim", dim); }
};

Tensor checked_float(const Tensor& x, const char* op) {
  require_float(x, op);
  return x;
}

Tensor softmax_forward(bool log, const Tensor& x, std::int64_t dim) {
  checked_float(x, log ? "log_softmax" : "softmax");
  Tensor y = Tensor::empty_like(x);
  backend(x).softmax(log, x, dim, y);
  return y;
}

}  // namespace

Tensor relu(const Tensor& x) { return activation_from_output<ReluDerivative>(UnaryOp::relu, x); }
Tensor behind_relu(const Tensor& y) {
  // A tensor of its own, in y's memory, which nobody else sees: `record` would copy.
  const Tensor out = y.as_view(y.shape(), y.strides(), y.storage_offset());
  if (any_requires_grad({&y, 1}))
    attach(std::make_shared<ActivationBackward<ReluDerivative>>(out, SavedTensor::output), {&y, 1},
           {&out, 1});
  return out;
}
Tensor leaky_relu(const Tensor& x, double slope) {
  return activation_from_input<LeakyReluDerivative>(
      UnaryOp::leaky_relu, checked_float(x, "leaky_relu"), {.alpha = slope});
}
Tensor sigmoid(const Tensor& x) {
  return activation_from_output<SigmoidDerivative>(UnaryOp::sigmoid, as_float(x, "sigmoid"));
}
Tensor tanh(const Tensor& x) {
  return activation_from_output<TanhDerivative>(UnaryOp::tanh, as_float(x, "tanh"));
}
Tensor gelu(const Tensor& x, GeluApproximation approximation) {
  checked_float(x, "gelu");
  return approximation == GeluApproximation::none
             ? activation_from_input<GeluDerivative>(UnaryOp::gelu, x)
             : activation_from_input<GeluTanhDerivative>(UnaryOp::gelu_tanh, x);
}
Tensor detail::activated(const Tensor& x, Activation activation) {
  if (activation == Activation::relu) return relu(x);
  return activation == Activation::gelu_tanh ? gelu(x, GeluApproximation::tanh) : x;
}
Tensor silu(const Tensor& x) {
  return activation_from_input<SiluDerivative>(UnaryOp::silu, checked_float(x, "silu"));
}
Tensor softplus(const Tensor& x) {
  if (const Casts cast{AutocastOp::softplus, x}) return softplus(cast(x));
  return record<SoftplusBackward>({x}, apply_unary(UnaryOp::softplus, checked_float(x, "softplus")),
                                  x);
}
Tensor softplus(const Tensor& x, double beta, double threshold) {
  if (beta == 1 && threshold == 20) return softplus(x);
  const OpRange op("softplus");
  if (const Casts cast{AutocastOp::softplus, x}) return softplus(cast(x), beta, threshold);
  const Tensor wide = widened(checked_float(x, "softplus")), scaled = wide * beta;
  if (threshold == 20) return to(softplus(scaled) / beta, x.dtype());
  const Tensor is_linear = scaled > threshold;
  const Tensor curve = log1p(exp(masked_fill(scaled, is_linear, 0.0))) / beta;
  return to(where(is_linear, wide, curve), x.dtype());
}

Tensor softmax(const Tensor& x, std::int64_t dim) {
  const OpRange op("softmax");
  if (const Casts cast{AutocastOp::softmax, x}) return softmax(cast(x), dim);
  dim = wrap_dim(dim, x.dim(), "softmax");
  Tensor y = softmax_forward(false, x, dim);
  return record<SoftmaxBackward>({x}, y, y, dim);
}
Tensor log_softmax(const Tensor& x, std::int64_t dim) {
  const OpRange op("log_softmax");
  if (const Casts cast{AutocastOp::log_softmax, x}) return log_softmax(cast(x), dim);
  dim = wrap_dim(dim, x.dim(), "log_softmax");
  Tensor y = softmax_forward(true, x, dim);
  return record<LogSoftmaxBackward>({x}, y, y, dim);
}

Tensor softmin(const Tensor& x, std::int64_t dim) {
  const OpRange op("softmin");
  return softmax(neg(x), dim);
}

Tensor dropout(const Tensor& x, double p, bool training, Generator& generator) {
  const OpRange op("dropout");
  require(p >= 0 && p <= 1, "dropout: the probability ", p, " is not in [0, 1]");
  if (!training || p == 0) return x;
  checked_float(x, "dropout");
  Tensor keep = no_grad([&] {
    Tensor draw = Tensor::empty(x.shape(), {.device = x.device(), .format = x.suggested_format()});
    backend(x).uniform(draw, generator.next(), 0, 1);
    Tensor kept = to(ge(draw, p), x.dtype());
    return p == 1 ? kept : mul(kept, 1 / (1 - p));
  });
  return mul(x, keep);
}

}  // namespace rondo
