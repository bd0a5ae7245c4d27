// Convolutions of few pixels against plain loops in f64, and the cases in which they are used.

#include "tensor/cpu/conv/few_pixels.h"

#include <cmath>

#include "support/conv_case.h"
#include "support/support.h"
#include "tensor/backend.h"
#include "tensor/cpu/isa/table.h"
#include "tensor/cpu/reference.h"

namespace rondo {
namespace {

using test::as;
using Case = test::ConvCase;

using test::nhwc;

class FewPixels : public ::testing::TestWithParam<Case> {};

TEST_P(FewPixels, AgreesWithTheLoops) {
  const Case& p = GetParam();
  if (p.n * p.y_shape()[2] * p.y_shape()[3] > cpu::kernels().packed.few_rows)
    GTEST_SKIP() << "more pixels than are few with these instructions";
  const Tensor x = randn({p.n, p.c, p.h, p.w}), w = randn({p.k, p.c, p.r, p.s}), b = randn({p.k});
  const Tensor want = Tensor::empty(p.y_shape(), {.dtype = f64});
  const Tensor y = Tensor::empty(p.y_shape(), {.format = nhwc});
  const std::int64_t terms = p.c * p.r * p.s;
  for (const Tensor& bias : {b, Tensor()}) {
    cpu::reference::conv2d(as(x, f64), as(w, f64), bias.defined() ? as(bias, f64) : bias, want,
                           p.params);
    for (int use = 0; use < 4; ++use) {  // panels are made, kept, read
      cpu::few_pixels::conv2d(as(x, f32, nhwc), w, bias, y, p.params);
      // Three standard deviations of a sum of rounded products of normal numbers.
      EXPECT_TRUE(
          test::all_close(as(y, f64), want,
                          test::tolerance(f32, terms, 3 * std::sqrt(static_cast<double>(terms)))));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, FewPixels,
    ::testing::Values(Case{1, 16, 1, 1, 16, 1, 1},                                  // a pixel
                      Case{1, 64, 4, 4, 48, 3, 3, {.pad_h = 1, .pad_w = 1}},        // 16
                      Case{3, 32, 2, 2, 32, 3, 3, {.pad_h = 1, .pad_w = 1}},        // images
                      Case{1, 48, 8, 7, 80, 3, 3, {.stride_h = 2, .stride_w = 2}},  // 9
                      Case{1, 16, 9, 5, 16, 3, 2, {.dilation_h = 3, .dilation_w = 2}},
                      Case{2, 16, 3, 2, 32, 1, 3, {.pad_h = 0, .pad_w = 1}},
                      Case{1, 16, 1, 2, 16, 2, 2, {.pad_h = 1, .pad_w = 2}},
                      Case{5, 16, 2, 2, 16, 2, 2, {.stride_h = 2, .stride_w = 3}},
                      Case{1, 16, 7, 7, 32, 3, 3, {.pad_h = 1, .pad_w = 1}},     // 49
                      Case{4, 80, 4, 4, 48, 3, 3, {.pad_h = 1, .pad_w = 1}},     // 64, 720 terms
                      Case{1, 512, 5, 3, 16, 1, 1},                              // 15, 512 terms
                      Case{1, 272, 1, 29, 32, 1, 1},                             // 29, 272 terms
                      Case{1, 16, 1, 19, 16, 1, 3, {.pad_h = 0, .pad_w = 1}}));  // 19

TEST(FewPixels, AreForSmallOutputsOfLargeWeights) {
  const cpu::Conv2dProblem p = Case{1, 512, 4, 4, 512, 3, 3, {.pad_h = 1, .pad_w = 1}}.problem(
      cpu::Conv2dProblem::Pass::forward);
  const auto with = [&](auto change) {
    cpu::Conv2dProblem changed = p;
    change(changed);
    return cpu::few_pixels::suits(changed);
  };
  EXPECT_TRUE(cpu::few_pixels::suits(p));
  const std::int64_t most = cpu::kernels().packed.few_rows;
  EXPECT_TRUE(with([&](auto& q) { q.n = most / 16; }));
  EXPECT_FALSE(with([&](auto& q) { q.n = most / 16 + 1; }));
  EXPECT_FALSE(with([](auto& q) { q.dtype = bf16; }));
  EXPECT_FALSE(with([](auto& q) { q.pass = cpu::Conv2dProblem::Pass::backward_input; }));
  EXPECT_FALSE(with([](auto& q) { q.params.groups = 2; }));
  EXPECT_FALSE(with([](auto& q) { q.c = 520; }));
  EXPECT_FALSE(with([](auto& q) { q.k = 24; }));
  EXPECT_FALSE(with([](auto& q) { q.c = q.k = 64; }));
}

TEST(FewPixels, NewWeightsGiveNewResults) {
  const Tensor x = as(randn({1, 16, 1, 1}), f32, nhwc), w = randn({16, 16, 1, 1});
  const Tensor y = Tensor::empty({1, 16, 1, 1}, {.format = nhwc});
  for (int i = 0; i < 4; ++i) cpu::few_pixels::conv2d(x, w, {}, y, {});
  const std::vector<float> before = y.to_vector();
  backend(w).unary(UnaryOp::mul_scalar, w, w, {.alpha = 2});
  w.bump_version();
  cpu::few_pixels::conv2d(x, w, {}, y, {});
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_EQ(y.to_vector()[i], 2 * before[i]);
}

}  // namespace
}  // namespace rondo
