// A scan of rondo's calls to oneDNN: random shapes and strides of every primitive, to find mistakes
// of single versions. The numbers are small integers whose products and sums are exact in f32, so
// results must equal those of the plain loops in f64 in any order of addition; in bf16 the exact
// sum is rounded once. Each case has its own seed. Some mistakes write beyond a buffer: run this
// file with glibc.malloc.check=3 to find them (mallopt(3)).

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "extras/quantization/int8_kernels.h"
#include "support/support.h"
#include "tensor/backend.h"
#include "tensor/cpu/conv/algorithm.h"
#include "tensor/cpu/onednn.h"
#include "tensor/error.h"

namespace rondo {
namespace {

using test::as;
using test::identical;

class OneDnnScan : public ::testing::Test {
 protected:
  // Winograd's transforms divide by 6 and 24: its results are not exact.
  void SetUp() override { cpu::set_conv_algorithms("onednn"); }
  void TearDown() override { cpu::set_conv_algorithms(""); }

  std::int64_t pick(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
  }
  bool chance(double p) { return std::bernoulli_distribution(p)(random_); }
  /// Often 1, because strides are meaningless for sizes of 1.
  std::int64_t size(std::int64_t most) { return chance(0.3) ? 1 : pick(1, most); }

  Tensor integers(const Dims& shape, std::int64_t least, std::int64_t most, DType dtype = f32) {
    Tensor x = Tensor::empty(shape, {.dtype = f64});
    auto* values = x.data_ptr<double>();
    for (std::int64_t i = 0; i < x.numel(); ++i) values[i] = static_cast<double>(pick(least, most));
    return as(x, dtype);
  }

  /// Random integers of this shape in `dtype`: dense, transposed, with gaps, or repeated.
  Tensor matrices(std::int64_t batch, std::int64_t rows, std::int64_t columns, DType dtype) {
    const std::int64_t gap = chance(0.5) ? 0 : pick(1, 9), step = chance(0.15) ? 2 : 1;
    const bool is_transposed = chance(0.5), is_one_for_all = batch > 1 && chance(0.2);
    const std::int64_t inner = (is_transposed ? rows : columns) * step,
                       outer = is_transposed ? columns : rows;
    std::int64_t leading = inner + gap, matrix = outer * leading;
    if (chance(0.15)) {  // every second row (or column) of matrices with an odd number of them
      matrix = (2 * outer - 1) * leading;
      leading *= 2;
    } else if (chance(0.15)) {  // the batch is the second dimension in memory
      matrix = leading;
      leading *= batch;
    }
    const Tensor all = integers({batch * matrix + outer * leading + 8}, -4, 4, dtype);
    Dims strides{is_one_for_all ? 0 : matrix, is_transposed ? step : leading,
                 is_transposed ? leading : step};
    for (int d = 0; d < 3; ++d)  // strides that a view may have for a size of 1
      if (Dims{batch, rows, columns}[d] == 1 && chance(0.3)) strides[d] = pick(0, 70);
    return all.as_view({batch, rows, columns}, strides, pick(0, 8));
  }

  /// x in one of the layouts that convolutions get: dense, channels_last, or a slice.
  Tensor laid_out(const Tensor& x) {
    const std::int64_t layout = pick(0, 2);
    if (layout < 2)
      return as(x, x.dtype(), layout == 0 ? MemoryFormat::contiguous : MemoryFormat::channels_last);
    Dims wide(x.shape().begin(), x.shape().end());
    wide[3] += 3;
    const Tensor all = integers(wide, -3, 3, x.dtype());
    const Tensor part = all.as_view(x.shape(), all.strides(), 2);
    backend(x).copy(x, part);
    return part;
  }

