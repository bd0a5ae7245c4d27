// The autograd state of a tensor: hooks on gradients, and gradients kept for non-leaves.

#include <gmock/gmock.h>

#include "autograd/autograd_meta.h"
#include "autograd/engine.h"
#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/composed.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/subscript.h"
#include "autograd/ops/unary.h"
#include "support/errors.h"
#include "support/support.h"

namespace rondo {
namespace {

using test::leaf;

TEST(Hooks, SeeAndReplaceGradients) {
  Tensor x = leaf({2});
  Tensor y = x * 3.0;
  double seen = 0;
  HookHandle on_y = register_hook(y, [&](const Tensor& g) {
    seen = g.item<double>();
    return g * 10.0;
  });
  HookHandle on_x = register_hook(x, [](const Tensor& g) { return g + 1.0; });
  (y * 2.0).sum().backward({}, true);
  EXPECT_EQ(seen, 2);
  EXPECT_EQ(x.grad().item<double>(), 2 * 10 * 3 + 1);
  on_y.remove();
  on_x.remove();
  x.zero_grad();
  (y * 2.0).sum().backward();
  EXPECT_EQ(x.grad().item<double>(), 6);
}

TEST(Hooks, AreAlsoMethodsAndMayReturnNothing) {
  Tensor x = leaf({2});
  Tensor y = x * 3.0;
  double seen = 0;
  int accumulated = 0;
  HookHandle on_y = y.register_hook([&](const Tensor& g) { seen = g.item<double>(); });
  HookHandle on_x = x.register_hook([](const Tensor& g) { return g * 10.0; });
  HookHandle after = x.register_post_accumulate_grad_hook([&](const Tensor&) { ++accumulated; });
  (y * 2.0).sum().backward();
  EXPECT_EQ(seen, 2);
  EXPECT_EQ(x.grad().item<double>(), 60);
  EXPECT_EQ(accumulated, 1);
  EXPECT_THROW(ones({1}).register_hook([](const Tensor&) {}), AutogradError);
}

TEST(Hooks, OnALeafRunInGradToo) {
  Tensor w = leaf({2});
  HookHandle handle = register_hook(w, [](const Tensor& g) { return g * 10.0; });
  EXPECT_EQ(grad({(w * 2.0).sum()}, {w})[0].item<double>(), 20);
  EXPECT_FALSE(w.grad().defined());
}

TEST(Hooks, AccumulateHookRunsOnceForEachLeafAfterAllUses) {
  Tensor x = leaf({2});
  int calls = 0;
  HookHandle handle = register_post_accumulate_grad_hook(x, [&](const Tensor& l) {
    ++calls;
    EXPECT_EQ(l.grad().item<double>(), 5);
  });
  (x * 2.0 + x * 3.0).sum().backward();
  EXPECT_EQ(calls, 1);
}

// Each list has a second hook, which must still run after the first is removed. (AddressSanitizer
// checks that the first hook's own captures survive its removal.)
TEST(Hooks, MayRemoveThemselves) {
  Tensor x = leaf({2}), y = x * 3.0;
  std::vector<std::string> order;
  HookHandle on_y, on_x, after;
  auto once = [&order](HookHandle& handle, std::string name) {
    return [&order, &handle, name](const Tensor&) {
      handle.remove();
      order.push_back(name);
      return Tensor();
    };
  };
  auto always = [&order](const Tensor&) {
    order.push_back("always");
    return Tensor();
  };
  on_y = register_hook(y, once(on_y, "y"));
  register_hook(y, always);
  on_x = register_hook(x, once(on_x, "x"));
  register_hook(x, always);
  after = register_post_accumulate_grad_hook(x, once(after, "after"));
  register_post_accumulate_grad_hook(x, always);
  y.sum().backward({}, true);
  EXPECT_EQ(order, (std::vector<std::string>{"y", "always", "x", "always", "after", "always"}));
  order.clear();
  y.sum().backward();
  EXPECT_EQ(order, (std::vector<std::string>{"always", "always", "always"}));
}

TEST(Hooks, WhatTheyReturnIsChecked) {
  Tensor x = leaf({1, 2});
  Tensor y = x * 2.0;
  auto backward_with = [](const Tensor& on, const Tensor& from, const Tensor& replacement) {
    HookHandle handle = register_hook(on, [replacement](const Tensor&) { return replacement; });
    try {
      from.sum().backward({}, true);
    } catch (...) {
      handle.remove();
      throw;
    }
  };
  EXPECT_ERROR(backward_with(y, y, ones({3}, {.dtype = f64})), ShapeError,
               "a hook on output 0 of mul returned a gradient of shape [3] in place of one of "
               "shape [2]");
  EXPECT_ERROR(backward_with(y, y, ones({2})), DTypeError, "returned a gradient of f32");
  EXPECT_ERROR(backward_with(x, y, ones({2, 1}, {.dtype = f64})), ShapeError,
               "a hook on output 0 of accumulate_grad");
}

TEST(RetainGrad, AddsUpOverBackwards) {
  Tensor x = leaf({5}), y = x * 3.0;
  y.retain_grad();
  y.sum().backward({}, true);
  y.sum().backward();
  EXPECT_EQ(y.grad().item<double>(), 2);
  EXPECT_EQ(x.grad().item<double>(), 6);
}

TEST(RetainGrad, IsNotTheGradientThatFlowsOn) {
  Tensor x = leaf({5}), y = x * 3.0, dy = ones({1}, {.dtype = f64});
  y.retain_grad();
  y.backward(dy);
  y.grad().zero_();
  EXPECT_EQ(dy.item<double>(), 1);
}

TEST(RetainGrad, CountsOnceAndComesAfterOtherHooks) {
  Tensor x = leaf({5}), y = x * 3.0;
  y.retain_grad();
  y.retain_grad();
  HookHandle doubled = register_hook(y, [](const Tensor& grad) { return grad * 2.0; });
  y.sum().backward();
  EXPECT_EQ(y.grad().item<double>(), 2);
  EXPECT_EQ(x.grad().item<double>(), 6);
}

TEST(RetainGrad, FollowsAWriteInPlace) {
  Tensor x = leaf({5, 7}), y = x * 3.0;
  y.retain_grad();
  HookHandle doubled = register_hook(y, [](const Tensor& grad) { return grad * 2.0; });
  y.mul_(scalar(2.0, {.dtype = f64}));
  y.add_(x);
  (y * 5.0).sum().backward();
  EXPECT_EQ(y.grad().to_vector<double>(), (std::vector<double>{5, 5}));
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{65, 65}));  // the hook stays
}

