// The activations that are composed of other ops (see activation.h). They are written as sums of
// max(x, 0) and a function of min(x, 0), not with `where`: then no branch that is not chosen can
// overflow and turn a gradient into NaN, and a trace of them does not depend on the input's values.
//
// Those that networks use most have kernels, forward and backward, of which the formula is what a
// trace shows: readers of graphs know its ops.

#include <limits>

#include "autograd/ops/activation.h"
#include "autograd/ops/activation_node.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/binary.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/reduced.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "autograd/record.h"
#include "autograd/trace.h"
#include "tensor/backend.h"
#include "tensor/record_function.h"

namespace rondo {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

/// min(x, 0), whose gradient passes at 0. It complements relu, whose gradient does not.
Tensor negative_part(const Tensor& x) { return clamp_with_bounds(x, -infinite, 0.0); }

/// f(x) under the name of an op. 16-bit floats are computed in f32.
template <class F>
Tensor activation(const char* name, const Tensor& x, F f) {
  const OpRange op(name);
  require_float(x, name);
  return to(f(widened(x)), x.dtype());
}

/// The kernels of an activation, or under a trace its formula.
template <class Derivative, class F>
Tensor by_kernel(UnaryOp op, const Tensor& x, OpParams params, F f) {
  if (TraceMode::is_enabled()) return activation(Derivative::name, x, f);
  require_float(x, Derivative::name);
  return detail::activation_from_input<Derivative>(op, x, params);
}

struct EluDerivative {  // alpha: of elu; beta: scale; gamma: input_scale
  static constexpr auto name = "elu";
  static constexpr BinaryOp op = BinaryOp::elu_backward;
  static Tensor in_ops(const Tensor& dy, const Tensor& x, const OpParams& p) {
    const Tensor below = exp(negative_part(widened(x)) * p.gamma) * (p.alpha * p.beta * p.gamma);
    return to(dy * where(gt(x, 0), p.beta, below), x.dtype());
  }
  static void tell(AttributeVisitor& v, const OpParams& p) {
    v.real("alpha", p.alpha);
    v.real("scale", p.beta);
    v.real("input_scale", p.gamma);
  }
};
struct SeluDerivative : EluDerivative {
  static constexpr auto name = "selu";
};
struct CeluDerivative : EluDerivative {
  static constexpr auto name = "celu";
};
struct HardsigmoidDerivative {
  static constexpr auto name = "hardsigmoid";
  static constexpr BinaryOp op = BinaryOp::hardsigmoid_backward;
  static Tensor in_ops(const Tensor& dy, const Tensor& x, const OpParams&) {
    return masked_fill(dy / 6, logical_not(logical_and(gt(x, -3), lt(x, 3))), 0.0);
  }
};
struct HardswishDerivative {
  static constexpr auto name = "hardswish";
  static constexpr BinaryOp op = BinaryOp::hardswish_backward;
  static Tensor in_ops(const Tensor& dy, const Tensor& x, const OpParams&) {
    const Tensor between = masked_fill(dy * (widened(x) / 3 + 0.5), le(x, -3), 0.0);
    return to(where(ge(x, 3), dy, between), x.dtype());
  }
};

struct HardtanhDerivative {  // alpha, beta: the bounds
  static constexpr auto name = "hardtanh";
  static constexpr BinaryOp op = BinaryOp::hardtanh_backward;
  static Tensor in_ops(const Tensor& dy, const Tensor& x, const OpParams& p) {
    return masked_fill(dy, logical_or(le(x, p.alpha), ge(x, p.beta)), 0.0);
  }
  static void tell(AttributeVisitor& v, const OpParams& p) {
    v.real("low", p.alpha);
    v.real("high", p.beta);
  }
};
struct HardshrinkDerivative {  // alpha: lambd
  static constexpr auto name = "hardshrink";
  static constexpr BinaryOp op = BinaryOp::shrink_backward;
  static Tensor in_ops(const Tensor& dy, const Tensor& x, const OpParams& p) {
    return masked_fill(dy, le(abs(x), p.alpha), 0.0);
  }
};
struct SoftshrinkDerivative : HardshrinkDerivative {
  static constexpr auto name = "softshrink";
};
struct ThresholdDerivative {  // alpha: threshold
  static constexpr auto name = "threshold";
  static constexpr BinaryOp op = BinaryOp::threshold_backward;
  static Tensor in_ops(const Tensor& dy, const Tensor& x, const OpParams& p) {
    return masked_fill(dy, le(x, p.alpha), 0.0);
  }
};
struct MishDerivative {
  static constexpr auto name = "mish";
  static constexpr BinaryOp op = BinaryOp::mish_backward;
  static Tensor in_ops(const Tensor& dy, const Tensor& x, const OpParams&) {
    const Tensor wide = widened(x), t = tanh(softplus(wide));
    return to(dy * (t + wide * (1 - square(t)) * sigmoid(wide)), x.dtype());
  }
};
struct LogsigmoidDerivative {
  static constexpr auto name = "logsigmoid";
  static constexpr BinaryOp op = BinaryOp::logsigmoid_backward;
  static Tensor in_ops(const Tensor& dy, const Tensor& x, const OpParams&) {
    return to(dy * sigmoid(neg(widened(x))), x.dtype());
  }
};

template <class Derivative>
Tensor scaled_elu(const Tensor& x, double alpha, double scale, double input_scale) {
  return by_kernel<Derivative>(
      UnaryOp::elu, x, {.alpha = alpha, .beta = scale, .gamma = input_scale}, [=](const Tensor& x) {
        return relu(x) * scale + expm1(negative_part(x) * input_scale) * (alpha * scale);
      });
}

Tensor leaky(const Tensor& x, const Tensor& slope) { return relu(x) + slope * negative_part(x); }

/// x where x > 0, else w x; w is broadcast.
struct PreluBackward final : Node {
  SavedTensor x, w;
  PreluBackward(const Tensor& x, const Tensor& w) : x(x), w(w) {}
  const char* name() const override { return "prelu"; }
  Tensors backward(const Tensors& dy) override {
    const Tensor x = this->x.get(*this), w = this->w.get(*this);
    return {wants(0) ? where(gt(x, 0), dy[0], dy[0] * w) : Tensor(),
            wants(1) ? sum_to(dy[0] * negative_part(x), w.shape()) : Tensor()};
  }
  void release_saved() override {
    x.reset();
    w.reset();
  }
};

}  // namespace

