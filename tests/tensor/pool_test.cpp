// Pooling, forward and backward, against PyTorch: both layouts, both 16-bit floats, padding, ceil
// mode, NaN, ties; and identities between the kernels.

#include <limits>

#include "support/golden.h"
#include "support/layouts.h"
#include "support/support.h"

namespace rondo::test {
namespace {

struct PoolCase {
  const char* tag;
  Pool2dParams params;
};
const PoolCase cases[] = {
    {"a", {.kernel_h = 2, .kernel_w = 2, .stride_h = 2, .stride_w = 2}},
    {"b", {.kernel_h = 3, .kernel_w = 3, .stride_h = 2, .stride_w = 2, .pad_h = 1, .pad_w = 1}},
    {"c", {.kernel_h = 2, .kernel_w = 3, .stride_h = 1, .stride_w = 2, .pad_h = 1, .pad_w = 1}},
    {"d", {.kernel_h = 3, .kernel_w = 3, .stride_h = 2, .stride_w = 2, .pad_h = 1, .pad_w = 1}},
    {"e", {.kernel_h = 1, .kernel_w = 1, .stride_h = 3, .stride_w = 3}},
};
constexpr DType float_dtypes[] = {f32, f64, bf16, f16};

TEST(MaxPool, ValuesAndIndicesAgreeWithPyTorch) {
  for (const PoolCase& c : cases) {
    for (const char* source : {"x", "spoiled"}) {
      const Tensor want = kernel_golden()[concat("max_pool.", c.tag, ".", source)];
      const Tensor where = kernel_golden()[concat("max_pool.", c.tag, ".", source, ".indices")];
      for (Layout layout : all_layouts) {
        for (DType dtype : float_dtypes) {
          const Tensor x = relaid(layout, kernel_golden()[concat("pool.", source)], dtype);
          Tensor y = empty_in(layout, want.shape(), dtype);
          Tensor indices = empty_in(layout, want.shape(), i64);
          backend(x).max_pool2d(x, y, indices, c.params);
          EXPECT_TRUE(identical(y, converted(want, dtype))) << c.tag << source << dtype;
          EXPECT_TRUE(identical(indices, where)) << c.tag << source << dtype;
        }
      }
    }
  }
}

TEST(MaxPool, BackwardAgreesWithPyTorch) {
  for (const PoolCase& c : cases) {
    const Tensor where = kernel_golden()[concat("max_pool.", c.tag, ".x.indices")];
    for (Layout layout : all_layouts) {
      for (DType dtype : float_dtypes) {
        const Tensor dy = relaid(layout, kernel_golden()[concat("pool.", c.tag, ".dy")], dtype);
        const Tensor dx = relaid(layout, full({2, 3, 7, 6}, 55), dtype);  // must be overwritten
        backend(dx).max_pool2d_backward(dy, relaid(layout, where), c.params, dx);
        const Tensor want = kernel_golden()[concat("max_pool.", c.tag, ".dx")];
        EXPECT_TRUE(identical(dx, converted(want, dtype))) << c.tag << dtype;
      }
    }
  }
}

TEST(MaxPool, BackwardOfMixedLayouts) {
  const Tensor where = kernel_golden()["max_pool.b.x.indices"], dy = kernel_golden()["pool.b.dy"];
  const Tensor want = kernel_golden()["max_pool.b.dx"];
  const Tensor dx = relaid(Layout::channels_last, full({2, 3, 7, 6}, 10));
  backend(dx).max_pool2d_backward(dy, relaid(Layout::gaps, where), cases[1].params, dx);
  EXPECT_TRUE(identical(dx, want));
}

TEST(MaxPool, GatherReadsWhatTheForwardFound) {
  for (const PoolCase& c : cases) {
    const Tensor where = kernel_golden()[concat("max_pool.", c.tag, ".x.indices")];
    const Tensor want = kernel_golden()[concat("max_pool.", c.tag, ".x")];
    for (Layout layout : all_layouts) {
      for (DType dtype : float_dtypes) {
        const Tensor x = relaid(layout, kernel_golden()["pool.x"], dtype);
        Tensor y = empty_in(layout, want.shape(), dtype);
        backend(x).max_pool2d_gather(x, relaid(layout, where), y);
        EXPECT_TRUE(identical(y, converted(want, dtype)));
      }
    }
  }
}

TEST(AvgPool, AgreesWithPyTorch) {
  for (PoolCase c : cases) {
    for (int include : {0, 1}) {
      c.params.count_include_pad = include != 0;
      const Tensor want = kernel_golden()[concat("avg_pool.", c.tag, ".", include)];
      const Tensor want_dx = kernel_golden()[concat("avg_pool.", c.tag, ".", include, ".dx")];
      for (Layout layout : all_layouts) {
        for (DType dtype : float_dtypes) {
          const Tensor x = relaid(layout, kernel_golden()["pool.x"], dtype);
          Tensor y = empty_in(layout, want.shape(), dtype);
          backend(x).avg_pool2d(x, y, c.params);
          EXPECT_TRUE(all_close(converted(y, f64), want, tolerance(dtype, 9, 5)))
              << c.tag << include << dtype << static_cast<int>(layout);
          const Tensor dy = relaid(layout, kernel_golden()[concat("pool.", c.tag, ".dy")], dtype);
          Tensor dx = relaid(layout, full({2, 3, 7, 6}, 55), dtype);  // must be overwritten
          backend(x).avg_pool2d_backward(dy, dx, c.params);
          EXPECT_TRUE(all_close(converted(dx, f64), want_dx, tolerance(dtype, 9, 8)))
              << c.tag << include << dtype << static_cast<int>(layout);
        }
      }
    }
  }
}

TEST(AdaptiveAvgPool, AgreesWithPyTorch) {
  for (const char* tag :
       {"adaptive.11", "adaptive.32", "adaptive.76", "adaptive.98", "adaptive.45"}) {
    const Tensor want = kernel_golden()[tag], want_dx = kernel_golden()[std::string(tag) + ".dx"];
    for (Layout layout : all_layouts) {
      for (DType dtype : float_dtypes) {
        const Tensor x = relaid(layout, kernel_golden()["pool.x"], dtype);
        Tensor y = empty_in(layout, want.shape(), dtype);
        backend(x).adaptive_avg_pool2d(x, y);
        EXPECT_TRUE(all_close(converted(y, f64), want, tolerance(dtype, 42, 5))) << tag << dtype;
        const Tensor dy = relaid(layout, kernel_golden()[std::string(tag) + ".dy"], dtype);
        Tensor dx = relaid(layout, full(x.shape(), 55), dtype);
        backend(x).adaptive_avg_pool2d_backward(dy, dx);
        EXPECT_TRUE(all_close(converted(dx, f64), want_dx, tolerance(dtype, 16, 8)))
            << tag << dtype;
      }
    }
  }
}

TEST(Pool, LayoutsAgreeBitForBitWithManyChannels) {
  // A prime number of channels, more than one run holds, with enough work for several threads.
  Generator generator(2);
  const Dims sizes{2, 131, 13, 11}, pooled{2, 131, 7, 6};
  const Pool2dParams params = cases[1].params;
  const Tensor x = randn(sizes, {}, generator);
  const Tensor x_last = relaid(Layout::channels_last, x);
  Tensor y = empty(pooled), y_last = empty_in(Layout::channels_last, pooled, f32);
  Tensor where = empty(pooled, {.dtype = i64});
  Tensor where_last = empty_in(Layout::channels_last, pooled, i64);
  Backend& cpu = backend(x);
  cpu.max_pool2d(x, y, where, params);
  cpu.max_pool2d(x_last, y_last, where_last, params);
  EXPECT_TRUE(identical(y, y_last));
  EXPECT_TRUE(identical(where, where_last));
  const Tensor dx = zeros(sizes), dx_last = relaid(Layout::channels_last, zeros(sizes));
  cpu.max_pool2d_backward(y, where, params, dx);
  cpu.max_pool2d_backward(y_last, where_last, params, dx_last);
  EXPECT_TRUE(identical(dx, dx_last));
  cpu.avg_pool2d(x, y, params);
  cpu.avg_pool2d(x_last, y_last, params);
  EXPECT_TRUE(identical(y, y_last));
  Tensor mean = empty({2, 131, 1, 1}),
         mean_last = empty_in(Layout::channels_last, {2, 131, 1, 1}, f32);
  cpu.adaptive_avg_pool2d(x, mean);
  cpu.adaptive_avg_pool2d(x_last, mean_last);
  EXPECT_TRUE(identical(mean, mean_last));
}

TEST(Pool, MinusInfinityEmptyBatchesAndIntegers) {
  const float infinity = std::numeric_limits<float>::infinity();
  const Tensor x = full({1, 1, 2, 2}, -infinity);
  Tensor y = empty({1, 1, 1, 1}), where = empty({1, 1, 1, 1}, {.dtype = i64});
  backend(x).max_pool2d(x, y, where, cases[0].params);
  EXPECT_EQ(y.item(), -infinity);
  EXPECT_EQ(where.item<int>(), 0);

  const Tensor none = empty({0, 3, 4, 4}), none_out = empty({0, 3, 2, 2});
  const Tensor none_where = empty({0, 3, 2, 2}, {.dtype = i64});
  EXPECT_NO_THROW(backend(x).max_pool2d(none, none_out, none_where, cases[0].params));
  EXPECT_NO_THROW(backend(x).avg_pool2d_backward(none_out, none, cases[0].params));

  const Tensor integers = zeros({1, 1, 2, 2}, {.dtype = i64});
  EXPECT_THROW(backend(x).max_pool2d(integers, where, where, cases[0].params), DTypeError);
  EXPECT_THROW(backend(x).adaptive_avg_pool2d(integers, where), DTypeError);
}

}  // namespace
}  // namespace rondo::test
