// The gradient of a depthwise convolution's weights against plain loops in f64, and the cases in
// which rondo computes it.

#include <omp.h>

#include <cmath>

#include "support/conv_case.h"
#include "support/support.h"
#include "tensor/backend.h"
#include "tensor/cpu/conv/algorithm.h"
#include "tensor/cpu/reference.h"

namespace rondo {
namespace {

using test::as;
using test::nhwc;

test::ConvCase per_channel(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w,
                           std::int64_t r, std::int64_t s, Conv2dParams params) {
  params.groups = c;
  return {.n = n, .c = c, .h = h, .w = w, .k = c, .r = r, .s = s, .params = params};
}

bool is_chosen(const test::ConvCase& p, cpu::Conv2dProblem::Pass pass, DType dtype = f32) {
  cpu::Conv2dProblem problem = p.problem(pass);
  problem.dtype = dtype;
  return &cpu::choose_conv(problem) == &cpu::conv::depthwise;
}

TEST(Depthwise, AgreesWithTheLoops) {
  const test::OnlyConv only("depthwise");
  for (const test::ConvCase& p :
       {per_channel(2, 64, 9, 7, 3, 3, {.pad_h = 1, .pad_w = 1}),
        per_channel(3, 19, 6, 8, 3, 3, {.stride_h = 2, .stride_w = 2, .pad_h = 1, .pad_w = 1}),
        per_channel(1, 24, 12, 11, 5, 5, {.pad_h = 2, .pad_w = 2}),
        per_channel(2, 17, 10, 10, 7, 2, {.stride_w = 3, .pad_h = 3, .pad_w = 1}),
        per_channel(2, 16, 7, 9, 3, 3, {.dilation_h = 2, .dilation_w = 3}),
        per_channel(1, 16, 3, 2, 3, 3, {.pad_h = 1, .pad_w = 1}),  // no column has all taps
        per_channel(1, 16, 1, 1, 3, 3, {.pad_h = 1, .pad_w = 1}),  // a pixel
        per_channel(1, 16, 1, 600, 1, 3, {.pad_w = 1}),            // pieces of a row
        per_channel(2, 33, 5, 5, 1, 1, {.stride_h = 2}),
        per_channel(40, 32, 4, 4, 3, 3, {.pad_h = 1, .pad_w = 1})}) {  // several parts
    const auto pass = cpu::Conv2dProblem::Pass::backward_weight;
    ASSERT_TRUE(is_chosen(p, pass));
    const Tensor x = randn({p.n, p.c, p.h, p.w}), dy = randn(p.y_shape());
    const Tensor want = Tensor::empty({p.k, 1, p.r, p.s}, {.dtype = f64}),
                 want_bias = Tensor::empty({p.k}, {.dtype = f64});
    cpu::reference::conv2d_backward_weight(as(dy, f64), as(x, f64), want, want_bias, p.params);
    // Sums of normal numbers: see implicit_gemm_test.cpp.
    const auto terms = dy.numel() / p.k;
    const double bound = test::tolerance(f32, terms, 3 * std::sqrt(static_cast<double>(terms)));
    for (const MemoryFormat format : {nhwc, MemoryFormat::contiguous}) {
      const Tensor dw = full({p.k, 2, p.r, p.s}, 1e9).narrow(1, 0, 1), dbias = full({p.k}, 1e9);
      backend(x).conv2d_backward_weight(as(dy, f32, format), as(x, f32, format), dw, dbias,
                                        p.params);
      EXPECT_TRUE(test::all_close(as(dw, f64), want, bound)) << p.c << ' ' << p.h;
      EXPECT_TRUE(test::all_close(as(dbias, f64), want_bias, bound)) << p.c << ' ' << p.h;
    }
  }
}

TEST(Depthwise, HasTheSameBitsWithAnyNumberOfThreads) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "it is not told what OpenMP's threads wait for";
#endif
  const test::OnlyConv only("depthwise");
  const test::ConvCase p = per_channel(4, 48, 20, 20, 3, 3, {.pad_h = 1, .pad_w = 1});
  const Tensor x = as(randn({p.n, p.c, p.h, p.w}), f32, nhwc),
               dy = as(randn(p.y_shape()), f32, nhwc);
  const int threads = omp_get_max_threads();
  std::vector<std::vector<float>> all;
  for (const int some : {1, 2, 3, 7}) {
    omp_set_num_threads(some);
    const Tensor dw = zeros({p.k, 1, 3, 3});
    backend(x).conv2d_backward_weight(dy, x, dw, {}, p.params);
    all.push_back(dw.to_vector<float>());
  }
  omp_set_num_threads(threads);
  for (const auto& each : all) EXPECT_EQ(each, all[0]);
}

TEST(Depthwise, IsForOneFilterOfEachChannel) {
  const test::OnlyConv only("depthwise");
  using Pass = cpu::Conv2dProblem::Pass;
  const test::ConvCase plain = per_channel(2, 16, 8, 8, 3, 3, {.pad_h = 1, .pad_w = 1});
  EXPECT_TRUE(is_chosen(plain, Pass::backward_weight));
  EXPECT_FALSE(is_chosen(plain, Pass::forward));
  EXPECT_FALSE(is_chosen(plain, Pass::backward_input));
  EXPECT_FALSE(is_chosen(plain, Pass::backward_weight, bf16));
  test::ConvCase other = plain;
  other.k = 32;
  EXPECT_FALSE(is_chosen(other, Pass::backward_weight)) << "two filters";
  EXPECT_FALSE(is_chosen(per_channel(2, 1, 8, 8, 3, 3, {}), Pass::backward_weight));
  EXPECT_FALSE(is_chosen(per_channel(2, 8, 8, 8, 3, 3, {}), Pass::backward_weight));
  other = plain;
  other.params.groups = 8;
  EXPECT_FALSE(is_chosen(other, Pass::backward_weight));
}

}  // namespace
}  // namespace rondo