Tensor elu(const Tensor& x, double alpha) { return scaled_elu<EluDerivative>(x, alpha, 1, 1); }
Tensor selu(const Tensor& x) {
  return scaled_elu<SeluDerivative>(x, 1.6732632423543772848, 1.0507009873554804934, 1);
}
Tensor celu(const Tensor& x, double alpha) {
  require(alpha != 0, "celu: alpha must not be 0");
  return scaled_elu<CeluDerivative>(x, alpha, 1, 1 / alpha);
}

namespace {

std::pair<Tensor, Tensor> halves(const Tensor& x, std::int64_t dim) {
  const std::int64_t half = x.size(dim) / 2;
  return {narrow(x, dim, 0, half), narrow(x, dim, half, half)};
}

/// y = a s, s = sigmoid(b): da = dy s, db = dy a s (1 - s), where 1 - s is sigmoid(-b).
struct GluBackward final : Node {
  SavedTensor x;
  std::int64_t dim;
  GluBackward(const Tensor& x, std::int64_t dim) : x(x), dim(dim) {}
  const char* name() const override { return "glu"; }
  Tensors backward(const Tensors& dy) override {
    const Tensor x = this->x.get(*this);
    const auto [a, b] = halves(x, dim);
    if (GradMode::is_enabled()) {
      const Tensor da = dy[0] * sigmoid(b);
      return {cat({da, da * a * sigmoid(-b)}, dim)};
    }
    const Tensor dx = Tensor::empty_like(x);
    const auto [da, db] = halves(dx, dim);
    backend(x).binary(BinaryOp::glu, dy[0], b, da);
    backend(x).binary(BinaryOp::mul, da, a, db);
    backend(x).binary(BinaryOp::logsigmoid_backward, db, b, db);
    return {dx};
  }
  void release_saved() override { x.reset(); }
  void attributes(AttributeVisitor& v) override { v.integer("dim", dim); }
};

}  // namespace

Tensor glu(const Tensor& x, std::int64_t dim) {
  const OpRange op("glu");
  require<ShapeError>(x.dim() > 0, "glu: a tensor without dimensions has no halves");
  dim = wrap_dim(dim, x.dim(), "glu");
  require<ShapeError>(x.size(dim) % 2 == 0, "glu: dimension ", dim, " of ", x.shape(),
                      " has an odd size, so it has no halves");
  return activation("glu", x, [=](const Tensor& x) {
    const auto [a, b] = halves(x, dim);
    if (TraceMode::is_enabled()) return a * sigmoid(b);
    const Tensor y = Tensor::empty(a.shape(), x.options());
    backend(x).binary(BinaryOp::glu, a, b, y);
    return record<GluBackward>({x}, y, x, dim);
  });
}