  struct Convolution {
    Dims x, w, y;
    Conv2dParams params;
    std::string text() const {
      return concat("x ", x, ", w ", w, ", stride ", params.stride_h, ' ', params.stride_w,
                    ", padding ", params.pad_h, ' ', params.pad_w, ", dilation ", params.dilation_h,
                    ' ', params.dilation_w, ", groups ", params.groups);
    }
  };
  Convolution convolution() {
    while (true) {
      const std::int64_t groups = chance(0.5) ? 1 : pick(2, 4);
      const bool is_pixel = chance(0.25);
      const std::int64_t in = size(40) * groups, out = size(40) * groups,
                         r = is_pixel ? 1 : size(4), s = is_pixel ? 1 : size(4), most_padding = 2;
      const Conv2dParams p{
          pick(1, 3), pick(1, 3), pick(0, most_padding), pick(0, most_padding), pick(1, 2),
          pick(1, 2), groups};
      const std::int64_t n = size(4), h = size(15), w = size(15);
      const std::int64_t height = h + 2 * p.pad_h - p.dilation_h * (r - 1),
                         width = w + 2 * p.pad_w - p.dilation_w * (s - 1);
      if (height < 1 || width < 1) continue;
      return {{n, in, h, w},
              {out, in / groups, r, s},
              {n, out, (height - 1) / p.stride_h + 1, (width - 1) / p.stride_w + 1},
              p};
    }
  }

  /// Many channels and few pixels, for which activations are copied to blocks of channels.
  Convolution wide_convolution() {
    const std::int64_t in = 16 * pick(32, 34), out = 16 * pick(32, 34), size = pick(2, 4);
    const Dims x{1, in, size, size}, y{1, out, size, size};
    return {x, {out, in, 3, 3}, y, {1, 1, 1, 1, 1, 1, 1}};
  }

