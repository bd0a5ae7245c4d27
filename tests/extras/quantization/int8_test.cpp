// int8 layers: rounding as in PyTorch's quantisers, sums compared with exact arithmetic.

#include "extras/quantization/int8.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <thread>

#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/conv.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "extras/quantization/fake_quantize.h"
#include "support/errors.h"
#include "support/fill.h"
#include "support/golden.h"
#include "support/support.h"

namespace rondo::nn {
namespace {

using test::all_close;
using test::fill;
using test::fill32;
using test::Golden;
using test::identical;
using test::tolerance;

/// x after rounding to int8, in f64: scale (clamp(round(x / scale) + zero_point, 0, levels) -
/// zero_point).
Tensor through_bytes(const Tensor& x, const Quantization& q) {
  const Tensor bytes = empty(x.shape(), {.dtype = u8});
  quantize(x, q, bytes);
  return (bytes.to(f64) - static_cast<double>(q.zero_point)) * q.scale;
}
Tensor weight_of(const Int8Layer& layer) {
  Dims sizes = {layer.weight_int8.size(0)};
  for (std::int64_t d = 1; d < layer.weight_int8.dim(); ++d) sizes.push_back(1);
  return layer.weight_int8.to(f64) * layer.weight_scale.to(f64).reshape(sizes);
}

TEST(Bytes, AreRoundedAsPyTorchDoes) {
  const Golden golden("quantize.txt");
  const Tensor weight = fill32({6, 4, 3, 3}, 5);
  const Int8Conv2d conv = [&] {
    Conv2d conv(4, 6, 3);
    conv.weight = weight;
    return Int8Conv2d(conv, {.scale = 1});
  }();
  EXPECT_TRUE(all_close(conv.weight_scale, golden["weight.scale"], 1e-9));
  EXPECT_TRUE(identical(conv.weight_int8, golden["weight.int8"]));

  if (int8_levels() != 255) GTEST_SKIP() << "bytes of 7 bits on this processor";
  const Tensor x = fill32({2, 50}, 1, 0.7, 1.9);
  const Tensor bytes = empty(x.shape(), {.dtype = u8});
  const Quantization q{.scale = golden["observer.positive.scale"].item<double>(), .zero_point = 0};
  quantize(x, q, bytes);
  EXPECT_TRUE(identical(bytes, golden["quantized.positive"]));
}

TEST(Bytes, EachRowHasItsOwnRange) {
  const auto levels = static_cast<float>(int8_levels());
  const Tensor x = tensor<double>({-1.0, 0.0, 3.0, 0.0, 0.0, 0.0, 2.0, 4.0, 1.0, 1.0, NAN, 2.0})
                       .to(f32)
                       .reshape({4, 3});
  const Tensor bytes = empty({4, 3}, {.dtype = u8}), scales = empty({4}),
               zero_points = empty({4}, {.dtype = i32});
  quantize_rows(x, bytes, scales, zero_points);
  EXPECT_TRUE(
      all_close(scales, tensor<double>({4.0 / levels, 1.0, 4.0 / levels, NAN}).to(f32), 1e-8));
  const auto zero = static_cast<int>(std::nearbyint(levels / 4));
  EXPECT_EQ(zero_points.to_vector<int>(), (std::vector<int>{zero, 0, 0, 0}));
  const int most = int8_levels();
  EXPECT_EQ(bytes.to_vector<int>()[0], 0);
  EXPECT_EQ(bytes.to_vector<int>()[1], zero);
  EXPECT_EQ(bytes.to_vector<int>()[2], most);
  EXPECT_EQ(bytes.to_vector<int>()[7], most);
}

/// Integer sums are exact. The only error is the rounding of a few f32 operations on numbers of the
/// size of the largest sum of magnitudes.
void expect_exact(const Tensor& y, const Tensor& expected) {
  const double size = expected.abs().max().item<double>();
  EXPECT_TRUE(all_close(y, expected.to(f32), tolerance(f32, 4, size)));
}

TEST(Int8Linear, IsTheProductOfWhatTheBytesHold) {
  for (const auto& [rows, in, out] : {std::array<std::int64_t, 3>{1, 1, 1},
                                      {1, 784, 512},
                                      {5, 33, 7},
                                      {64, 65, 10},
                                      {3, 2048, 3}}) {
    SCOPED_TRACE(concat(rows, " x ", in, " to ", out));
    Linear linear(in, out);
    const Tensor x = fill32({rows, in}, 1, 2, 0.5);
    NoGradGuard no_grad;
    const Quantization q = affine_quantization(-1.5, 2.5, int8_levels());
    Int8Linear fixed(linear, affine_quantization(-1.5, 2.5));
    const Tensor bias = linear.bias.to(f64);
    expect_exact(fixed(x), rondo::linear(through_bytes(x, q), weight_of(fixed), bias));

    Int8Linear dynamic(linear);
    Tensor expected;
    for (std::int64_t m = 0; m < rows; ++m) {
      const Tensor row = x.narrow(0, m, 1).contiguous();
      const Quantization own =
          affine_quantization(row.min().item<double>(), row.max().item<double>(), int8_levels());
      expect_exact(dynamic(row), rondo::linear(through_bytes(row, own), weight_of(dynamic), bias));
    }
    // The result of a row does not depend on the other rows.
    EXPECT_TRUE(identical(dynamic(x).narrow(0, rows - 1, 1).contiguous(),
                          dynamic(x.narrow(0, rows - 1, 1).contiguous())));
  }
}

TEST(Int8Linear, TakesTheExtremesWithoutOverflow) {
  // 255 · 127 everywhere, which would overflow 16-bit sums of two products.
  Linear linear(65536, 2, {.bias = false});
  linear.weight = full({2, 65536}, -1);
  NoGradGuard no_grad;
  Int8Linear dynamic(linear);
  EXPECT_EQ(dynamic.weight_int8.to_vector<int>()[0], -127);
  for (double y : dynamic(ones({1, 65536})).to_vector<double>()) EXPECT_NEAR(y / 65536, -1, 1e-5);
}

TEST(Int8Conv2d, IsTheConvolutionOfWhatTheBytesHold) {
  struct Case {
    std::int64_t in, out;
    Pair kernel;
    Conv2dOptions options;
  };
  for (const Case& c :
       {Case{3, 16, 3, {.padding = 1}}, Case{16, 32, 3, {.stride = 2, .padding = 1}},
        Case{16, 8, 1, {.stride = 2}}, Case{4, 6, {3, 2}, {.padding = {2, 0}, .dilation = {2, 1}}},
        Case{8, 8, 3, {.padding = 1, .groups = 8}}, Case{8, 12, 3, {.groups = 4, .bias = false}}}) {
    SCOPED_TRACE(concat(c.in, " to ", c.out, ", ", c.options.groups, " groups"));
    Conv2d conv(c.in, c.out, c.kernel, c.options);
    const Tensor x = fill32({2, c.in, 9, 7}, 1, 2, 0.5);
    NoGradGuard no_grad;
    for (double least : {-1.5, 0.0}) {  // with a zero point, and without
      const Quantization q = affine_quantization(least, 2.5, int8_levels());
      Int8Conv2d plain(conv, affine_quantization(least, 2.5)),
          with_relu(conv, affine_quantization(least, 2.5), true);
      const Tensor expected = conv2d(through_bytes(x, q), weight_of(plain),
                                     conv.bias.defined() ? conv.bias.to(f64) : Tensor(),
                                     {.stride = c.options.stride,
                                      .padding = c.options.padding,
                                      .dilation = c.options.dilation,
                                      .groups = c.options.groups});
      expect_exact(plain(x), expected);
      expect_exact(plain(x.contiguous(MemoryFormat::channels_last)), expected);
      expect_exact(with_relu(x), relu(expected));
    }
  }
}

TEST(Int8, FollowsItsBuffers) {
  // After loading a state dict, and after cloning, the kernels must not use old weights.
  Linear first(8, 4), second(8, 4);
  const Tensor x = fill32({2, 8}, 1);
  NoGradGuard no_grad;
  Int8Linear a(first), b(second);
  const Tensor of_a = a(x), of_b = b(x);
  Int8Linear copy = clone(a);
  a.load_state_dict(b.state_dict());
  EXPECT_TRUE(identical(a(x), of_b));
  EXPECT_TRUE(identical(copy(x), of_a));
  EXPECT_FALSE(identical(of_a, of_b));
}

TEST(Int8, RunsOnSeveralThreadsAtOnce) {
  Linear linear(64, 32);
  Int8Linear layer(linear);
  std::vector<Tensor> ys(4);
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      NoGradGuard no_grad;
      for (int times = 0; times < 20; ++times) ys[i] = layer(fill32({1 + i, 64}, i));
    });
  for (auto& thread : threads) thread.join();
  NoGradGuard no_grad;
  for (std::uint32_t i = 0; i < 4; ++i)
    EXPECT_TRUE(identical(ys[i], layer(fill32({1 + i, 64}, i))));
}