TEST(Printing, SaysWhereATensorIsOnTheTape) {
  auto text = [](const Tensor& x) { return concat(x); };
  Tensor w = tensor<float>({2});
  EXPECT_EQ(text(w), "tensor([2.])");
  w.requires_grad_();
  EXPECT_EQ(text(w), "tensor([2.], requires_grad=True)");
  EXPECT_EQ(text(w * 2), "tensor([4.], grad_fn=<MulBackward>)");
  EXPECT_EQ(text((w * 2).to(f64)), "tensor([4.], dtype=f64, grad_fn=<ToBackward>)");
  EXPECT_EQ(text(index_select(w, 0, tensor<std::int64_t>({0}))),
            "tensor([2.], grad_fn=<IndexSelectBackward>)");
  EXPECT_EQ(text(w.detach()), "tensor([2.])");
  // A line that would be too long is broken at the same place as in PyTorch.
  std::string zeros_text = text(zeros({40}).requires_grad_());
  EXPECT_NE(zeros_text.find("0.],\n       requires_grad=True)"), std::string::npos) << zeros_text;
}

TEST(Variable, UseOfAnUndefinedTensorNamesTheOp) {
  const Tensor x = ones({2, 2}), none;
  EXPECT_ERROR(matmul(x, none), Error, "matmul: use of an undefined tensor");
  EXPECT_ERROR(sum(none), Error, "sum: use of an undefined tensor");
  EXPECT_ERROR(cat({x, none}), Error, "cat: use of an undefined tensor");
  EXPECT_ERROR(none.shape(), Error,
               "shape: use of an undefined tensor; assign a tensor to it first");
  EXPECT_ERROR(none.size(0), Error, "size: use of an undefined tensor");
  EXPECT_ERROR(none.dtype(), Error, "dtype: use of an undefined tensor");
  EXPECT_ERROR(none.data_ptr<float>(), Error, "use of an undefined tensor");
  EXPECT_ERROR(none.t(), Error, "t: use of an undefined tensor");
  EXPECT_ERROR(none.T(), Error, "T: use of an undefined tensor");
  EXPECT_ERROR(none.squeeze(), Error, "squeeze: use of an undefined tensor");
  EXPECT_ERROR(none.repeat({2}), Error, "repeat: use of an undefined tensor");
  EXPECT_ERROR(none.relu_(), Error, "relu_: the tensor is undefined");
  EXPECT_ERROR(none.backward(), Error, "backward: the tensor is undefined");
  EXPECT_ERROR(none.grad(), Error, "grad: use of an undefined tensor");
  EXPECT_ERROR(none.requires_grad_(), Error, "requires_grad_: use of an undefined tensor");
  EXPECT_ERROR(none.detach(), Error, "detach: use of an undefined tensor");
  EXPECT_ERROR(none.item(), Error, "item: use of an undefined tensor");
  EXPECT_ERROR(none.to_vector(), Error, "to_vector: use of an undefined tensor");
  EXPECT_ERROR(none.argmax(1), Error, "argmax: use of an undefined tensor");
  EXPECT_ERROR(zeros_like(none), Error, "zeros_like: use of an undefined tensor");
  EXPECT_ERROR(rand_like(none), Error, "rand_like: use of an undefined tensor");
  EXPECT_ERROR(argsort(none), Error, "argsort: use of an undefined tensor");
  EXPECT_ERROR(nonzero(none), Error, "nonzero: ");
  EXPECT_ERROR(all(none), Error, "all: use of an undefined tensor");
  EXPECT_ERROR(allclose(none, x), Error, "allclose: use of an undefined tensor");
  EXPECT_ERROR(equal(none, x), Error, "equal: use of an undefined tensor");
  EXPECT_ERROR(x + none, Error, "add: the right operand is undefined; assign a tensor to it first");
  EXPECT_ERROR(none * x, Error, "mul: the left operand is undefined");
  EXPECT_ERROR(where(none, x, x), Error, "where: the condition is undefined");
  EXPECT_ERROR(x * Tensor::undefined("it was moved away"), Error,
               "mul: the right operand is undefined: it was moved away");
}

