#include "support/golden_case.h"

#include <cmath>

#include "autograd/engine.h"
#include "support/golden.h"
#include "support/support.h"

namespace rondo::test {
namespace {

const Golden& goldens() {
  static const Golden golden("ops.txt");
  return golden;
}

Tensor weights(const Tensor& y) {
  Tensor w = empty(y.shape(), {.dtype = y.dtype()});
  visit_dtype(y.dtype(), [&]<class T>() {
    for (std::int64_t i = 0; i < w.numel(); ++i) {
      w.data_ptr<T>()[i] = static_cast<T>(static_cast<float>(i * 7 % 11 - 5) / 4);
    }
  });
  return w;
}

/// The goldens are f32, so no result is compared more closely than that.
void expect_close(const std::string& name, const Tensor& actual, std::int64_t length, double size) {
  Tensor expected = goldens()[name];
  if (is_floating(actual.dtype())) expected = converted(expected, actual.dtype());
  for (double value : expected.to_vector<double>()) {
    if (std::isfinite(value)) size = std::max(size, std::abs(value));
  }
  double allowed = is_floating(actual.dtype()) ? tolerance(f32, length, size) : 0;
  EXPECT_TRUE(all_close(actual, expected, allowed)) << name << " in " << actual.dtype();
}

void expect_golden_in(DType dtype, const std::string& name, const OpFunction& f,
                      std::int64_t length, double scale) {
  Tensors xs, wanted, ys, ws;
  std::vector<std::string> gradient_names;
  for (std::string i = "0"; goldens().has(name + ".in" + i); i = std::to_string(xs.size())) {
    Tensor x = goldens()[name + ".in" + i];
    if (is_floating(x.dtype())) x = converted(x, dtype);
    if (goldens().has(name + ".grad" + i)) {
      wanted.push_back(x.requires_grad_());
      gradient_names.push_back(name + ".grad" + i);
    }
    xs.push_back(x);
  }
  ASSERT_FALSE(xs.empty()) << "ops.txt has no case " << name;
  Tensors outputs = f(xs);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    expect_close(name + ".out" + std::to_string(i), outputs[i], length, scale);
    if (!outputs[i].requires_grad()) continue;
    ys.push_back(outputs[i]);
    ws.push_back(weights(outputs[i]));
  }
  EXPECT_FALSE(goldens().has(name + ".out" + std::to_string(outputs.size())));
  if (wanted.empty()) return;
  Tensors gradients = grad(ys, wanted, {.grad_outputs = ws});
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    expect_close(gradient_names[i], gradients[i], length, scale);
  }
}

}  // namespace

void expect_golden(const std::string& name, const OpFunction& f, std::int64_t length,
                   double scale) {
  for (DType dtype : {f32, f64}) expect_golden_in(dtype, name, f, length, scale);
}

}  // namespace rondo::test
