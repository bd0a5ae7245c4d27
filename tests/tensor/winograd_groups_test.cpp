// Convolutions of narrow groups, computed several groups at a time, against plain loops in f64, and
// the cases in which groups are joined.

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

test::ConvCase grouped(std::int64_t channels, std::int64_t filters, Conv2dParams params,
                       std::int64_t filter = 3) {
  return {.n = 3,
          .c = channels,
          .h = 24,
          .w = 25,
          .k = filters,
          .r = filter,
          .s = filter,
          .params = params};
}

bool is_joined(const test::ConvCase& p, cpu::Conv2dProblem::Pass pass) {
  return &cpu::choose_conv(p.problem(pass)) == &cpu::conv::winograd_groups;
}

TEST(WinogradGroups, AgreesWithTheLoops) {
  for (const test::ConvCase& p :
       {grouped(64, 64, {.pad_h = 1, .pad_w = 1, .groups = 16}),  // ResNeXt
        grouped(32, 64, {.pad_h = 1, .pad_w = 1, .groups = 4}),   // 8 and 16
        grouped(64, 32, {.pad_h = 1, .pad_w = 1, .groups = 4}),   // 16 and 8
        grouped(16, 16, {.pad_h = 1, .pad_w = 1, .groups = 8}),   // all in one
        grouped(16, 32, {.pad_w = 2, .groups = 8})}) {            // 2 and 4
    using Pass = cpu::Conv2dProblem::Pass;
    for (const Pass pass : {Pass::forward, Pass::backward_input, Pass::backward_weight})
      ASSERT_TRUE(is_joined(p, pass)) << p.c << ' ' << p.params.groups;
    const Dims x_shape = {p.n, p.c, p.h, p.w};
    const Tensor x = randn(x_shape), w = randn({p.k, p.c / p.params.groups, p.r, p.s});
    const Tensor bias = randn({p.k}), dy = randn(p.y_shape());
    const auto loops = [](const Dims& shape) { return Tensor::empty(shape, {.dtype = f64}); };
    const Tensor y = loops(p.y_shape()), dx = loops(x_shape), dw = loops(w.shape()),
                 dbias = loops({p.k});
    cpu::reference::conv2d(as(x, f64), as(w, f64), as(bias, f64), y, p.params);
    cpu::reference::conv2d_backward_input(as(dy, f64), as(w, f64), dx, p.params);
    cpu::reference::conv2d_backward_weight(as(dy, f64), as(x, f64), dw, dbias, p.params);
    for (const MemoryFormat format : {nhwc, MemoryFormat::contiguous}) {
      // Four times the error of direct sums of normal numbers: winograd_test.cpp.
      const auto agree = [&](const Tensor& got, const Tensor& want, std::int64_t terms) {
        const double bound = 4 * test::tolerance(f32, terms, 3 * std::sqrt(double(terms)));
        EXPECT_TRUE(test::all_close(as(got, f64), want, bound)) << p.c << ' ' << p.params.groups;
      };
      const auto filled = [&](const Dims& shape) {
        const Tensor t = Tensor::empty(shape, {.format = format});
        t.fill_(1e9);
        return t;
      };
      const Tensor got_y = filled(p.y_shape()), got_dx = filled(x_shape);
      const Tensor got_dw = full({p.k, w.size(1) + 1, p.r, p.s}, 1e9).narrow(1, 0, w.size(1));
      const Tensor got_dbias = full({p.k}, 1e9);
      const Tensor source = as(x, f32, format), gradient = as(dy, f32, format);
      backend(x).conv2d(source, w, bias, got_y, p.params);
      backend(x).conv2d_backward_input(gradient, w, got_dx, p.params);
      backend(x).conv2d_backward_weight(gradient, source, got_dw, got_dbias, p.params);
      agree(got_y, y, p.r * p.s * w.size(1));
      agree(got_dx, dx, p.r * p.s * p.k / p.params.groups);
      agree(got_dw, dw, y.numel() / p.k);
      agree(got_dbias, dbias, y.numel() / p.k);
    }
  }
}

TEST(WinogradGroups, IsForGroupsThatDoNotFillAVector) {
  const auto suits = [](std::int64_t channels, std::int64_t filters, std::int64_t groups,
                        Conv2dParams params = {}, std::int64_t filter = 3) {
    params.groups = groups;
    return is_joined(grouped(channels, filters, params, filter), cpu::Conv2dProblem::Pass::forward);
  };
  EXPECT_TRUE(suits(128, 128, 32));
  EXPECT_TRUE(suits(256, 256, 32));
  EXPECT_TRUE(suits(64, 128, 8));
  EXPECT_FALSE(suits(128, 128, 1));
  EXPECT_FALSE(suits(512, 512, 32)) << "16 channels in each group";
  EXPECT_FALSE(suits(64, 64, 64)) << "depthwise";
  EXPECT_FALSE(suits(64, 128, 64)) << "depthwise, with two filters for each channel";
  EXPECT_FALSE(suits(24, 24, 3)) << "an odd number of groups";
  EXPECT_FALSE(suits(80, 80, 16)) << "5 channels";
  EXPECT_FALSE(suits(96, 96, 4)) << "24 channels";
  EXPECT_FALSE(suits(400, 400, 8)) << "50 channels";
  EXPECT_FALSE(suits(128, 128, 32, {.stride_h = 2, .stride_w = 2}));
  EXPECT_FALSE(suits(128, 128, 32, {.dilation_h = 2}));
  EXPECT_FALSE(suits(128, 128, 32, {}, 5));
}

}  // namespace
}  // namespace rondo