/// Element-wise ops open no OpRange: each names itself.
TEST(Variable, ElementwiseOpsNameThemselvesIfAnOperandIsUndefined) {
  const Tensor none;
  using F = std::function<Tensor(const Tensor&)>;
  const Tensor x = ones({2}), bytes = ones({2}, {.dtype = u8});
  const std::vector<std::pair<std::string, F>> ops = {
      {"sub", [&](auto& n) { return x - n; }},
      {"div", [&](auto& n) { return n / x; }},
      {"mul", [](auto& n) { return n * 2; }},
      {"div", [](auto& n) { return 1 / n; }},
      {"pow", [](auto& n) { return pow(n, 2); }},
      {"remainder", [&](auto& n) { return x % n; }},
      {"floor_divide", [&](auto& n) { return floor_divide(bytes, n); }},
      {"maximum", [&](auto& n) { return maximum(x, n); }},
      {"atan2", [&](auto& n) { return atan2(n, x); }},
      {"hypot", [&](auto& n) { return hypot(x, n); }},
      {"eq", [&](auto& n) { return x == n; }},
      {"lt", [](auto& n) { return n < 3; }},
      {"logical_and", [&](auto& n) { return logical_and(x, n); }},
      {"bitwise_or", [&](auto& n) { return bytes | n; }},
      {"bitwise_left_shift", [](auto& n) { return bitwise_left_shift(n, 1); }},
      {"where", [&](auto& n) { return where(x > 0, x, n); }},
      {"where", [&](auto& n) { return where(n, 1, 0); }},
      {"exp", [](auto& n) { return exp(n); }},
      {"neg", [](auto& n) { return -n; }},
      {"abs", [](auto& n) { return abs(n); }},
      {"round", [](auto& n) { return round(n); }},
      {"isnan", [](auto& n) { return isnan(n); }},
      {"logical_not", [](auto& n) { return logical_not(n); }},
      {"clamp", [](auto& n) { return clamp(n, 0, 1); }},
      {"clamp_min", [](auto& n) { return clamp_min(n, 0); }},
      {"nan_to_num", [](auto& n) { return nan_to_num(n); }},
      {"relu", [](auto& n) { return relu(n); }},
      {"sigmoid", [](auto& n) { return sigmoid(n); }},
      {"elu", [](auto& n) { return elu(n); }},
      {"hardtanh", [](auto& n) { return hardtanh(n); }},
      {"masked_fill", [&](auto& n) { return masked_fill(x, n, 0); }},
      {"add_", [&](auto& n) { return x.add_(n); }},
      {"mul_", [&](auto& n) { return n.mul_(x); }},
      {"sub_", [&](auto& n) { return x.sub_(n); }},
      {"copy_", [&](auto& n) { return x.copy_(n); }},
      {"fill_", [](auto& n) { return n.fill_(1); }},
  };
  for (const auto& [name, f] : ops)
    EXPECT_THAT(test::message_of([&, &f = f] { f(none); }), ::testing::StartsWith(name + ": "))
        << name;
}

}  // namespace
}  // namespace rondo