Tensor mish(const Tensor& x) {
  return by_kernel<MishDerivative>(UnaryOp::mish, x, {},
                                   [](const Tensor& x) { return x * tanh(softplus(x)); });
}

Tensor prelu(const Tensor& x, const Tensor& weight) {
  const OpRange op("prelu");
  const std::int64_t channels = x.dim() >= 2 ? x.size(1) : 1;
  require<ShapeError>(weight.dim() <= 1 && (weight.numel() == 1 || weight.numel() == channels),
                      "prelu: weight ", weight.shape(), " has neither one element nor one for each",
                      " of the ", channels, " channels of input ", x.shape());
  Dims sizes = Dims::filled(x.dim(), 1);
  if (weight.numel() != 1) sizes[1] = channels;
  return activation("prelu", x, [&](const Tensor& x) {
    const Tensor w = reshape(to(weight, x.dtype()), sizes);
    if (TraceMode::is_enabled()) return leaky(x, w);
    const Tensor y = detail::compute(BinaryOp::prelu, x, w, x.dtype(), x.dtype(), {}, "prelu");
    return record<PreluBackward>({x, w}, y, x, w);
  });
}

Tensor rrelu(const Tensor& x, double lower, double upper, bool training, Generator& generator) {
  require(lower <= upper, "rrelu: lower ", lower, " exceeds upper ", upper);
  if (!training) return leaky_relu(x, (lower + upper) / 2);
  return activation("rrelu", x, [&](const Tensor& x) {
    const Tensor slope =
        Tensor::empty(x.shape(), {.device = x.device(), .format = x.suggested_format()});
    backend(slope).uniform(slope, generator.next(), lower, upper);
    return leaky(x, to(slope, x.dtype()));
  });
}

Tensor hardtanh(const Tensor& x, double min_val, double max_val) {
  require(min_val <= max_val, "hardtanh: min_val ", min_val, " exceeds max_val ", max_val);
  require_float(x, "hardtanh");
  return detail::activation_from_input<HardtanhDerivative>(UnaryOp::clamp, x,
                                                           {.alpha = min_val, .beta = max_val});
}
Tensor relu6(const Tensor& x) {
  const OpName op("relu6");
  return hardtanh(x, 0, 6);
}
Tensor hardsigmoid(const Tensor& x) {
  return by_kernel<HardsigmoidDerivative>(
      UnaryOp::hardsigmoid, x, {}, [](const Tensor& x) { return (clamp(x, -3, 3) + 3) / 6; });
}
Tensor hardswish(const Tensor& x) {
  return by_kernel<HardswishDerivative>(UnaryOp::hardswish, x, {},
                                        [](const Tensor& x) { return x * hardsigmoid(x); });
}

Tensor hardshrink(const Tensor& x, double lambd) {
  return by_kernel<HardshrinkDerivative>(
      UnaryOp::hardshrink, x, {.alpha = lambd},
      [=](const Tensor& x) { return masked_fill(x, abs(x) <= lambd, 0.0); });
}
Tensor softshrink(const Tensor& x, double lambd) {
  require(lambd >= 0, "softshrink: lambd ", lambd, " is negative");
  return by_kernel<SoftshrinkDerivative>(
      UnaryOp::softshrink, x, {.alpha = lambd},
      [=](const Tensor& x) { return x - clamp_with_bounds(x, -lambd, lambd); });
}
Tensor tanhshrink(const Tensor& x) {
  return activation("tanhshrink", x, [](const Tensor& x) { return x - tanh(x); });
}
Tensor threshold(const Tensor& x, double threshold, double value) {
  return by_kernel<ThresholdDerivative>(
      UnaryOp::threshold, x, {.alpha = threshold, .beta = value},
      [=](const Tensor& x) { return masked_fill(x, x <= threshold, value); });
}

Tensor softsign(const Tensor& x) {
  return activation("softsign", x, [](const Tensor& x) { return x / (abs(x) + 1); });
}

Tensor logsigmoid(const Tensor& x) {
  require_float(x, "logsigmoid");
  return detail::activation_from_input<LogsigmoidDerivative>(UnaryOp::logsigmoid, x);
}

}  // namespace rondo
