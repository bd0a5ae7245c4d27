// Winograd's convolution against plain loops in f64, and its error compared with that of direct
// sums.

#include "tensor/cpu/conv/winograd.h"

#include <gmock/gmock.h>
#include <omp.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "support/conv_case.h"
#include "support/support.h"
#include "tensor/backend.h"
#include "tensor/cpu/conv/algorithm.h"
#include "tensor/cpu/isa/table.h"
#include "tensor/cpu/reference.h"
#include "tensor/record_function.h"

namespace rondo {
namespace {

using test::all_close;
using test::as;
using test::tolerance;

using test::nhwc;

/// A 3x3 convolution and its three results, computed in f64 by the loops.
struct WinogradCase {
  std::int64_t n, c, h, w, k, pad_h = 1, pad_w = 1, groups = 1;

  Conv2dParams params() const { return {.pad_h = pad_h, .pad_w = pad_w, .groups = groups}; }
  Dims w_shape() const { return {k, c / groups, 3, 3}; }
  Dims x_shape() const { return {n, c, h, w}; }
  Dims y_shape() const { return {n, k, h + 2 * pad_h - 2, w + 2 * pad_w - 2}; }
};

struct Results {
  Tensor y, dx, dw;
  explicit Results(const WinogradCase& p, TensorOptions options)
      : y(Tensor::empty(p.y_shape(), options)),
        dx(Tensor::empty(p.x_shape(), options)),
        dw(Tensor::empty(p.w_shape(), {.dtype = options.dtype})) {}
};

struct Operands {
  Tensor x, w, bias, dy;
  Operands(const WinogradCase& p, DType dtype)
      : x(as(randn(p.x_shape()), dtype)),
        w(as(randn(p.w_shape()), dtype)),
        bias(as(randn({p.k}), dtype)),
        dy(as(randn(p.y_shape()), dtype)) {}
};

Results by_loops(const WinogradCase& p, const Operands& o) {
  Results r(p, {.dtype = f64});
  cpu::reference::conv2d(as(o.x, f64), as(o.w, f64), as(o.bias, f64), r.y, p.params());
  cpu::reference::conv2d_backward_input(as(o.dy, f64), as(o.w, f64), r.dx, p.params());
  cpu::reference::conv2d_backward_weight(as(o.dy, f64), as(o.x, f64), r.dw, {}, p.params());
  return r;
}

Results by_winograd(const WinogradCase& p, const Operands& o, DType dtype) {
  Results r(p, {.dtype = dtype, .format = nhwc});
  r.dw = Tensor::empty(p.w_shape());
  const Tensor x = as(o.x, dtype, nhwc), dy = as(o.dy, dtype, nhwc);
  cpu::winograd::conv2d(x, o.w, as(o.bias, f32), r.y, p.params());
  cpu::winograd::conv2d_backward_input(dy, o.w, r.dx, p.params());
  cpu::winograd::conv2d_backward_weight(dy, x, r.dw, p.params());
  return r;
}

/// Three standard deviations of a sum of `terms` rounded products, times 4: the transforms increase
/// the error of direct sums by at most that factor (WinogradError).
double winograd_tolerance(std::int64_t terms) {
  return 4 * tolerance(f32, terms, 3 * std::sqrt(static_cast<double>(terms)));
}

class Winograd : public ::testing::TestWithParam<WinogradCase> {};

TEST_P(Winograd, ThreePrimitivesAgreeWithTheLoops) {
  const WinogradCase& p = GetParam();
  for (DType dtype : {f32, bf16}) {
    const Operands o(p, dtype);
    const Results want = by_loops(p, o), got = by_winograd(p, o, dtype);
    const double rounded = dtype == f32 ? 0 : 0x1p-8;  // for results in bf16
    auto agree = [&](const Tensor& a, const Tensor& b, std::int64_t terms, double relative) {
      EXPECT_TRUE(all_close(as(a, f64), b, winograd_tolerance(terms), relative)) << dtype;
    };
    agree(got.y, want.y, 9 * p.c / p.groups, rounded);
    agree(got.dx, want.dx, 9 * p.k / p.groups, rounded);
    agree(got.dw, want.dw, want.y.numel() / p.k, 0);
  }
}

TEST_P(Winograd, SmallTilesAgreeWithTheLoops) {
  const WinogradCase& p = GetParam();
  const Dims shape = p.y_shape();
  if (p.groups > 1) GTEST_SKIP() << "one group only";
  if (p.n * ((shape[2] + 1) / 2) * ((shape[3] + 1) / 2) > 24) GTEST_SKIP() << "several blocks";
  const Operands o(p, f32);
  const Tensor y = Tensor::empty(shape, {.format = nhwc}), x = as(o.x, f32, nhwc);
  for (const Tensor& bias : {o.bias, Tensor()}) {
    const Tensor want = Tensor::empty(shape, {.dtype = f64});
    cpu::reference::conv2d(as(o.x, f64), as(o.w, f64), bias.defined() ? as(bias, f64) : bias, want,
                           p.params());
    for (int use = 0; use < 4; ++use) {  // weights are made, kept, read
      cpu::winograd::conv2d_small_tiles(x, o.w, bias, y, p.params());
      EXPECT_TRUE(all_close(as(y, f64), want, winograd_tolerance(9 * p.c)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Winograd,
    ::testing::Values(WinogradCase{1, 16, 1, 1, 16},             // a pixel
                      WinogradCase{1, 16, 4, 4, 16},             // a tile
                      WinogradCase{3, 16, 8, 8, 32},             // whole tiles
                      WinogradCase{2, 32, 7, 9, 16},             // parts of tiles
                      WinogradCase{2, 48, 13, 5, 80},            // an odd number of vectors
                      WinogradCase{2, 16, 6, 6, 16, 0, 0},       // no padding
                      WinogradCase{1, 16, 5, 9, 16, 2, 0},       // more than half a filter
                      WinogradCase{1, 16, 3, 4, 16, 3, 4},       // only outputs that are zero
                      WinogradCase{5, 64, 12, 12, 64},           // several blocks
                      WinogradCase{70, 96, 4, 4, 112},           // sums by all threads
                      WinogradCase{1, 96, 15, 9, 48},            // one block
                      WinogradCase{1, 256, 8, 8, 64},            // 16 small tiles
                      WinogradCase{2, 32, 7, 9, 64, 1, 1, 2},    // groups
                      WinogradCase{1, 96, 15, 9, 48, 1, 1, 3},   // … in one block
                      WinogradCase{9, 64, 16, 12, 64, 1, 1, 4},  // … in several blocks
                      WinogradCase{70, 96, 4, 4, 192, 1, 1, 2},  // … with sums by all threads
                      WinogradCase{1, 512, 4, 4, 16, 1, 1}));

/// All threads process one block of 24 tiles. Five of them divide 13 panels of 16 filters for each
/// of the 36 points unevenly.
TEST(Winograd, ThreadsShareABlock) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "it is not told what OpenMP's threads wait for";
#endif
  const int threads = omp_get_max_threads();
  for (const WinogradCase& p :
       {WinogradCase{1, 16, 24, 16, 208}, {1, 208, 24, 16, 16}, {1, 32, 24, 16, 416, 1, 1, 2}}) {
    const Operands o(p, f32);
    const Results want = by_loops(p, o);
    for (const int some : {1, 2, 5, 7}) {
      omp_set_num_threads(some);
      const Results got = by_winograd(p, o, f32);
      const std::int64_t depth = 9 * p.c / p.groups, filters = 9 * p.k / p.groups;
      EXPECT_TRUE(all_close(as(got.y, f64), want.y, winograd_tolerance(depth))) << some;
      EXPECT_TRUE(all_close(as(got.dx, f64), want.dx, winograd_tolerance(filters))) << some;
    }
  }
  omp_set_num_threads(threads);
}

double mean_square(const Tensor& x) {
  double sum = 0;
  for (double v : x.to_vector()) sum += v * v;
  return sum / static_cast<double>(x.numel());
}
double error(const Tensor& got, const Tensor& want) {
  Tensor difference = Tensor::empty(want.shape(), {.dtype = f64});
  backend(want).binary(BinaryOp::sub, as(got, f64), want, difference);
  return std::sqrt(mean_square(difference) / mean_square(want));
}

/// The properties that Note [Winograd convolution] states about its points.
TEST(WinogradError, IsAFewTimesThatOfDirectSums) {
  const WinogradCase p{4, 64, 16, 16, 64};
  const Operands o(p, f32);
  const Results want = by_loops(p, o), got = by_winograd(p, o, f32);
  Results direct(p, {.format = nhwc});
  {
    const test::OnlyConv direct_sums("onednn");
    backend(o.x).conv2d(o.x, o.w, o.bias, direct.y, p.params());
    backend(o.x).conv2d_backward_input(o.dy, o.w, direct.dx, p.params());
    backend(o.x).conv2d_backward_weight(o.dy, o.x, direct.dw, {}, p.params());
  }
  for (auto part : {&Results::y, &Results::dx, &Results::dw}) {
    const double winograd = error(got.*part, want.*part), sum = error(direct.*part, want.*part);
    EXPECT_LT(winograd, 4 * std::max(sum, 4e-7)) << "direct: " << sum;
    EXPECT_LT(winograd, 2e-6);
    EXPECT_GT(winograd, sum / 8) << "is this Winograd's?";
  }
}

TEST(WinogradSwitch, ChoosesTheWay) {
  const WinogradCase p{4, 16, 16, 16, 16};
  const Operands o(p, f32);
  const Tensor x = as(o.x, f32, nhwc);
  auto convolved = [&] {
    Tensor y = Tensor::empty(p.y_shape(), {.format = nhwc});
    backend(x).conv2d(x, o.w, o.bias, y, p.params());
    return y.to_vector<float>();
  };
  const auto winograd = by_winograd(p, o, f32).y.to_vector<float>();
  EXPECT_EQ(convolved(), winograd);
  const test::OnlyConv direct_sums("onednn");
  EXPECT_NE(convolved(), winograd);
}

/// A profile that records shapes shows which algorithm computed a convolution.
TEST(WinogradSwitch, IsShownInAProfile) {
  const WinogradCase p{4, 16, 16, 16, 16};
  const Operands o(p, f32);
  const Tensor x = as(o.x, f32, nhwc), y = Tensor::empty(p.y_shape(), {.format = nhwc});
  const auto shapes = [&] {
    start_recording({.record_shapes = true});
    backend(x).conv2d(x, o.w, o.bias, y, p.params());
    const std::vector<RecordedThread> recorded = stop_recording();
    for (const ProfileEvent& event : recorded.at(0).events)
      if (event.name == "conv2d") return std::string(event.shapes);
    return std::string();
  };
  EXPECT_THAT(shapes(), ::testing::EndsWith(" by winograd"));
  const test::OnlyConv direct_sums("onednn");
  EXPECT_THAT(shapes(), ::testing::EndsWith(" by onednn"));
}

TEST(WinogradSwitch, ChoosesSmallTiles) {
  if (std::string_view(cpu::kernels().name) != "avx2") GTEST_SKIP() << "not with these kernels";
  const WinogradCase p{1, 256, 8, 8, 256};
  const Operands o(p, f32);
  const Tensor x = as(o.x, f32, nhwc), small = Tensor::empty(p.y_shape(), {.format = nhwc});
  cpu::winograd::conv2d_small_tiles(x, o.w, o.bias, small, p.params());
  const Tensor y = Tensor::empty(p.y_shape(), {.format = nhwc});
  backend(x).conv2d(x, o.w, o.bias, y, p.params());
  EXPECT_EQ(y.to_vector<float>(), small.to_vector<float>());
  const test::OnlyConv direct_sums("onednn");
  backend(x).conv2d(x, o.w, o.bias, y, p.params());
  EXPECT_NE(y.to_vector<float>(), small.to_vector<float>());
}

/// A pixel of 1e9 reduces the precision of all outputs of its tile, even of those that do not read
/// it, and a NaN makes them NaN. Direct sums do not have this effect.
TEST(WinogradSwitch, DirectSumsAreForImagesWithMarks) {
  const WinogradCase p{1, 16, 16, 16, 16};
  for (const double mark : {-1e9, static_cast<double>(std::numeric_limits<float>::infinity())}) {
    Operands o(p, f32);
    o.x[0][3][0].narrow(0, 0, 1).fill_(mark);  // read by the outputs of rows and columns 0 and 1
    const Results want = by_loops(p, o);
    const auto same_tile = [](const Tensor& y) {  // in the same tile
      return as(y, f64, MemoryFormat::contiguous).narrow(2, 3, 1).narrow(3, 0, 4).clone();
    };
    const Tensor x = as(o.x, f32, nhwc);
    const Tensor y = Tensor::empty(p.y_shape(), {.format = nhwc});
    backend(x).conv2d(x, o.w, o.bias, y, p.params());
    EXPECT_FALSE(all_close(same_tile(y), same_tile(want.y), winograd_tolerance(9 * p.c)));
    if (std::isfinite(mark)) {
      EXPECT_TRUE(all_close(same_tile(y), same_tile(want.y), 1e9 * winograd_tolerance(9)));
    }
    const test::OnlyConv direct_sums("onednn");
    backend(x).conv2d(x, o.w, o.bias, y, p.params());
    EXPECT_TRUE(all_close(same_tile(y), same_tile(want.y), winograd_tolerance(9 * p.c)));
  }
}

TEST(WinogradSwitch, SmallTilesAreForAFewPixelsOfLargeWeights) {
  auto suits = [](std::int64_t n, std::int64_t size, auto... change) {
    cpu::Conv2dProblem p{.pass = cpu::Conv2dProblem::Pass::forward,
                         .dtype = f32,
                         .n = n,
                         .c = 256,
                         .h = size,
                         .w = size,
                         .k = 256,
                         .r = 3,
                         .s = 3,
                         .p = size,
                         .q = size,
                         .params = {.pad_h = 1, .pad_w = 1},
                         .bias = false};
    (change(p), ...);
    return cpu::winograd::suits_small_tiles(p);
  };
  EXPECT_EQ(suits(1, 8), std::string_view(cpu::kernels().name) == "avx2");
  EXPECT_FALSE(suits(1, 4));
  EXPECT_FALSE(suits(1, 10)) << "25 tiles";
  EXPECT_FALSE(suits(1, 5)) << "a third of 9 tiles is wasted";
  EXPECT_FALSE(suits(1, 8, [](auto& p) { p.c = 32; }));
  EXPECT_FALSE(suits(1, 8, [](auto& p) { p.dtype = bf16; }));
  EXPECT_FALSE(suits(1, 8, [](auto& p) { p.params.dilation_h = 2; }));
  EXPECT_FALSE(suits(1, 8, [](auto& p) { p.pass = cpu::Conv2dProblem::Pass::backward_input; }));
}

TEST(WinogradSwitch, OnlyWhatGainsByIt) {
  auto suits = [](std::int64_t n, std::int64_t c, std::int64_t size, std::int64_t k,
                  std::int64_t filter = 3, Conv2dParams params = {.pad_h = 1, .pad_w = 1}) {
    const std::int64_t out = (size + 2 * params.pad_h - filter) / params.stride_h + 1;
    return cpu::winograd::suits({.pass = cpu::Conv2dProblem::Pass::forward,
                                 .dtype = f32,
                                 .n = n,
                                 .c = c,
                                 .h = size,
                                 .w = size,
                                 .k = k,
                                 .r = filter,
                                 .s = filter,
                                 .p = out,
                                 .q = out,
                                 .params = params,
                                 .bias = false});
  };
  EXPECT_TRUE(suits(128, 16, 32, 16));
  EXPECT_TRUE(suits(128, 512, 4, 512));
  EXPECT_FALSE(suits(1, 512, 4, 512)) << "transforming the weights costs more than the sums";
  EXPECT_FALSE(suits(128, 3, 32, 16)) << "lanes are channels";
  EXPECT_FALSE(suits(128, 16, 32, 24));
  EXPECT_FALSE(suits(128, 16, 32, 16, 5));
  EXPECT_FALSE(suits(128, 16, 32, 16, 3, {.stride_h = 2, .stride_w = 2, .pad_h = 1, .pad_w = 1}));
  EXPECT_TRUE(suits(128, 64, 32, 64, 3, {.pad_h = 1, .pad_w = 1, .groups = 4}));
  EXPECT_FALSE(suits(128, 64, 32, 64, 3, {.pad_h = 1, .pad_w = 1, .groups = 8}));
  EXPECT_FALSE(suits(128, 16, 32, 16, 3, {.pad_h = 1, .pad_w = 1, .dilation_h = 2}));
}

/// The transformed weights of one number of groups are not those of another.
TEST(WinogradSwitch, KeptWeightsKnowTheirGroups) {
  const Tensor w = randn({64, 16, 3, 3});
  for (const std::int64_t groups : {1, 2, 4, 1, 2, 4, 1, 2, 4}) {
    const WinogradCase p{1, 16 * groups, 6, 6, 64, 1, 1, groups};
    const Tensor x = randn(p.x_shape(), {}), y = Tensor::empty(p.y_shape(), {.format = nhwc});
    const Tensor want = Tensor::empty(p.y_shape(), {.dtype = f64});
    cpu::winograd::conv2d(as(x, f32, nhwc), w, {}, y, p.params());
    cpu::reference::conv2d(as(x, f64), as(w, f64), {}, want, p.params());
    EXPECT_TRUE(all_close(as(y, f64), want, winograd_tolerance(9 * 16))) << groups;
  }
}

/// An image's result does not depend on its neighbours in the batch or on the number of threads.
TEST(Winograd, AnImageHasTheSameBitsInEveryBatch) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "it is not told what OpenMP's threads wait for";
#endif
  const WinogradCase many{9, 32, 12, 12, 32}, one{1, 32, 12, 12, 32};
  const Operands o(many, f32);
  Operands first = o;
  first.x = o.x.as_view(one.x_shape(), o.x.strides(), 0);
  first.dy = o.dy.as_view(one.y_shape(), o.dy.strides(), 0);
  const Results together = by_winograd(many, o, f32);
  const int threads = omp_get_max_threads();
  omp_set_num_threads(3);
  const Results shared = by_winograd(many, o, f32);
  omp_set_num_threads(threads);
  const Results alone = by_winograd(one, first, f32);
  EXPECT_EQ(shared.y.to_vector<float>(), together.y.to_vector<float>());
  EXPECT_EQ(shared.dx.to_vector<float>(), together.dx.to_vector<float>());
  const auto all = together.y.to_vector<float>(), single = alone.y.to_vector<float>();
  EXPECT_TRUE(std::equal(single.begin(), single.end(), all.begin()));
}

TEST(Winograd, PoisonStaysWhereItIs) {
  const WinogradCase p{2, 16, 12, 12, 16};
  Operands o(p, f32);
  o.x.data_ptr<float>()[0] =
      std::nanf("");  // the first pixel: of all pixels, its neighbours read it
  for (DType dtype : {f32, bf16}) {
    const auto y = by_winograd(p, o, dtype).y.to_vector<float>();
    EXPECT_TRUE(std::isnan(y[0])) << dtype;
    EXPECT_FALSE(std::isnan(y[8])) << dtype << ": beyond the tile";
    EXPECT_FALSE(std::isnan(y[y.size() / 2])) << dtype << ": the other image";
  }
}

}  // namespace
}  // namespace rondo
