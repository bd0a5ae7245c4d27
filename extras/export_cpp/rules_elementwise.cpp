// Rules for element-wise ops and for sums.

#include <algorithm>
#include <cmath>

#include "extras/export_cpp/lowering.h"

namespace rondo::io::detail {
namespace {

/// a + alpha b.
void add_scaled(Lowering& l) {
  const double alpha = l.real("alpha");
  if (std::abs(alpha) == 1) return l.binary(alpha > 0 ? "$a + $b" : "$a - $b");
  l.binary(concat("$a + ", number(alpha), " * $b"));
}

void power(Lowering& l) {
  if (!l.node().attributes.contains("exponent")) return l.binary("std::pow($a, $b)");
  const double exponent = l.real("exponent");
  l.unary(exponent == 2 ? "v * v" : concat("std::pow(v, ", number(exponent), ")"));
}

void clamp(Lowering& l) {
  const std::string low = number(l.real("low")), high = number(l.real("high"));
  std::string expression = "v";  // NaN stays
  if (!std::isinf(l.real("high"))) expression = concat("v > ", high, " ? ", high, " : v");
  if (!std::isinf(l.real("low"))) expression = concat("v < ", low, " ? ", low, " : ", expression);
  l.unary(expression);
}

void gelu(Lowering& l) {
  l.unary(l.attribute<std::string>("approximation") == "none"
              ? "0.5f * v * (1.0f + std::erf(v * 0.707106781f))"
              : "0.5f * v * (1.0f + std::tanh(0.797884561f * (v + 0.044715f * v * v * v)))");
}

void masked_fill(Lowering& l) {
  const Tensor mask = l.attribute<Tensor>("mask");
  const StridedLayout layout(
      l.result(), {strides_in(l.shape(0), l.result()), strides_in(mask.shape(), l.result())});
  Step& step = l.add("combine", "", {l.in(), l.weights(mask.to(f32))}, l.result());
  step.op = concat("b != 0 ? ", number(l.real("value")), " : a");
  step.in_place = true;
  step.numbers = list(StridedLayout::braces(layout.sizes), StridedLayout::braces(layout.strides[0]),
                      StridedLayout::braces(layout.strides[1]));
}

/// Folds adjacent dimensions by an expression of a and b.
void fold(Lowering& l, const char* expression, bool mean = false) {
  const Dims x = l.shape(0);
  Dims dims;
  if (l.node().attributes.contains("dims"))
    dims = l.integers("dims");
  else
    for (Int d = 0; d < x.size(); ++d) dims.push_back(d);
  std::vector<Int> folded;  // those of size 1 need no step
  for (const Int d : dims)
    if (x[d] != 1) folded.push_back(d);
  std::sort(folded.begin(), folded.end());
  if (folded.empty()) return l.same();
  const Int begin = folded.front(), end = folded.back() + 1, n = product(x, begin, end);
  Int all = 1;
  for (const Int d : folded) all *= x[d];
  require(all == n, place_of(l.node()),
          " reduces dimensions that are not adjacent, which has no C++ form in rondo");
  Step& step = l.add("fold", "", {l.in()}, l.result());
  step.op = expression;
  if (mean) step.then.push_back(concat("v / ", number(static_cast<double>(n))));
  step.numbers = list(product(x, 0, begin), n, product(x, end, x.size()));
}

}  // namespace

void add_elementwise_rules(Rules& rules) {
  const auto unary = [](const char* expression) {
    return [=](Lowering& l) { l.unary(expression); };
  };
  const auto binary = [](const char* expression) {
    return [=](Lowering& l) { l.binary(expression); };
  };
  const auto folds = [](const char* expression, bool mean = false) {
    return [=](Lowering& l) { fold(l, expression, mean); };
  };
  static const char *greater = "a > b || a != a ? a : b", *less = "a < b || a != a ? a : b";
  rules.insert(
      {{"relu", unary("v < 0.0f ? 0.0f : v")},
       {"sigmoid", unary("1.0f / (1.0f + std::exp(-v))")},
       {"silu", unary("v / (1.0f + std::exp(-v))")},
       {"tanh", unary("std::tanh(v)")},
       {"exp", unary("std::exp(v)")},
       {"expm1", unary("std::expm1(v)")},
       {"log", unary("std::log(v)")},
       {"log1p", unary("std::log1p(v)")},
       {"sqrt", unary("std::sqrt(v)")},
       {"rsqrt", unary("1.0f / std::sqrt(v)")},
       {"reciprocal", unary("1.0f / v")},
       {"neg", unary("-v")},
       {"abs", unary("std::fabs(v)")},
       {"square", unary("v * v")},
       {"erf", unary("std::erf(v)")},
       {"sin", unary("std::sin(v)")},
       {"cos", unary("std::cos(v)")},
       {"softplus", unary("std::max(v, 0.0f) + std::log1p(std::exp(-std::fabs(v)))")},
       {"logsigmoid", unary("std::min(v, 0.0f) - std::log1p(std::exp(-std::fabs(v)))")},
       {"leaky_relu",
        [](Lowering& l) { l.unary(concat("v < 0.0f ? ", number(l.real("slope")), " * v : v")); }},
       {"gelu", gelu},
       {"clamp", clamp},
       {"hardtanh", clamp},
       {"pow", power},
       {"add", add_scaled},
       {"sub", add_scaled},
       {"mul", binary("$a * $b")},
       {"div", binary("$a / $b")},
       {"maximum", binary("$a > $b || $a != $a ? $a : $b")},
       {"minimum", binary("$a < $b || $a != $a ? $a : $b")},
       {"masked_fill", masked_fill},
       {"sum", folds("a + b")},
       {"mean", folds("a + b", true)},
       {"amax", folds(greater)},
       {"amin", folds(less)}});
}

}  // namespace rondo::io::detail
