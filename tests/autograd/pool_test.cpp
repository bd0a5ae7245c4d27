// Pooling against PyTorch, in both memory formats, and its errors.

#include "autograd/ops/pool.h"

#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "support/errors.h"
#include "support/golden_case.h"
#include "support/support.h"

namespace rondo::test {
namespace {

using X = const Tensors&;

struct Window {
  Conv2dOptions::Pair kernel;
  Pool2dOptions options;
};
// {2, 1, true}: true is not a dilation.
static_assert(!std::is_constructible_v<Conv2dOptions::Pair, bool> &&
              !std::is_constructible_v<Conv3dOptions::Triple, bool>);
const Window windows[] = {
    {2, {}},
    {3, {.stride = 2, .padding = 1}},
    {3, {.stride = 2, .padding = 1, .ceil_mode = true}},
    {{2, 3}, {.stride = {1, 2}, .padding = {0, 1}}},
    {2, {.stride = 3, .padding = 1, .ceil_mode = true}},
};

/// Runs the case, and again with channels_last input, whose result must be channels_last too.
template <class F>
void expect_pooling(const std::string& name, F f, std::int64_t length) {
  expect_golden(
      name, [f](X x) { return f(x[0]); }, length);
  expect_golden(
      name,
      [f](X x) {
        Tensor y = f(contiguous(x[0], MemoryFormat::channels_last));
        EXPECT_TRUE(y.is_contiguous(MemoryFormat::channels_last));
        return y;
      },
      length);
}

TEST(Pool, MaxAndAverageAgreeWithPyTorch) {
  for (int i = 0; i < 5; ++i) {
    const Window& w = windows[i];
    std::string number = std::to_string(i);
    expect_pooling(
        "max_pool2d." + number,
        [&w](const Tensor& x) { return max_pool2d(x, w.kernel, w.options); }, 9);
    for (bool include : {false, true}) {
      Pool2dOptions options = w.options;
      options.count_include_pad = include;
      expect_pooling(
          "avg_pool2d." + number + (include ? ".1" : ".0"),
          [&](const Tensor& x) { return avg_pool2d(x, w.kernel, options); }, 9);
    }
  }
}

TEST(Pool, TheFirstOfEqualsGetsTheGradient) {
  expect_pooling(
      "max_pool2d.ties",
      [](const Tensor& x) { return max_pool2d(x, 3, {.stride = 1, .padding = 1}); }, 9);
}

TEST(Pool, AdaptiveAndUpsamplingAgreeWithPyTorch) {
  for (auto [name, size] : {std::pair<const char*, Conv2dOptions::Pair>{"1x1", 1},
                            {"3x4", {3, 4}},
                            {"5x6", {5, 6}},
                            {"7x2", {7, 2}}}) {
    expect_pooling(
        std::string("adaptive_avg_pool2d.") + name,
        [size = size](const Tensor& x) { return adaptive_avg_pool2d(x, size); }, 30);
  }
  expect_pooling(
      "upsample_nearest2d", [](const Tensor& x) { return upsample_nearest2d(x, 3); }, 9);
}

TEST(Pool, AnEmptyBatch) {
  Tensor x = zeros({0, 2, 4, 4}).requires_grad_();
  EXPECT_EQ(max_pool2d(x, 2).shape(), (Dims{0, 2, 2, 2}));
  sum(avg_pool2d(x, 2)).backward();
  EXPECT_EQ(x.grad().shape(), x.shape());
}

TEST(Pool, Errors) {
  Tensor x = zeros({1, 1, 4, 4});
  EXPECT_ERROR(max_pool2d(zeros({4, 4}), 2), ShapeError,
               "max_pool2d: input [4, 4] is not (N, C, H, W)");
  EXPECT_ERROR(max_pool2d(zeros({1, 1, 4, 4}, {.dtype = i64}), 2), DTypeError, "the input is i64");
  EXPECT_ERROR(max_pool2d(x, 5), ShapeError, "input [1, 1, 4, 4] is smaller than the kernel 5x5");
  EXPECT_ERROR(max_pool2d(x, 0), ShapeError, "kernel 0x0 is empty");
  EXPECT_ERROR(avg_pool2d(x, 2, {.stride = -1}), ShapeError, "avg_pool2d: stride -1x-1");
  EXPECT_ERROR(avg_pool2d(x, 2, {.padding = {0, 2}}), ShapeError,
               "padding 0x2 is not within half of the kernel 2x2");
  EXPECT_ERROR(adaptive_avg_pool2d(x, {0, 1}), ShapeError, "output size 0x1 is empty");
  EXPECT_ERROR(adaptive_avg_pool2d(zeros({1, 1, 0, 4}), 1), ShapeError, "has empty planes");
  EXPECT_ERROR(upsample_nearest2d(x, 0), ShapeError, "scale 0 is not positive");
}

TEST(Pool, EmptyPlanesAreRefused) {
  Tensor x = zeros({1, 1, 0, 4});
  EXPECT_ERROR(max_pool2d(x, 2, {.padding = 1}), ShapeError,
               "max_pool2d: input [1, 1, 0, 4] has empty planes");
  EXPECT_ERROR(avg_pool2d(x, 2, {.padding = 1}), ShapeError, "avg_pool2d: input [1, 1, 0, 4]");
  EXPECT_EQ(max_pool2d(zeros({0, 1, 4, 4}), 2).shape(), (Dims{0, 1, 2, 2}));
}

}  // namespace
}  // namespace rondo::test
