// Operations that overwrite their tensor: what they record, their errors, and operands that overlap
// the target. Expected numbers are PyTorch's, or follow from the definition.

#include <numeric>

#include "autograd/engine.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/subscript.h"
#include "autograd/record.h"
#include "support/errors.h"
#include "support/support.h"
#include "tensor/creation.h"

namespace rondo {
namespace {

using test::leaf;
std::vector<double> values_of(const Tensor& x) { return x.to_vector<double>(); }
using Values = std::vector<double>;

TEST(InPlace, OnALeafIsRefused) {
  Tensor x = leaf({2});
  EXPECT_THROW(x.zero_(), AutogradError);
  NoGradGuard guard;
  x.zero_();
  EXPECT_EQ(x.item<double>(), 0);
}

TEST(InPlace, OpsAreRecorded) {
  Tensor x = leaf({1, 2}), w = leaf({3, 4});
  Tensor y = x * 1.0;
  y.mul_(w);
  y.add_(x, 2);
  y.sum().backward();
  EXPECT_EQ(values_of(x.grad()), (Values{5, 6}));
  EXPECT_EQ(values_of(w.grad()), (Values{1, 2}));
}

/// Their derivatives need x as it was.
TEST(InPlace, OpsThatSaveTheirInputAreRecorded) {
  const auto gradient = [](const auto& op) {
    const Tensor x = leaf({0.5, -2});
    const Tensor y = x * 1.0;
    op(y);
    y.sum().backward();
    return values_of(x.grad());
  };
  EXPECT_EQ(gradient([](const Tensor& y) { y.clamp_(-1, 1); }), (Values{1, 0}));
  EXPECT_EQ(gradient([](const Tensor& y) { y.clamp_min_(0); }), (Values{1, 0}));
  EXPECT_EQ(gradient([](const Tensor& y) { y.clamp_max_(0); }), (Values{0, 1}));
  EXPECT_EQ(gradient([](const Tensor& y) { y.abs_(); }), (Values{1, -1}));
  EXPECT_EQ(gradient([](const Tensor& y) { y.pow_(3); }), (Values{0.75, 12}));
  EXPECT_EQ(gradient([](const Tensor& y) { y.abs_().log_(); }), (Values{2, -0.5}));
}

TEST(InPlace, IntegersDoNotFitIntoBools) {
  const Tensor b = tensor<bool>({true, false}), n = tensor<std::int64_t>({1, 2});
  EXPECT_ERROR(b.add_(n), DTypeError, "add_: a result of i64 does not fit into a tensor of bool");
  EXPECT_ERROR(b.mul_(2), DTypeError, "mul_: a result of i64 does not fit into a tensor of bool");
  EXPECT_ERROR(b.pow_(2), DTypeError, "pow_");
  b.add_(tensor<bool>({false, true}));
  EXPECT_EQ(b.to_vector<int>(), (std::vector<int>{1, 1}));
}

TEST(InPlace, CopyCutsTheOldElementsOff) {
  Tensor x = leaf({1, 2}), s = leaf({5});
  Tensor y = x * 1.0;
  y.copy_(s);
  (y * y).sum().backward();
  EXPECT_EQ(values_of(x.grad()), (Values{0, 0}));
  EXPECT_EQ(s.grad().item<double>(), 20);
}

TEST(InPlace, MultiplyingByItself) {
  Tensor x = leaf({3});
  Tensor y = x * 1.0;
  y.mul_(y);
  EXPECT_EQ(y.item<double>(), 9);
  y.sum().backward();
  EXPECT_EQ(x.grad().item<double>(), 6);
}

TEST(InPlace, MultiplyingByItselfLeavesNoCycle) {
  Tensor x = leaf({3});
  std::weak_ptr<TensorImpl> weak;
  {
    Tensor y = x * 1.0;
    y.mul_(y);
    y.add_(y);
    weak = y.impl_ptr();
  }
  EXPECT_TRUE(weak.expired());
}

TEST(InPlace, MultiplyingByTheSameElementsOffTheTape) {
  Tensor x = leaf({3});
  Tensor y = x * 1.0;
  y.mul_(y.detach());  // the factor is a constant: 3
  y.sum().backward();
  EXPECT_EQ(x.grad().item<double>(), 3);
}

TEST(InPlace, MulHasMixedSecondDerivatives) {
  Tensor x = leaf({3}), w = leaf({5});
  Tensor y = x * 1.0;
  y.mul_(w);
  Tensor dw = grad({y.sum()}, {w}, {.create_graph = true})[0];  // x
  EXPECT_EQ(grad({dw.sum()}, {x})[0].item<double>(), 1);
}

TEST(InPlace, OperandsMayOverlapTheTarget) {
  Tensor x = arange(4, {.dtype = f64}).reshape({2, 2});
  x.add_(x.t());
  EXPECT_EQ(values_of(x), (Values{0, 3, 3, 6}));
  Tensor m = arange(4, {.dtype = f64}).reshape({2, 2});
  m.copy_(m.t());
  EXPECT_EQ(values_of(m), (Values{0, 2, 1, 3}));
  m.mul_(m.t());
  EXPECT_EQ(values_of(m), (Values{0, 2, 2, 9}));
  for (std::int64_t n : {4, 5000}) {  // within a row block, and across blocks and threads
    Tensor line = arange(n, {.dtype = f64}), expected = arange(n, {.dtype = f64});
    for (std::int64_t i = 0; i + 1 < n; ++i) expected.data_ptr<double>()[i + 1] += double(i);
    line.narrow(0, 1, n - 1).add_(line.narrow(0, 0, n - 1));
    EXPECT_TRUE(test::identical(line, expected));
  }
}

TEST(InPlace, OperandsOfFromBlobMayOverlapTheTarget) {
  std::vector<float> memory(2000);
  std::iota(memory.begin(), memory.end(), 0.0f);
  const Tensor source = from_blob(memory.data(), {1999}, f32),
               target = from_blob(memory.data() + 1, {1999}, f32);
  target.copy_(source);
  EXPECT_EQ(memory[0], 0);
  for (std::size_t i = 1; i < memory.size(); ++i) ASSERT_EQ(memory[i], i - 1.0f) << i;
}

TEST(InPlace, AnOverlappingOperandKeepsItsGradient) {
  Tensor x = leaf({1, 2, 3, 4});
  Tensor y = reshape(x * 1.0, {2, 2}).clone();
  y.add_(y.t());  // y + y^T: each element counts twice
  y.sum().backward();
  EXPECT_EQ(values_of(x.grad()), (Values{2, 2, 2, 2}));
}

TEST(InPlace, ATargetThatOverlapsItselfIsRefused) {
  Tensor row = zeros({1}).expand({4});
  const char* text =
      "several elements of the tensor, of shape [4] and strides [0], share one address";
  EXPECT_ERROR(row.add_(ones({4})), Error, text);
  EXPECT_ERROR(row.mul_(ones({4})), Error, text);
  EXPECT_ERROR(row.copy_(ones({4})), Error, text);
  row.fill_(3);  // the same number everywhere
  EXPECT_EQ(values_of(row), (Values{3, 3, 3, 3}));
  EXPECT_EQ(zeros({1}).expand({1}).add_(ones({1})).item(), 1);
}

TEST(InPlace, AViewThatNobodyElseSeesIsAsGoodAsItsBase) {
  Tensor w = leaf({5}), only = zeros({4}, {.dtype = f64}).reshape({2, 2});
  only.copy_(w);
  only.sum().backward();
  EXPECT_EQ(w.grad().item<double>(), 4);
}

TEST(InPlace, WhatDoesNotFitIsRefused) {
  Tensor x = tensor<std::int64_t>({1, 2});
  EXPECT_ERROR(x.add_(x, 0.5), DTypeError, "add_: alpha is 0.5");
  EXPECT_THROW(x.add_(ones({2})), DTypeError);
  EXPECT_ERROR(zeros({1}, {.dtype = u8}).fill_(300), Error,
               "fill_: the number 300 does not fit into u8");
  const Tensor longer = zeros({3}, {.dtype = i64});
  EXPECT_ERROR(x.add_(longer), ShapeError, "add_: shape [3] does not expand to [2]");
  EXPECT_ERROR(x.mul_(longer), ShapeError, "mul_: shape [3] does not expand to [2]");
  EXPECT_ERROR(x.copy_(longer), ShapeError, "copy_: shape [3] does not expand to [2]");
  EXPECT_ERROR(x.scatter_(0, longer + 5, longer), ShapeError, "scatter_: ");
}

/// Not the ops that an in-place op computes.
TEST(InPlace, ErrorsNameTheOpThatWasCalled) {
  const Tensor x = ones({4, 3}), seven = ones({7}), none;
  const Tensor at = zeros({2}, {.dtype = i64}), bad = at + 9, mask = ones({5}, {.dtype = boolean});
  const auto said = [](const auto& f) { return test::message_of(f); };
  for (const auto& [op, message] : std::vector<std::pair<std::string, std::string>>{
           {"clamp_", said([&] { none.clamp_(0, 1); })},
           {"sqrt_", said([&] { at.sqrt_(); })},
           {"relu_", said([&] { leaf({1}).relu_(); })},
           {"exp_", said([&] { ones({1}).expand({3}).exp_(); })},
           {"lerp_", said([&] { x.lerp_(seven, 0.5); })},
           {"addcmul_", said([&] { x.addcmul_(seven, x); })},
           {"masked_fill_", said([&] { x.masked_fill_(mask, 0); })},
           {"masked_fill_", said([&] { (leaf({1}) * x).masked_fill_(mask, 0); })},
           {"scatter_", said([&] {
              x.scatter_(0, bad.reshape({1, 2}), 1);
            })},
           {"scatter_", said([&] { x.scatter_(0, none, 1); })},
           {"scatter_", said([&] {
              x.scatter_(5, at.reshape({1, 2}), x);
            })},
           {"scatter_add_", said([&] {
              x.scatter_add_(0, at.reshape({1, 2}), ones({1}));
            })},
           {"index_add_", said([&] {
              x.index_add_(0, bad, ones({2, 3}));
            })},
           {"index_copy_", said([&] {
              x.index_copy_(0, at, ones({2, 4}));
            })},
           {"index_fill_", said([&] { x.index_fill_(3, at, 0); })},
           {"index_fill_", said([&] { x.index_fill_(0, bad, 0); })},
           {"index_put_", said([&] { x.index_put_({9}, 1); })},
           {"index_put_", said([&] { x.index_put_({Slice(0, 4, 0)}, 1); })},
           {"index_put_", said([&] { x.index_put_({0}, seven); })},
           {"index_put_", said([&] { x.index_put_({bad}, 1); })},
           {"index_put_", said([&] { zeros({2}, {.dtype = u8}).index_put_({0}, 300); })},
           {"index", said([&] {
              x.index({0, 9});
            })}}) {
    EXPECT_TRUE(message.starts_with(op + ": ")) << op << ": " << message;
    for (const char* inner : {"clamp:", "sqrt:", "relu:", "lerp:", "addcmul:", "masked_fill:",
                              "scatter:", "scatter_add:", "index_add:", "index_copy:",
                              "index_fill:", "select:", "slice:", "copy_:", "expand:", "fill_:"})
      EXPECT_EQ(message.find(std::string(" ") + inner), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace rondo
