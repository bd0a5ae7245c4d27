// The gradient of the weights of filters of one pixel against plain loops in f64, and the cases in
// which it is a product of matrices.

#include <cmath>
#include <string_view>

#include "support/conv_case.h"
#include "support/support.h"
#include "tensor/backend.h"
#include "tensor/cpu/conv/algorithm.h"
#include "tensor/cpu/packed_matmul.h"
#include "tensor/cpu/reference.h"

namespace rondo {
namespace {

using test::as;
using test::nhwc;

const char* chosen(const test::ConvCase& p, cpu::Conv2dProblem::Pass pass, DType dtype = f32) {
  cpu::Conv2dProblem problem = p.problem(pass);
  problem.dtype = dtype;
  return cpu::choose_conv(problem).name;
}

TEST(OnePixel, AgreesWithTheLoops) {
  const test::OnlyConv only("one_pixel");
  for (const auto& [n, c, h, w, k] : std::vector<std::array<std::int64_t, 5>>{{1, 1, 1, 1, 1},
                                                                              {2, 3, 5, 7, 4},
                                                                              {3, 16, 8, 8, 32},
                                                                              {1, 64, 1, 1, 33},
                                                                              {2, 48, 7, 1, 1},
                                                                              {5, 1, 1, 9, 17}}) {
    const test::ConvCase p{.n = n, .c = c, .h = h, .w = w, .k = k, .r = 1, .s = 1};
    ASSERT_STREQ(chosen(p, cpu::Conv2dProblem::Pass::backward_weight), "one_pixel");
    const Tensor x = randn({n, c, h, w}), dy = randn(p.y_shape());
    const Tensor want = Tensor::empty({k, c, 1, 1}, {.dtype = f64}),
                 want_bias = Tensor::empty({k}, {.dtype = f64});
    cpu::reference::conv2d_backward_weight(as(dy, f64), as(x, f64), want, want_bias, {});
    // Sums of normal numbers: see implicit_gemm_test.cpp.
    const auto terms = n * h * w;
    const double bound = test::tolerance(f32, terms, 3 * std::sqrt(static_cast<double>(terms)));
    for (const MemoryFormat format : {nhwc, MemoryFormat::contiguous}) {
      const Tensor dw = full({k, c + 1, 1, 1}, 1e9).narrow(1, 0, c), dbias = full({k}, 1e9);
      backend(x).conv2d_backward_weight(as(dy, f32, format), as(x, f32, format), dw, dbias, {});
      EXPECT_TRUE(test::all_close(as(dw, f64), want, bound)) << c << ' ' << k;
      EXPECT_TRUE(test::all_close(as(dbias, f64), want_bias, bound)) << c << ' ' << k;
    }
  }
}

TEST(OnePixel, IsUsedForItsGradientOnly) {
  const test::OnlyConv only("one_pixel");
  using Pass = cpu::Conv2dProblem::Pass;
  const test::ConvCase plain{.n = 2, .c = 4, .h = 6, .w = 6, .k = 8, .r = 1, .s = 1};
  EXPECT_STREQ(chosen(plain, Pass::forward), "onednn");
  EXPECT_STREQ(chosen(plain, Pass::backward_input), "onednn");
  EXPECT_STREQ(chosen(plain, Pass::backward_weight, bf16), "onednn");
  test::ConvCase other = plain;
  other.r = 3;
  EXPECT_STREQ(chosen(other, Pass::backward_weight), "onednn");
  other = {.n = 1, .c = 512, .h = 4, .w = 4, .k = 64, .r = 1, .s = 1};
  EXPECT_STREQ(chosen(other, Pass::backward_weight),
               cpu::packed_matmul::enabled() ? "one_pixel" : "onednn");
  other.h = 5;  // rows of 2 KiB, and not a multiple of 16 pixels
  EXPECT_STREQ(chosen(other, Pass::backward_weight), "onednn");
  std::swap(other.c, other.k);
  EXPECT_STREQ(chosen(other, Pass::backward_weight), "onednn");
  for (const Conv2dParams& params :
       {Conv2dParams{.stride_h = 2}, Conv2dParams{.stride_w = 2}, Conv2dParams{.pad_h = 1},
        Conv2dParams{.pad_w = 1}, Conv2dParams{.groups = 2}}) {
    other = plain;
    other.params = params;
    EXPECT_STREQ(chosen(other, Pass::backward_weight), "onednn");
  }
}

}  // namespace
}  // namespace rondo
