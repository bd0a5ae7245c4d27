// Convolutions by packed products against plain loops in f64, and the cases in which they are used.

#include "tensor/cpu/conv/implicit_gemm.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "support/conv_case.h"
#include "support/support.h"
#include "tensor/backend.h"
#include "tensor/cpu/conv/algorithm.h"
#include "tensor/cpu/isa/table.h"
#include "tensor/cpu/reference.h"

namespace rondo {
namespace {

using test::as;
using Case = test::ConvCase;

using test::nhwc;

/// The tolerance for sums of `terms` products of normal numbers: 12 eps terms. One addition has an
/// error of at most eps / 2 of the partial sum, which reaches 5 √terms among many sums, and √terms
/// such errors add up. LongSumsKeepTheirLastBits below tests the average error.
double of_terms(std::int64_t terms) {
  return test::tolerance(f32, terms, 3 * std::sqrt(static_cast<double>(terms)));
}

class ImplicitGemm : public ::testing::TestWithParam<Case> {};

TEST_P(ImplicitGemm, AgreesWithTheLoops) {
  const Case& p = GetParam();
  const Tensor x = randn({p.n, p.c, p.h, p.w}), w = randn({p.k, p.c, p.r, p.s}), b = randn({p.k});
  const Tensor dy = randn(p.y_shape());
  const std::int64_t taps = p.r * p.s, pixels = dy.numel() / p.k;

  for (const Tensor& bias : {b, Tensor()}) {
    const Tensor want = Tensor::empty(p.y_shape(), {.dtype = f64});
    cpu::reference::conv2d(as(x, f64), as(w, f64), bias.defined() ? as(bias, f64) : bias, want,
                           p.params);
    for (int use = 0; use < 4; ++use) {  // panels are made, kept, read
      const Tensor y = full(p.y_shape(), 1e9, {.format = nhwc});
      cpu::implicit_gemm::conv2d(as(x, f32, nhwc), w, bias, y, p.params);
      EXPECT_TRUE(test::all_close(as(y, f64), want, of_terms(p.c * taps)));
    }
  }

  const Tensor want_dx = Tensor::empty(x.shape(), {.dtype = f64});
  cpu::reference::conv2d_backward_input(as(dy, f64), as(w, f64), want_dx, p.params);
  for (int use = 0; use < 4; ++use) {
    const Tensor dx = full(x.shape(), 1e9, {.format = nhwc});
    cpu::implicit_gemm::conv2d_backward_input(as(dy, f32, nhwc), w, dx, p.params);
    EXPECT_TRUE(test::all_close(as(dx, f64), want_dx, of_terms(p.k * taps)));
  }

  const Tensor want_dw = Tensor::empty(w.shape(), {.dtype = f64});
  cpu::reference::conv2d_backward_weight(as(dy, f64), as(x, f64), want_dw, {}, p.params);
  const Tensor dw = full(w.shape(), 1e9);
  cpu::implicit_gemm::conv2d_backward_weight(as(dy, f32, nhwc), as(x, f32, nhwc), dw, p.params);
  EXPECT_TRUE(test::all_close(as(dw, f64), want_dw, of_terms(pixels)));
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, ImplicitGemm,
    ::testing::Values(
        Case{1, 16, 1, 1, 16, 1, 1},     // a pixel
        Case{3, 48, 9, 11, 80, 1, 1},    // blocks that begin inside an image
        Case{2, 272, 14, 7, 32, 1, 1},   // more channels than one part of the sums
        Case{40, 16, 30, 31, 16, 1, 1},  // several sets of blocks
        Case{2, 32, 8, 8, 48, 3, 3, {.stride_h = 2, .stride_w = 2, .pad_h = 1, .pad_w = 1}},
        Case{2, 32, 9, 7, 16, 1, 1, {.stride_h = 2, .stride_w = 2}},  // pixels that no filter reads
        Case{1, 16, 12, 13, 32, 3, 3, {.stride_h = 3, .stride_w = 2, .pad_h = 2, .pad_w = 0}},
        Case{2, 16, 11, 10, 16, 5, 3, {.stride_h = 2, .stride_w = 1, .pad_h = 2, .pad_w = 1}},
        Case{1,
             32,
             13,
             12,
             32,
             3,
             2,
             {.stride_h = 2,
              .stride_w = 3,
              .pad_h = 2,
              .pad_w = 2,
              .dilation_h = 2,
              .dilation_w = 3}},
        Case{2, 16, 1, 2, 16, 2, 2, {.stride_h = 4, .stride_w = 3, .pad_h = 1, .pad_w = 2}}));

/// Products of 96 pixels are summed first and then added to the total. For n pixels the root mean
/// square error is about 0.2 eps (96 + √(n / 96)) √(n / 96) √96, a tenth of 0.2 eps n, the error of
/// a single sequential sum.
TEST(ImplicitGemm, LongSumsKeepTheirLastBits) {
  const std::int64_t pixels = 40 * 30 * 31;
  const Tensor x = randn({40, 16, 30, 31}), dy = randn({40, 16, 30, 31});
  const Tensor want = Tensor::empty({16, 16, 1, 1}, {.dtype = f64}), dw = zeros({16, 16, 1, 1});
  cpu::reference::conv2d_backward_weight(as(dy, f64), as(x, f64), want, {}, {});
  cpu::implicit_gemm::conv2d_backward_weight(as(dy, f32, nhwc), as(x, f32, nhwc), dw, {});
  double squares = 0;
  const auto got = as(dw, f64).to_vector<double>(), wanted = want.to_vector<double>();
  for (std::size_t i = 0; i < got.size(); ++i) squares += std::pow(got[i] - wanted[i], 2);
  const double error = std::sqrt(squares / static_cast<double>(got.size()));
  RecordProperty("error", std::to_string(error));
  EXPECT_LT(error, 0.07 * 0x1p-23 * static_cast<double>(pixels));
}

/// If it is enabled, the backend uses it for all three passes.
TEST(ImplicitGemm, IsWhatTheBackendDoes) {
  const Conv2dParams params = {.stride_h = 2, .stride_w = 2, .pad_h = 1, .pad_w = 1};
  const Tensor x = as(randn({3, 64, 30, 30}), f32, nhwc), w = randn({80, 64, 3, 3});
  const Tensor bias = randn({80}), dy = as(randn({3, 80, 15, 15}), f32, nhwc);
  const auto computed = [&](auto conv2d, auto backward_input, auto backward_weight) {
    const Tensor y = Tensor::empty(dy.shape(), {.format = nhwc}),
                 dx = Tensor::empty(x.shape(), {.format = nhwc}), dw = Tensor::empty(w.shape());
    conv2d(y);
    backward_input(dx);
    backward_weight(dw);
    return std::vector{y.to_vector(), dx.to_vector(), dw.to_vector()};
  };
  namespace gemm = cpu::implicit_gemm;
  const auto direct = computed([&](auto& y) { gemm::conv2d(x, w, bias, y, params); },
                               [&](auto& dx) { gemm::conv2d_backward_input(dy, w, dx, params); },
                               [&](auto& dw) { gemm::conv2d_backward_weight(dy, x, dw, params); });
  const auto in_use = cpu::conv_algorithms();
  const bool is_in_use =
      std::find(in_use.begin(), in_use.end(), &cpu::conv::implicit_gemm) != in_use.end();
  Backend& cpu = backend(x);
  const auto chosen =
      computed([&](auto& y) { cpu.conv2d(x, w, bias, y, params); },
               [&](auto& dx) { cpu.conv2d_backward_input(dy, w, dx, params); },
               [&](auto& dw) { cpu.conv2d_backward_weight(dy, x, dw, {}, params); });
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(chosen[i] == direct[i], is_in_use) << i;
}

TEST(ImplicitGemm, HasTheSameBitsOnAnyNumberOfThreads) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "it is not told what OpenMP's threads wait for";
#endif
  const Conv2dParams params = {.stride_h = 2, .stride_w = 2, .pad_h = 1, .pad_w = 1};
  const Tensor x = as(randn({8, 32, 30, 30}), f32, nhwc), w = randn({64, 32, 3, 3});
  const Tensor dy = as(randn({8, 64, 15, 15}), f32, nhwc);
  const auto computed = [&](int threads) {
    const int before = omp_get_max_threads();
    omp_set_num_threads(threads);
    const Tensor y = Tensor::empty(dy.shape(), {.format = nhwc}),
                 dx = Tensor::empty(x.shape(), {.format = nhwc}), dw = Tensor::empty(w.shape());
    cpu::implicit_gemm::conv2d(x, w, {}, y, params);
    cpu::implicit_gemm::conv2d_backward_input(dy, w, dx, params);
    cpu::implicit_gemm::conv2d_backward_weight(dy, x, dw, params);
    omp_set_num_threads(before);
    return std::vector{y.to_vector(), dx.to_vector(), dw.to_vector()};
  };
  EXPECT_EQ(computed(1), computed(3));
}

TEST(ImplicitGemm, IsForAvx2AndWhereOneDnnHasLoops) {
  const cpu::Conv2dProblem p =
      Case{16, 128, 56, 56, 128, 3, 3, {.stride_h = 2, .stride_w = 2, .pad_h = 1, .pad_w = 1}}
          .problem(cpu::Conv2dProblem::Pass::forward);
  const auto with = [&](auto change) {
    cpu::Conv2dProblem changed = p;
    change(changed);
    return cpu::implicit_gemm::suits(changed);
  };
  if (std::getenv("RONDO_CONV") != nullptr) GTEST_SKIP() << "the environment chooses";
  const bool is_used =
      std::string_view(cpu::kernels().name) == "avx2" || !cpu::has_generated_kernels();
  EXPECT_EQ(&cpu::choose_conv(p), is_used ? &cpu::conv::implicit_gemm : &cpu::conv::onednn);
  EXPECT_TRUE(cpu::implicit_gemm::suits(p));
  EXPECT_EQ(with([](auto& q) {
              q.r = q.s = 1;
              q.pass = cpu::Conv2dProblem::Pass::backward_weight;
            }),
            true);
  EXPECT_FALSE(with([](auto& q) { q.r = q.s = 1; }));
  EXPECT_FALSE(with([](auto& q) { q.dtype = bf16; }));
  EXPECT_FALSE(with([](auto& q) { q.params.groups = 2; }));
  EXPECT_FALSE(with([](auto& q) { q.c = 72; }));
  EXPECT_FALSE(with([](auto& q) { q.k = 72; }));
  EXPECT_FALSE(with([](auto& q) {
    q.n = 1;
    q.p = q.q = 13;
  }));
  EXPECT_FALSE(with([](auto& q) { q.c = 32; }));
  EXPECT_FALSE(with([](auto& q) { q.k = 32; }));
}

}  // namespace
}  // namespace rondo
