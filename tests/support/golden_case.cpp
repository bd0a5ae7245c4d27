#include "support/golden_case.h"

#include <cmath>

#include "autograd/engine.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/reduce.h"
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

namespace {

void expect_case_in(DType dtype, const Golden& golden, const std::string& name,
                    const std::function<Tensor(const Tensors&)>& f, std::int64_t length,
                    double scale) {
  SCOPED_TRACE(concat(name, " in ", dtype));
  Tensors xs, leaves, wanted;
  while (golden.has(concat(name, '.', xs.size()))) {
    Tensor x = golden[concat(name, '.', xs.size())];
    if (is_floating(x.dtype())) x = x.to(dtype).clone();
    const std::string gradient = concat(name, ".d", xs.size());
    if (golden.has(gradient)) {
      leaves.push_back(x.requires_grad_());
      wanted.push_back(golden[gradient].to(dtype));
    }
    xs.push_back(x);
  }
  ASSERT_FALSE(xs.empty());
  const auto expect_near = [&](const Tensor& ours, const Tensor& theirs) {
    double size = scale;
    for (const double value : theirs.to_vector<double>())
      if (std::isfinite(value)) size = std::max(size, std::abs(value));
    EXPECT_TRUE(all_close(ours, theirs, tolerance(dtype, length, size)));
  };
  const Tensor y = f(xs), theirs = golden[name + ".y"];
  expect_near(y.detach(), is_floating(theirs.dtype()) ? theirs.to(dtype) : theirs);
  if (leaves.empty()) return;
  const Tensor w = ((arange(y.numel(), {.dtype = dtype}) % 7 - 3) / 2).reshape(y.shape());
  const Tensors gradients = grad({sum(y * w)}, leaves, {.allow_unused = true});
  for (std::size_t i = 0; i < leaves.size(); ++i)
    expect_near(gradients[i].defined() ? gradients[i] : zeros_like(leaves[i]), wanted[i]);
}

}  // namespace

void expect_case(const Golden& golden, const std::string& name,
                 const std::function<Tensor(const Tensors&)>& f, std::int64_t length,
                 double scale) {
  for (const DType dtype : {f64, f32}) expect_case_in(dtype, golden, name, f, length, scale);
}

void expect_cases(const char* file, const GoldenCases& cases, std::int64_t length) {
  const Golden golden(file);
  for (const auto& [name, f] : cases) expect_case_in(f64, golden, name, f, length, 4);
}

}  // namespace rondo::test