TEST(Int8, RefusesWhatItCannotDo) {
  Linear linear(8, 4);
  Int8Linear layer(linear);
  EXPECT_ERROR(layer(ones({2, 7})), ShapeError, "[2, 7] is not (…, 8)");
  EXPECT_ERROR(layer(ones({2, 8}, {.dtype = i64})), DTypeError, "i64");
  EXPECT_ERROR(layer(ones({2, 8}).requires_grad_()), AutogradError, "no gradient");
  EXPECT_ERROR(Int8Linear(Linear(65537, 1)), Error, "65537 products");
  Int8Conv2d conv(Conv2d(3, 4, 3), {.scale = 1});
  EXPECT_ERROR(conv(ones({1, 3, 2, 2})), ShapeError, "larger than the input");
  Int8Conv2d strided(Conv2d(3, 4, 3, {.stride = 2}), {.scale = 1});
  EXPECT_ERROR(strided(ones({1, 3, 2, 2})), ShapeError, "larger than the input");
  EXPECT_ERROR(conv(ones({1, 4, 5, 5})), ShapeError, "is not (N, 3, H, W)");
  linear.weight.requires_grad_(false).fill_(NAN);
  EXPECT_ERROR(Int8Linear(linear), Error, "a weight is nan");
}

TEST(Int8, EmptyBatchesStayEmpty) {
  NoGradGuard no_grad;
  Linear linear(8, 4);
  EXPECT_EQ(Int8Linear(linear)(empty({0, 8})).shape(), (Dims{0, 4}));
  Conv2d conv(3, 4, 3);
  EXPECT_EQ(Int8Conv2d(conv, {.scale = 1})(empty({0, 3, 5, 5})).shape(), (Dims{0, 4, 3, 3}));
}

}  // namespace
}  // namespace rondo::nn
