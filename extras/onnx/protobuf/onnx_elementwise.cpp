// Rules for element-wise ops and for reductions.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "extras/onnx/protobuf/onnx_ops.h"
#include "tensor/backend.h"

namespace rondo::io::onnx {
namespace {

/// An ONNX op with one argument.
Rule unary(const char* op_type) {
  return [=](OpWriter& w) { return Names{w.node(op_type, {w.in(0)})}; };
}

struct UnaryName {
  UnaryOp op;
  const char* onnx;  // null: the op has a rule of its own below, or cannot be exported
};
/// In the order of tensor/ops_table.h.
constexpr UnaryName unary_names[] = {
    {UnaryOp::neg, "Neg"},
    {UnaryOp::abs, "Abs"},
    {UnaryOp::sign, "Sign"},
    {UnaryOp::square, nullptr},
    {UnaryOp::relu, "Relu"},
    {UnaryOp::logical_not, nullptr},
    {UnaryOp::isnan, nullptr},
    {UnaryOp::leaky_relu, nullptr},
    {UnaryOp::add_scalar, nullptr},
    {UnaryOp::mul_scalar, nullptr},
    {UnaryOp::pow_scalar, nullptr},
    {UnaryOp::clamp, nullptr},
    {UnaryOp::exp, "Exp"},
    {UnaryOp::expm1, nullptr},
    {UnaryOp::log, "Log"},
    {UnaryOp::log1p, nullptr},
    {UnaryOp::exp2, nullptr},
    {UnaryOp::log2, nullptr},
    {UnaryOp::log10, nullptr},
    {UnaryOp::sqrt, "Sqrt"},
    {UnaryOp::rsqrt, nullptr},
    {UnaryOp::reciprocal, "Reciprocal"},
    {UnaryOp::sin, "Sin"},
    {UnaryOp::cos, "Cos"},
    {UnaryOp::tan, "Tan"},
    {UnaryOp::sinh, "Sinh"},
    {UnaryOp::cosh, "Cosh"},
    {UnaryOp::asin, "Asin"},
    {UnaryOp::acos, "Acos"},
    {UnaryOp::atan, "Atan"},
    {UnaryOp::asinh, "Asinh"},
    {UnaryOp::acosh, "Acosh"},
    {UnaryOp::atanh, "Atanh"},
    {UnaryOp::tanh, "Tanh"},
    {UnaryOp::sigmoid, "Sigmoid"},
    {UnaryOp::erf, "Erf"},
    {UnaryOp::erfc, nullptr},
    {UnaryOp::erfinv, nullptr},
    {UnaryOp::lgamma, nullptr},
    {UnaryOp::digamma, nullptr},
    {UnaryOp::polygamma, nullptr},
    {UnaryOp::floor, "Floor"},
    {UnaryOp::ceil, "Ceil"},
    {UnaryOp::round, "Round"},
    {UnaryOp::trunc, nullptr},
    {UnaryOp::gelu, nullptr},
    {UnaryOp::gelu_tanh, nullptr},
    {UnaryOp::silu, nullptr},
    {UnaryOp::softplus, "Softplus"},
    {UnaryOp::elu, nullptr},
    {UnaryOp::hardsigmoid, nullptr},
    {UnaryOp::hardswish, nullptr},
    {UnaryOp::hardshrink, nullptr},
    {UnaryOp::softshrink, nullptr},
    {UnaryOp::mish, nullptr},
    {UnaryOp::logsigmoid, nullptr},
    {UnaryOp::threshold, nullptr},
    {UnaryOp::nan_to_num, nullptr},
    {UnaryOp::isinf, nullptr},
    {UnaryOp::isfinite, nullptr},
    {UnaryOp::fake_quantize, nullptr},
};

#define RONDO_ROW(...) +1
constexpr bool all_have_names = [] {
  for (std::size_t i = 0; i < std::size(unary_names); ++i)
    if (unary_names[i].op != static_cast<UnaryOp>(i)) return false;
  return std::size(unary_names) == 0 RONDO_UNARY_OPS(RONDO_ROW);
}();
#undef RONDO_ROW
static_assert(all_have_names, "unary_names needs a row for each op, in the order of ops_table.h");

Rule binary(const char* op_type) {
  return [=](OpWriter& w) { return Names{w.node(op_type, {w.in(0), w.in(1)})}; };
}

Rule along_dim(const char* op_type) {
  return [=](OpWriter& w) {
    return Names{w.node(op_type, {w.in(0)}, {{"axis", w.integer("dim")}})};
  };
}

/// x unchanged.
Names same(OpWriter& w) { return {w.in(0)}; }

/// a + alpha b; for sub, alpha is negative.
Names add(OpWriter& w) {
  const double alpha = w.real("alpha");
  const std::string a = w.in(0), b = w.in(1);
  if (std::abs(alpha) == 1) return {w.node(alpha > 0 ? "Add" : "Sub", {a, b})};
  return {w.node("Add", {a, w.node("Mul", {b, w.number(alpha)})})};
}

Names square(OpWriter& w) {
  const std::string x = w.in(0);
  return {w.node("Mul", {x, x})};
}

Names rsqrt(OpWriter& w) { return {w.node("Reciprocal", {w.node("Sqrt", {w.in(0)})})}; }

Names pow(OpWriter& w) {
  return {
      w.node("Pow", {w.in(0), w.was_told("exponent") ? w.number(w.real("exponent")) : w.in(1)})};
}

Names clamp(OpWriter& w) {
  const auto bound = [&w](double value) { return std::isinf(value) ? "" : w.number(value); };
  return {w.node("Clip", {w.in(0), bound(w.real("low")), bound(w.real("high"))})};
}

Names leaky_relu(OpWriter& w) {
  return {w.node("LeakyRelu", {w.in(0)}, {{"alpha", w.real("slope")}})};
}

Names logsigmoid(OpWriter& w) {
  return {w.node("Neg", {w.node("Softplus", {w.node("Neg", {w.in(0)})})})};
}

Names silu(OpWriter& w) {
  const std::string x = w.in(0);
  return {w.node("Mul", {x, w.node("Sigmoid", {x})})};
}

/// ONNX has no such op before opset 20: x (1 + erf(x / sqrt(2))) / 2, or the approximation x (1 +
/// tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2.
Names gelu(OpWriter& w) {
  const std::string x = w.in(0);
  std::string s;
  if (w.told<std::string>("approximation") == "none") {
    s = w.node("Erf", {w.node("Mul", {x, w.number(std::sqrt(0.5))})});
  } else {
    const std::string cubic =
        w.node("Mul", {w.node("Mul", {w.node("Mul", {x, x}), x}), w.number(0.044715)});
    const std::string inner = w.node("Add", {x, cubic});
    s = w.node("Tanh", {w.node("Mul", {inner, w.number(0.79788456080286535588)})});
  }
  const std::string both = w.node("Mul", {x, w.node("Add", {s, w.number(1)})});
  return {w.node("Mul", {both, w.number(0.5)})};
}

/// log(x) / log(base).
Rule logarithm(double base) {
  return [=](OpWriter& w) {
    return Names{w.node("Mul", {w.node("Log", {w.in(0)}), w.number(1 / std::log(base))})};
  };
}
Names exp2(OpWriter& w) { return {w.node("Pow", {w.number(2), w.in(0)})}; }
Names expm1(OpWriter& w) { return {w.node("Sub", {w.node("Exp", {w.in(0)}), w.number(1)})}; }
Names log1p(OpWriter& w) { return {w.node("Log", {w.node("Add", {w.in(0), w.number(1)})})}; }
Names erfc(OpWriter& w) { return {w.node("Sub", {w.number(1), w.node("Erf", {w.in(0)})})}; }
Names trunc(OpWriter& w) {
  const std::string x = w.in(0);
  return {w.node("Mul", {w.node("Sign", {x}), w.node("Floor", {w.node("Abs", {x})})})};
}

Names fmod(OpWriter& w) { return {w.node("Mod", {w.in(0), w.in(1)}, {{"fmod", std::int64_t{1}}})}; }

Names cumsum(OpWriter& w) { return {w.node("CumSum", {w.in(0), w.list({w.integer("dim")})})}; }

Names where(OpWriter& w) { return {w.node("Where", {w.tensor("condition"), w.in(0), w.in(1)})}; }

Names masked_fill(OpWriter& w) {
  return {w.node("Where", {w.tensor("mask"), w.number(w.real("value")), w.in(0)})};
}

/// Since opset 13, ReduceSum takes its dimensions as an input; the other reductions take an
/// attribute.
std::string reduced(OpWriter& w, const std::string& x, const std::string& op_type,
                    const Integers& dims, std::int64_t keepdims) {
  if (op_type == "ReduceSum") return w.node(op_type, {x, w.list(dims)}, {{"keepdims", keepdims}});
  return w.node(op_type, {x}, {{"axes", dims}, {"keepdims", keepdims}});
}

/// The given dimensions of the input, or all.
Integers reduced_dims(OpWriter& w) {
  Integers dims(w.in_sizes(0).size());
  std::iota(dims.begin(), dims.end(), 0);
  return w.was_told("dims") ? w.integers("dims") : dims;
}

/// Reduces x, which has the sizes of the input. If other input dimensions have size 1, the output
/// shape tells whether they are kept.
std::string reduce(OpWriter& w, const std::string& x, const std::string& op_type) {
  const std::size_t rank = w.in_sizes(0).size(), left = w.out_sizes().size();
  const Integers dims = reduced_dims(w);
  if (dims.empty()) return x;
  if (left + dims.size() == rank) return reduced(w, x, op_type, dims, 0);
  const std::string kept = reduced(w, x, op_type, dims, 1);
  return left == rank ? kept : w.reshaped(kept);
}

Rule reduction(const char* op_type) {
  return [=](OpWriter& w) { return Names{reduce(w, w.in(0), op_type)}; };
}

/// The sum of the squared differences from the mean, divided by n - correction.
Names variance(OpWriter& w) {
  const std::string x = w.in(0);
  const Integers dims = reduced_dims(w);
  const std::string mean = dims.empty() ? x : reduced(w, x, "ReduceMean", dims, 1);
  const std::string difference = w.node("Sub", {x, mean});
  const std::string squares = w.node("Mul", {difference, difference});
  const std::int64_t correction = w.integer("correction");
  if (correction == 0) return {reduce(w, squares, "ReduceMean")};  // of any batch
  std::int64_t n = 1;
  for (const std::int64_t d : dims) n *= w.fixed(w.in_sizes(0)[static_cast<std::size_t>(d)]);
  const auto degrees = static_cast<double>(std::max<std::int64_t>(n - correction, 0));
  return {w.node("Div", {reduce(w, squares, "ReduceSum"), w.number(degrees)})};
}

}  // namespace

void add_elementwise_rules(Rules& rules) {
  for (const UnaryName& name : unary_names)
    if (name.onnx != nullptr) rules.emplace(name_of(name.op), unary(name.onnx));
  rules.insert({{"leaky_relu", leaky_relu},
                {"silu", silu},
                {"gelu", gelu},
                {"softmax", along_dim("Softmax")},
                {"log_softmax", along_dim("LogSoftmax")},
                {"rsqrt", rsqrt},
                {"square", square},
                {"exp2", exp2},
                {"log2", logarithm(2)},
                {"log10", logarithm(10)},
                {"expm1", expm1},
                {"log1p", log1p},
                {"erfc", erfc},
                {"trunc", trunc},
                {"clamp", clamp},
                {"hardtanh", clamp},
                {"logsigmoid", logsigmoid},
                {"add", add},
                {"sub", add},
                {"mul", binary("Mul")},
                {"div", binary("Div")},
                {"pow", pow},
                {"fmod", fmod},
                {"maximum", binary("Max")},
                {"minimum", binary("Min")},
                {"where", where},
                {"masked_fill", masked_fill},
                {"sum", reduction("ReduceSum")},
                {"mean", reduction("ReduceMean")},
                {"max", reduction("ReduceMax")},
                {"min", reduction("ReduceMin")},
                {"amax", reduction("ReduceMax")},
                {"amin", reduction("ReduceMin")},
                {"norm", reduction("ReduceL2")},
                {"logsumexp", reduction("ReduceLogSumExp")},
                {"var", variance},
                {"std", unary("Sqrt")},  // of the variance
                {"cumsum", cumsum},
                {"to(dtype)", same},  // OpWriter::in casts
                {"to(device)", same},
                {"contiguous", same},
                {"clone", same}});
}

}  // namespace rondo::io::onnx