  std::mt19937_64 random_{1};
};

TEST_F(OneDnnScan, MatrixProducts) {
  for (int i = 0; i < 3000; ++i) {
    random_.seed(i);
    const DType dtype = i % 3 == 0 ? bf16 : f32;
    const std::int64_t batch = chance(0.6) ? 1 : pick(2, 5), m = size(70), k = size(130),
                       n = size(70);
    const Tensor a = matrices(batch, m, k, dtype), b = matrices(batch, k, n, dtype);
    const Tensor bias = chance(0.5) ? integers({n}, -4, 4, dtype) : Tensor();
    const Tensor y = Tensor::empty({batch, m, n}, {.dtype = dtype}),
                 expected = Tensor::empty({batch, m, n}, {.dtype = f64});
    backend(y).matmul(a, b, bias, y);
    backend(y).matmul(as(a, f64), as(b, f64), bias.defined() ? as(bias, f64) : bias, expected);
    ASSERT_TRUE(identical(y, as(expected, dtype)))
        << "product " << i << ": a " << a.shape() << " with strides " << a.strides() << ", b "
        << b.shape() << " with strides " << b.strides();
  }
}

TEST_F(OneDnnScan, Convolutions) {
  for (int i = 0; i < 2000; ++i) {
    random_.seed(i);
    const DType dtype = i % 3 == 0 ? bf16 : f32;
    const Convolution c = i % 400 == 399 ? wide_convolution() : convolution();
    const Tensor x = laid_out(integers(c.x, -3, 3, dtype)), w = integers(c.w, -3, 3, dtype),
                 dy = laid_out(integers(c.y, -3, 3, dtype));
    const Tensor bias = chance(0.5) ? integers({c.w[0]}, -3, 3, dtype) : Tensor();
    const Tensor x64 = as(x, f64), w64 = as(w, f64), dy64 = as(dy, f64);
    const auto room = [&](const Dims& shape, DType type) {
      const bool is_nhwc = type != f64 && shape.size() == 4 && chance(0.5);
      return Tensor::empty(
          shape, {.dtype = type,
                  .format = is_nhwc ? MemoryFormat::channels_last : MemoryFormat::contiguous});
    };
    Backend& cpu = backend(x);

    const Tensor y = room(c.y, dtype), y64 = room(c.y, f64);
    cpu.conv2d(x, w, bias, y, c.params);
    cpu.conv2d(x64, w64, bias.defined() ? as(bias, f64) : bias, y64, c.params);
    ASSERT_TRUE(identical(as(y, dtype), as(y64, dtype))) << "forward of " << c.text();

    const Tensor dx = room(c.x, dtype), dx64 = room(c.x, f64);
    cpu.conv2d_backward_input(dy, w, dx, c.params);
    cpu.conv2d_backward_input(dy64, w64, dx64, c.params);
    ASSERT_TRUE(identical(as(dx, dtype), as(dx64, dtype)))
        << "gradient of the input of " << c.text();

    const Tensor dw = room(c.w, dtype), dw64 = room(c.w, f64);
    const bool has_bias = chance(0.5);
    const Tensor db = has_bias ? room({c.w[0]}, dtype) : Tensor(),
                 db64 = has_bias ? room({c.w[0]}, f64) : Tensor();
    cpu.conv2d_backward_weight(dy, x, dw, db, c.params);
    cpu.conv2d_backward_weight(dy64, x64, dw64, db64, c.params);
    ASSERT_TRUE(!has_bias || identical(db, as(db64, dtype)))
        << "gradient of the bias of " << c.text();
    ASSERT_TRUE(identical(as(dw, dtype), as(dw64, dtype)))
        << "gradient of the weight of " << c.text();
  }
}

TEST_F(OneDnnScan, ProductsOfBytes) {
  for (int i = 0; i < 400; ++i) {
    random_.seed(i);
    const std::int64_t m = size(40), k = size(150), n = size(40);
    const Tensor x = integers({m, k}, 0, int8_levels(), u8), w = integers({n, k}, -127, 127, i8);
    const Tensor scales = full({m}, 0.5), zero_points = integers({m}, 0, 127, i32),
                 w_scale = full({n}, 0.25);
    const Tensor bias = chance(0.5) ? integers({n}, -9, 9) : Tensor();
    Int8Weight::Prepared prepared;
    const Tensor y = Tensor::empty({m, n});
    int8_linear(x, scales, zero_points, {w, w_scale, prepared}, bias, y, Activation::none);
    Tensor expected = Tensor::empty({m, n}, {.dtype = f64});
    for (std::int64_t r = 0; r < m; ++r) {
      for (std::int64_t c = 0; c < n; ++c) {
        std::int64_t sum = 0;
        for (std::int64_t j = 0; j < k; ++j)
          sum += (x.data_ptr<std::uint8_t>()[r * k + j] -
                  std::int64_t{zero_points.data_ptr<std::int32_t>()[r]}) *
                 w.data_ptr<std::int8_t>()[c * k + j];
        expected.data_ptr<double>()[r * n + c] =
            0.125 * static_cast<double>(sum) + (bias.defined() ? bias.data_ptr<float>()[c] : 0);
      }
    }
    ASSERT_TRUE(identical(y, as(expected, f32))) << m << ' ' << k << ' ' << n;
  }
}

// oneDNN 2.6 computes case 0 wrongly if it gets the zero point; random shapes seldom hit it.
TEST_F(OneDnnScan, ConvolutionsOfBytes) {
  for (int i = 0; i < 1500; ++i) {
    random_.seed(i);
    Convolution c = convolution();
    if (i == 0)
      c = {{3, 51, 7, 2}, {54, 17, 4, 4}, {3, 54, 2, 2}, {3, 2, 1, 2, 1, 1, /*groups=*/3}};
    Backend& cpu = backend(Device::cpu());
    const Quantization q{.scale = 0.5, .zero_point = pick(0, int8_levels())};
    const Tensor x = as(integers(c.x, 0, int8_levels(), u8), u8, MemoryFormat::channels_last);
    const Tensor w = integers(c.w, -127, 127, i8), w_scale = full({c.w[0]}, 0.25);
    const Tensor bias = chance(0.5) ? integers({c.w[0]}, -9, 9) : Tensor();
    Int8Weight::Prepared prepared;
    const bool relu = chance(0.3);
    const Tensor y = as(zeros(c.y), f32, MemoryFormat::channels_last);
    int8_conv2d(x, q, {w, w_scale, prepared}, bias, relu, y, c.params);
    const Tensor x64 = as(x, f64), w64 = as(w, f64), y64 = Tensor::empty(c.y, {.dtype = f64});
    for (std::int64_t j = 0; j < x64.numel(); ++j)
      x64.data_ptr<double>()[j] = 0.5 * (x64.data_ptr<double>()[j] - double(q.zero_point));
    for (std::int64_t j = 0; j < w64.numel(); ++j) w64.data_ptr<double>()[j] *= 0.25;
    cpu.conv2d(x64, w64, bias.defined() ? as(bias, f64) : bias, y64, c.params);
    if (relu) cpu.unary(UnaryOp::relu, y64, y64, {});
    ASSERT_TRUE(identical(as(y, f32), as(y64, f32)))
        << "zero point " << q.zero_point << ", " << c.text();
  }
}

}  // namespace
}  // namespace rondo
