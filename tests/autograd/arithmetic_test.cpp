// Arithmetic cases that the op table (smooth, generic numbers) does not cover: numbers next to
// 16-bit floats, integers, ties, NaN and infinities. Expected numbers are PyTorch's.

#include "autograd/ops/arithmetic.h"

#include <cmath>
#include <functional>
#include <limits>

#include "autograd/autograd_meta.h"
#include "autograd/engine.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/unary.h"
#include "support/errors.h"
#include "support/support.h"

namespace rondo {
namespace {

using test::all_close;
using Values = std::vector<double>;

constexpr double inf = INFINITY;

Tensor f16_of(std::vector<double> values) { return tensor(values).to(f16); }
using test::leaf;

/// Gradients of sum(f(a, b)). NaN and numbers compare as different.
Tensors gradients(Tensor (*f)(const Tensor&, const Tensor&), Values a, Values b, Values dy = {}) {
  Tensor x = leaf(a), y = leaf(b);
  Tensor z = f(x, y);
  return grad({z}, {x, y}, {.grad_outputs = {dy.empty() ? ones_like(z) : tensor(dy)}});
}

TEST(Arithmetic, NumbersAreNotRoundedToSixteenBits) {
  Tensor x = f16_of({60000, 0.5});
  double eps = test::tolerance(f16) / 4;
  EXPECT_TRUE(all_close(x * 1e-8, f16_of({6e-4, 0}), 0, eps));
  EXPECT_EQ((x * 65536)[1].item<double>(), 32768);
  EXPECT_TRUE(all_close(x / 1e5, f16_of({0.6, 5e-6}), 1e-7, eps));
  EXPECT_TRUE(all_close(1e5 / x, f16_of({1.6667, inf}), 0, 4 * eps));
  EXPECT_TRUE(all_close(x * scalar(1e-8), f16_of({6e-4, 0}), 0, eps));
  EXPECT_TRUE(all_close(x / scalar(1e5), f16_of({0.6, 5e-6}), 1e-7, eps));
  EXPECT_EQ((f16_of({-65504}) + 65505.0).item<double>(), 1);
  EXPECT_EQ((65505.0 - f16_of({65504})).item<double>(), 1);
  EXPECT_EQ((x.to(bf16) * 1e-8).dtype(), bf16);
  // The derivative is the exact number, not the rounded one.
  Tensor w = f16_of({1}).requires_grad_();
  (w * 1e-5).backward(f16_of({60000}));
  EXPECT_NEAR(w.grad().item<double>(), 0.6, 1e-3);
}

TEST(Arithmetic, ComparisonsRoundTheNumber) {
  EXPECT_TRUE(eq(f16_of({0.1}), 0.1).item<bool>());
  Tensor x_in_place = f16_of({60000});
  EXPECT_NEAR(x_in_place.mul_(scalar(1e-8f)).item<double>(), 6e-4, 1e-6);
  EXPECT_TRUE(lt(f16_of({60000}), 65536).item<bool>());
  EXPECT_FALSE(lt(f16_of({0}), 1e-9).item<bool>());
}

TEST(Arithmetic, NumbersWrapAroundInIntegers) {
  EXPECT_EQ((tensor<std::uint8_t>({1}) + 300).item<int>(), 45);
  EXPECT_EQ((tensor<std::int8_t>({1}) + 200).item<int>(), -55);
  EXPECT_EQ(sub(tensor<std::uint8_t>({5}), tensor<std::uint8_t>({1}), -1).item<int>(), 6);
  EXPECT_THROW(sub(tensor<std::int64_t>({5}), tensor<std::int64_t>({1}), 0.5), DTypeError);
}

/// A quotient is a float, so its number need not fit the integers.
TEST(Arithmetic, IntegersAreDividedByNumbersThatTheirDtypeLacks) {
  const Tensor bytes = tensor<std::uint8_t>({0, 128, 255}), small = tensor<std::int8_t>({1, 2, 4});
  EXPECT_EQ((bytes / 256).to_vector(), (std::vector<float>{0, 0.5F, 255 / 256.0F}));
  EXPECT_EQ((bytes / -1).to_vector(), (std::vector<float>{-0.0F, -128, -255}));
  EXPECT_EQ((1024 / small).to_vector(), (std::vector<float>{1024, 512, 256}));
  EXPECT_EQ((small / (std::int64_t{1} << 40)).to_vector()[0], 0x1p-40F);
  EXPECT_EQ(div(small, 128).to_vector()[0], 1 / 128.0F);
}

/// The gradient of b needs log a in the precision of the result.
TEST(Arithmetic, PowersOfMixedDtypes) {
  const Tensor b = full({1}, 2.0F).requires_grad_();
  pow(full({1}, 3.0, {.dtype = bf16}), b).sum().backward();
  EXPECT_FLOAT_EQ(b.grad().item<float>(), static_cast<float>(9 * std::log(3.0)));
  const Tensor wide = full({1}, 2.0, {.dtype = f64}).requires_grad_();
  pow(tensor<std::int64_t>({3}), wide).sum().backward();
  EXPECT_DOUBLE_EQ(wide.grad().item<double>(), 9 * std::log(3.0));
}

TEST(Arithmetic, NumbersThatWhereChoosesMustFit) {
  const Tensor small = tensor<std::int8_t>({1, 2}), yes = tensor<bool>({true, false});
  EXPECT_ERROR(where(yes, small, 300), Error, "300");
  EXPECT_ERROR(where(yes, 300, small), Error, "300");
  EXPECT_EQ(where(yes, small, 2.5).dtype(), f32);
}

TEST(Arithmetic, BoolsAreNotSubtracted) {
  const Tensor mask = zeros({2}, {.dtype = boolean}), x = ones({2});
  for (const auto& subtract :
       std::vector<std::function<Tensor()>>{[&] { return mask - mask; }, [&] { return x - mask; },
                                            [&] { return 1 - mask; }, [&] { return mask - 1; }})
    EXPECT_ERROR(subtract(), DTypeError, "a bool cannot be subtracted");
}

TEST(Arithmetic, SubNamesItself) {
  Tensor x = leaf({1, 2});
  EXPECT_STREQ(autograd_meta(x - x).grad_fn->name(), "sub");
  EXPECT_ERROR(sub(zeros({2}, {.dtype = i64}), ones({2}, {.dtype = i64}), 0.5), DTypeError,
               "sub: alpha is 0.5");
}

TEST(Arithmetic, FloorDivideIsPythons) {
  const double nan = NAN;
  Values a = {1, 1, inf, -1, 5, 0, -0.0, 1, -1, 7, -7, nan, -1, 6};
  Values b = {0.1, -inf, 2, inf, inf, 3, 3, 0, 0, -2, 2, 1, 3, 0.1};
  Values quotients = {9, -1, nan, -1, 0, 0, -0.0, inf, -inf, -4, -4, nan, -1, 59};
  Values rests = {0.09999999999999995, -inf, nan, inf, 5, 0, -0.0, nan, nan, -1, 1, nan, 2,
                  0.09999999999999967};
  EXPECT_TRUE(all_close(floor_divide(tensor(a), tensor(b)), tensor(quotients), 0));
  EXPECT_TRUE(all_close(remainder(tensor(a), tensor(b)), tensor(rests), 0));
  EXPECT_EQ(floor_divide(tensor<float>({1}), tensor<float>({0.1f})).item(), 9);
  EXPECT_TRUE(std::signbit(floor_divide(tensor(a), tensor(b))[6].item<double>()));
}

TEST(Arithmetic, PowersOfIntegersAreIntegers) {
  Tensor x = tensor<std::int64_t>({3, -3});
  EXPECT_EQ(pow(x, 2).dtype(), i64);
  EXPECT_EQ(pow(x, 2).to_vector<int>(), (std::vector<int>{9, 9}));
  EXPECT_EQ(pow(x, 2.0).dtype(), f32);
  EXPECT_EQ(pow(x.to(u8), 2).dtype(), u8);
  EXPECT_EQ(pow(tensor<bool>({true}), 2).dtype(), i64);
  EXPECT_EQ(pow(tensor<std::int64_t>({2}), 63).item<std::int64_t>(),
            std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(pow(tensor<std::int64_t>({4}), 0.5).item(), 2);
  EXPECT_ERROR(pow(x, -1), Error, "pow: integers have no power of -1");
  EXPECT_EQ(pow(tensor<std::int64_t>({2, 1}), tensor<std::int64_t>({-1, -1})).to_vector<int>(),
            (std::vector<int>{0, 1}));
}

TEST(Arithmetic, Atan2HasNoGradientAtTheOrigin) {
  Tensors g = gradients(atan2, {0, 0, -0.0}, {0, 1, -0.0});
  EXPECT_EQ(g[0].to_vector<double>(), (Values{0, 1, 0}));
  EXPECT_EQ(g[1].to_vector<double>(), (Values{0, 0, 0}));
}

TEST(Arithmetic, ExtremesShareTheirGradientBesideNaN) {
  for (auto f : {maximum, minimum}) {
    Tensors g = gradients(f, {NAN, 1, NAN, 2}, {1, NAN, NAN, 2});
    EXPECT_EQ(g[0].to_vector<double>(), (Values{1, 1, 1, 0.5}));
    EXPECT_EQ(g[1].to_vector<double>(), (Values{1, 1, 1, 0.5}));
  }
  Tensors g = gradients(maximum, {3, 1}, {1, 3}, {inf, inf});
  EXPECT_EQ(g[0].to_vector<double>(), (Values{inf, 0}));
  EXPECT_EQ(g[1].to_vector<double>(), (Values{0, inf}));
}

TEST(Arithmetic, WhereNoticesAModifiedCondition) {
  Tensor x = leaf({1, 2}), condition = tensor<bool>({true, false});
  Tensor y = where(condition, x, x * 2.0);
  condition.fill_(true);
  EXPECT_ERROR(y.sum().backward(), AutogradError,
               "where: a saved tensor of shape [2] was modified");
}

TEST(Arithmetic, RemaindersGradient) {
  Tensors g = gradients(remainder, {7, -7, 7.5}, {2, 2, -2});
  EXPECT_EQ(g[0].to_vector<double>(), (Values{1, 1, 1}));
  EXPECT_EQ(g[1].to_vector<double>(), (Values{-3, 4, 4}));
}

TEST(Arithmetic, WhereWithNumbers) {
  Tensor condition = tensor<bool>({true, false}), x = tensor<std::int64_t>({1, 2});
  EXPECT_TRUE(test::identical(where(condition, x, 1.5), tensor<float>({1, 1.5f})));
  EXPECT_TRUE(test::identical(where(condition, -1, x), tensor<std::int64_t>({-1, 2})));
  EXPECT_TRUE(test::identical(where(condition, 1.0, 0.0), tensor<float>({1, 0})));
  EXPECT_EQ(where(condition, 1, 2).dtype(), i64);
  EXPECT_TRUE(std::isinf(where(condition, f16_of({1, 2}), 1e6)[1].item()));
}

// torch.full((), 1, dtype=bfloat16) * 0.5 is bfloat16.
TEST(Arithmetic, ANumberNeverWidensATensorOfItsCategory) {
  for (const Dims& shape : {Dims{}, Dims{1}, Dims{2}}) {
    for (DType dtype : {bf16, f16, f32, f64}) {
      const Tensor x = full(shape, 3, {.dtype = dtype}),
                   yes = full(shape, true, {.dtype = boolean});
      for (const Tensor& y :
           {x + 0.1, x - 0.1, x * 0.1, x / 0.1, 0.1 + x, 0.1 - x, 0.1 * x, 0.1 / x, x + 1, x / 2,
            pow(x, 2), x % 0.3, fmod(x, 2), floor_divide(x, 2), where(yes, x, 0.1),
            where(yes, 0.1, x), masked_fill(x, yes, 0.1)})
        EXPECT_EQ(y.dtype(), dtype) << shape;
      EXPECT_TRUE(test::identical(1 / x, full(shape, 1.0 / 3, {.dtype = dtype}))) << dtype;
    }
    const Tensor n = full(shape, 3, {.dtype = u8});
    for (const Tensor& y : {n + 1, n - 1, n * 2, 1 - n, pow(n, 2)}) EXPECT_EQ(y.dtype(), u8);
    EXPECT_EQ((n * 0.5).dtype(), f32);
    // A comparison rounds the number to the tensor's dtype, of any shape.
    EXPECT_TRUE(all(eq(full(shape, 0.1, {.dtype = bf16}), 0.1)).item<bool>());
  }
  EXPECT_EQ((full({}, 1.5, {.dtype = bf16}) % 0.3).item(), 0.296875);  // PyTorch's
  // Two 0-dim tensors are promoted to the wider dtype, as in PyTorch.
  EXPECT_EQ((full({}, 1, {.dtype = bf16}) * full({}, 1)).dtype(), f32);
  const Tensor x = full({}, 2, {.dtype = bf16}).requires_grad_();
  (x * 0.5 + 1 / x).backward();
  EXPECT_EQ(x.grad().dtype(), bf16);
  EXPECT_EQ(x.grad().item(), 0.25);
}

// Next to an f64, kernels read every other dtype as f64, without a converted copy.
TEST(Arithmetic, MixedWithF64EqualsConvertingFirst) {
  const Tensor wide = (arange(3 * 700, {.dtype = f64}) / 7 - 100).reshape({3, 700});
  for (DType dtype : {f64, f32, bf16, f16, i64, i32, i8, u8, boolean}) {
    const Tensor x = (arange(700 * 3) % 90 + 0.7).reshape({700, 3}).to(dtype).t();  // not dense
    for (const Tensor& other : {x, x.contiguous(), x.narrow(1, 0, 1), x.narrow(0, 1, 1)}) {
      SCOPED_TRACE(concat(dtype, " of ", other.shape()));
      const Tensor same = other.to(f64);
      EXPECT_TRUE(test::identical(other + wide, same + wide));
      if (dtype != boolean) EXPECT_TRUE(test::identical(wide - other, wide - same));
      EXPECT_TRUE(test::identical(other * wide, same * wide));
      EXPECT_TRUE(test::identical(wide / other, wide / same));
      EXPECT_TRUE(test::identical(maximum(other, wide), maximum(same, wide)));
      EXPECT_TRUE(test::identical(lt(other, wide), lt(same, wide)));
      EXPECT_TRUE(test::identical(eq(wide, other), eq(wide, same)));
    }
  }
}

// 0^(b - 1) and log 0 are in branches that are not taken.
TEST(Arithmetic, PowersOfZeroHaveSecondDerivatives) {
  const Tensor a = leaf({0, 0, 0, 2}), b = leaf({0, 1, 2, 0});
  const Tensors first = grad({pow(a, b).sum()}, {a, b}, {.create_graph = true});
  EXPECT_EQ(first[0].to_vector<double>(), (Values{0, 1, 0, 0}));
  for (const Tensor& g : first)
    for (const Tensor& second : grad({g.sum()}, {a, b}, {.retain_graph = true}))
      EXPECT_TRUE(all(isfinite(second)).item<bool>()) << second;
}

}  // namespace
}  // namespace rondo
