// Rows of the op table: arithmetic, unary functions, activations.

#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/reduced.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "extras/quantization/quantize.h"
#include "support/op_table.h"
#include "tensor/creation.h"

namespace rondo::test {
namespace {

using X = const Tensors&;

Op unary(std::string name, Tensor (*f)(const Tensor&), double low, double high,
         bool distinct = false) {
  return {.name = std::move(name), .inputs = {{{2, 3, 2, 2}, low, high, distinct}}, .f = [f](X x) {
            return f(x[0]);
          }};
}

Op binary(std::string name, Tensor (*f)(const Tensor&, const Tensor&), OpInput a, OpInput b) {
  return {.name = std::move(name), .inputs = {a, b}, .f = [f](X x) { return f(x[0], x[1]); }};
}

void arithmetic_rows(std::vector<Op>& rows) {
  const OpInput wide{{2, 3, 2, 2}, -2, 2}, row{{3, 1, 2}, -2, 2}, far{{3, 1, 2}, 0.5, 2};
  const OpInput spaced{{2, 3, 2, 2}, -2, 2, true}, shifted{{2, 3, 2, 2}, -1.95, 2.05, true};
  rows.push_back(
      {.name = "add", .inputs = {wide, row}, .f = [](X x) { return add(x[0], x[1], 0.5); }});
  rows.push_back({.name = "add.number", .inputs = {wide}, .f = [](X x) { return x[0] + 1.5; }});
  rows.push_back(
      {.name = "sub", .inputs = {row, wide}, .f = [](X x) { return sub(x[0], x[1], 2); }});
  rows.push_back({.name = "sub.number", .inputs = {wide}, .f = [](X x) { return 1.5 - x[0]; }});
  rows.push_back(binary("mul", mul, wide, row));
  rows.push_back({.name = "mul.number", .inputs = {wide}, .f = [](X x) { return 1.5 * x[0]; }});
  rows.push_back({.name = "mul.itself", .inputs = {wide}, .f = [](X x) { return x[0] * x[0]; }});
  rows.push_back(binary("div", div, wide, far));
  rows.back().scale = 16;  // 1 / b^3 in the second derivative
  rows.push_back(
      {.name = "div.number", .inputs = {far}, .f = [](X x) { return 2.0 / x[0] + x[0] / 4; }});
  rows.back().scale = 32;
  rows.push_back(binary("pow", pow, {{2, 3, 2}, 0.5, 2}, {{3, 1}, -2, 2}));
  rows.back().scale = 64;  // b (b - 1) a^(b - 2), b near -2
  rows.push_back({.name = "pow.cube", .inputs = {wide}, .f = [](X x) { return pow(x[0], 3.0); }});
  rows.push_back(
      {.name = "pow.root", .inputs = {{{3, 4}, 0.5, 2}}, .f = [](X x) { return pow(x[0], 0.5); }});
  rows.push_back(binary("maximum", maximum, spaced, shifted));
  rows.push_back(binary("minimum", minimum, spaced, shifted));
  rows.push_back(binary("atan2", atan2, {{2, 3}, 0.5, 2}, {{3}, 0.5, 2}));
  // No quotient is near an integer, where the remainder jumps.
  rows.push_back(
      binary("remainder", remainder, {{2, 3, 2, 2}, -2.35, 2.45, true}, {{3, 1, 2}, 0.99, 1.01}));
  rows.push_back(binary("fmod", fmod, {{2, 3, 2, 2}, -2.35, 2.45, true}, {{3, 1, 2}, 0.99, 1.01}));
  rows.push_back({.name = "div.trunc", .inputs = {wide, far}, .f = [](X x) {
                    return div(x[0], x[1], {.rounding_mode = "trunc"}).detach() * x[0];
                  }});
  rows.back().scale = 4;
  rows.push_back({.name = "addcmul",
                  .inputs = {wide, wide, row},
                  .f = [](X x) { return addcmul(x[0], x[1], x[2], {.value = 0.5}); },
                  .scale = 4});
  rows.push_back({.name = "addcdiv",
                  .inputs = {wide, wide, far},
                  .f = [](X x) { return addcdiv(x[0], x[1], x[2], {.value = 0.5}); },
                  .scale = 16});
  rows.push_back(binary("copysign", copysign, spaced, spaced));
  rows.push_back(binary("heaviside", heaviside, spaced, row));
  rows.push_back(binary("xlogy", xlogy, wide, {{3, 1, 2}, 0.5, 2}));
  rows.back().scale = 8;
  rows.push_back({.name = "clamp.tensors",
                  .inputs = {spaced, {{3, 1, 2}, -1.1, -0.9}, {{2}, 0.9, 1.1}},
                  .f = [](X x) { return clamp(x[0], x[1], x[2]); },
                  .length = 12});
  rows.push_back({.name = "where.number", .inputs = {wide}, .f = [](X x) {
                    Tensor at = gt(x[0], 0);
                    return where(at, x[0], 0.5) * where(at, 2, x[0]);
                  }});
  rows.push_back({.name = "where", .inputs = {wide, row}, .f = [](X x) {
                    Tensor at = zeros({2, 3, 2, 2}, {.dtype = boolean});
                    for (int i = 0; i < 24; i += 3) at.data_ptr<bool>()[i] = true;
                    at = on_device_of(x[0], at);
                    return where(at, x[0], x[1]);
                  }});
  rows.push_back({.name = "sum_to",
                  .inputs = {wide},
                  .f =
                      [](X x) {
                        return sum_to(x[0], {3, 1, 2});
                      },
                  .length = 4});
}

void unary_rows(std::vector<Op>& rows) {
  rows.push_back(unary("neg", neg, -2, 2));
  rows.push_back(unary("abs", abs, -2, 2, true));
  rows.push_back(unary("sign", sign, -2, 2, true));
  rows.push_back(unary("exp", exp, -2, 2));
  rows.push_back(unary("expm1", expm1, -2, 2));
  rows.push_back(unary("log", log, 0.5, 3));
  rows.push_back(unary("log1p", log1p, -0.5, 3));
  rows.push_back(unary("exp2", exp2, -2, 2));
  rows.push_back(unary("log2", log2, 0.5, 3));
  rows.push_back(unary("log10", log10, 0.5, 3));
  rows.push_back(unary("sqrt", sqrt, 0.5, 3));
  rows.push_back(unary("rsqrt", rsqrt, 0.5, 3));
  rows.push_back(unary("reciprocal", reciprocal, 0.5, 3));
  rows.push_back(unary("square", square, -2, 2));
  rows.push_back(unary("sin", sin, -3, 3));
  rows.push_back(unary("cos", cos, -3, 3));
  rows.push_back(unary("tan", tan, -1, 1));
  rows.push_back(unary("sinh", sinh, -2, 2));
  rows.push_back(unary("cosh", cosh, -2, 2));
  rows.push_back(unary("asin", asin, -0.75, 0.75));
  rows.push_back(unary("acos", acos, -0.75, 0.75));
  rows.push_back(unary("atan", atan, -3, 3));
  rows.push_back(unary("asinh", asinh, -3, 3));
  rows.push_back(unary("acosh", acosh, 1.5, 3));
  rows.push_back(unary("atanh", atanh, -0.75, 0.75));
  rows.push_back(unary("erf", erf, -2, 2));
  rows.push_back(unary("erfc", erfc, -2, 2));
  rows.push_back(unary("erfinv", erfinv, -0.75, 0.75));
  rows.push_back(unary("lgamma", lgamma, 0.5, 4));
  rows.push_back(unary("digamma", digamma, 0.75, 4));
  rows.push_back({.name = "polygamma", .inputs = {{{2, 3, 2, 2}, 1, 4}}, .f = [](X x) {
                    return polygamma(1, x[0]);
                  }});
  rows.push_back(unary(
      "logit", [](const Tensor& x) { return logit(x); }, 0.125, 0.875));
  rows.push_back(unary("sinc", sinc, 0.25, 1.75));
  rows.push_back(unary("deg2rad", deg2rad, -180, 180));
  rows.push_back(unary("rad2deg", rad2deg, -3, 3));
  // -2.25, -2.05, … 2.35: none is near an integer or a half.
  rows.push_back(unary("floor", floor, -2.35, 2.45, true));
  rows.push_back(unary("ceil", ceil, -2.35, 2.45, true));
  rows.push_back(unary(
      "round", [](const Tensor& x) { return round(x); }, -2.35, 2.45, true));
  rows.push_back(unary(
      "round.tenths", [](const Tensor& x) { return round(x, 1) * x; }, -2.33, 2.47, true));
  rows.push_back(unary("frac", frac, -2.35, 2.45, true));
  rows.push_back(unary("trunc", trunc, -2.35, 2.45, true));
  for (Op& op : rows) {
    if (op.name == "rsqrt" || op.name == "reciprocal" || op.name == "tan") op.scale = 16;
    if (op.name == "erfinv" || op.name == "digamma" || op.name == "polygamma" ||
        op.name == "logit" || op.name == "sinc")
      op.scale = 32;
    if (op.name == "asin" || op.name == "acos" || op.name == "atanh" || op.name == "acosh")
      op.scale = 8;
  }
  rows.push_back({.name = "clamp", .inputs = {{{2, 3, 2, 2}, -2, 2, true}}, .f = [](X x) {
                    return clamp(x[0], -1, 0.5);
                  }});
  rows.push_back({.name = "clamp_with_bounds",
                  .inputs = {{{2, 3, 2, 2}, -2, 2, true}},
                  .f = [](X x) { return clamp_with_bounds(x[0], -1, 0.5); }});
  // Steps of 2^-40 from -1 to 0.5, so that differences follow the straight-through gradient.
  constexpr double step = 0x1p-40;
  constexpr std::int64_t low = -(std::int64_t{1} << 40), high = std::int64_t{1} << 39;
  rows.push_back(
      {.name = "fake_quantize_per_tensor_affine",
       .inputs = {{{2, 3, 2, 2}, -2, 2, true}},
       .f = [](X x) { return fake_quantize_per_tensor_affine(x[0], step, 0, low, high); }});
  rows.push_back({.name = "fake_quantize_per_channel_symmetric",
                  .inputs = {{{2, 3, 2, 2}, -2, 2, true}},
                  .f = [](X x) {
                    const Tensor scale = full({2}, step, {.device = x[0].device()});
                    return fake_quantize_per_channel_symmetric(x[0], scale, low, high);
                  }});
}

void activation_rows(std::vector<Op>& rows) {
  const OpInput spaced{{2, 3, 2, 2}, -2, 2, true}, wide{{2, 3, 2, 2}, -3, 3};
  rows.push_back(unary("relu", relu, -2, 2, true));
  rows.push_back(
      {.name = "leaky_relu", .inputs = {spaced}, .f = [](X x) { return leaky_relu(x[0], 0.125); }});
  rows.push_back(unary("sigmoid", sigmoid, -4, 4));
  rows.push_back(unary("tanh", tanh, -2, 2));
  rows.push_back({.name = "gelu", .inputs = {wide}, .f = [](X x) { return gelu(x[0]); }});
  rows.push_back({.name = "gelu.tanh", .inputs = {wide}, .f = [](X x) {
                    return gelu(x[0], GeluApproximation::tanh);
                  }});
  rows.push_back(unary("silu", silu, -4, 4));
  rows.push_back(unary("softplus", softplus, -4, 4));
  for (std::int64_t dim : {0, 1, 3}) {
    std::string at = ".dim" + std::to_string(dim);
    rows.push_back({.name = "softmax" + at,
                    .inputs = {wide},
                    .f = [dim](X x) { return softmax(x[0], dim); },
                    .length = 3});
    rows.push_back({.name = "log_softmax" + at,
                    .inputs = {wide},
                    .f = [dim](X x) { return log_softmax(x[0], dim); },
                    .length = 3,
                    .scale = 6});
  }
  rows.push_back({.name = "dropout", .inputs = {wide}, .f = [](X x) {
                    Generator generator(3);
                    return dropout(x[0], 0.25, true, generator);
                  }});
}

}  // namespace

std::vector<Op> elementwise_rows() {
  std::vector<Op> rows;
  arithmetic_rows(rows);
  unary_rows(rows);
  activation_rows(rows);
  return rows;
}

}  // namespace rondo::test
