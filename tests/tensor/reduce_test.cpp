// Reductions against PyTorch, in every layout and for every set of dimensions; accuracy and
// determinism of long sums; NaN.

#include <omp.h>

#include <cmath>

#include "support/golden.h"
#include "support/layouts.h"
#include "support/support.h"

namespace rondo::test {
namespace {

const char* const dim_sets[] = {"0", "1", "3", "02", "23", "023", "123", "0123"};

struct ReduceCase {
  const char* name;
  ReductionOp op;
};
const ReduceCase float_cases[] = {{"sum", ReductionOp::sum},
                                  {"sum_squares", ReductionOp::sum_squares},
                                  {"prod", ReductionOp::prod},
                                  {"max", ReductionOp::max},
                                  {"min", ReductionOp::min}};

Tensor reduced(ReductionOp op, const Tensor& x, const Dims& sizes, DType dtype,
               Layout layout = Layout::contiguous) {
  Tensor y = empty_in(layout, sizes, dtype);
  backend(x).reduce(op, x, y);
  return y;
}

TEST(Reduce, AgreesWithPyTorchInEveryLayoutAndDtype) {
  for (DType dtype : {f32, f64, bf16, f16}) {
    for (const char* source : {"x", "spoiled"}) {
      const Tensor exact = kernel_golden()[std::string("reduce.") + source];
      for (Layout layout : all_layouts) {
        const Tensor x = relaid(layout, exact, dtype);
        for (const ReduceCase& c : float_cases) {
          for (const char* dims : dim_sets) {
            const Tensor want = kernel_golden()[concat("reduce.", source, ".", c.name, ".", dims)];
            const Tensor y = reduced(c.op, x, want.shape(), dtype, Layout::gaps);
            // Inputs are rounded to the dtype too; terms are at most 4, products at most 16 long
            // chains of factors near 1.
            const double rounding = tolerance(dtype, exact.numel() / want.numel(), 1);
            EXPECT_TRUE(all_close(converted(y, f64), converted(want, f64), 4 * rounding,
                                  c.op == ReductionOp::prod ? 32 * rounding : rounding))
                << dtype << ' ' << source << ' ' << c.name << " over " << dims << " layout "
                << static_cast<int>(layout);
          }
        }
      }
    }
  }
}

TEST(Reduce, IntegersAndBooleans) {
  const Tensor exact = kernel_golden()["reduce.integers"];
  for (DType dtype : {i64, i32, i8}) {
    for (Layout layout : all_layouts) {
      const Tensor x = relaid(layout, exact, dtype);
      for (const char* dims : dim_sets) {
        const Tensor sum = kernel_golden()[concat("reduce.integers.sum.", dims)];
        const Tensor max = kernel_golden()[concat("reduce.integers.max.", dims)];
        const Tensor all = kernel_golden()[concat("reduce.integers.all.", dims)];
        EXPECT_TRUE(identical(reduced(ReductionOp::sum, x, sum.shape(), i64), sum));
        EXPECT_TRUE(
            identical(reduced(ReductionOp::max, x, max.shape(), dtype), converted(max, dtype)));
        EXPECT_TRUE(identical(reduced(ReductionOp::all, x, all.shape(), boolean), all));
      }
    }
  }
  Tensor above = empty(exact.shape(), {.dtype = boolean});
  backend(above).binary(BinaryOp::gt, exact, full_like(exact, 8), above);
  for (const char* dims : dim_sets) {
    const Tensor any = kernel_golden()[concat("reduce.integers.any.", dims)];
    EXPECT_TRUE(identical(reduced(ReductionOp::any, above, any.shape(), boolean), any));
  }
}

TEST(Reduce, NanIsTrueForAllAndAny) {
  const Tensor x = tensor<float>({std::nanf(""), std::nanf("")});
  EXPECT_TRUE(reduced(ReductionOp::all, x, {1}, boolean).item<bool>());
  EXPECT_TRUE(reduced(ReductionOp::any, x, {1}, boolean).item<bool>());
}

TEST(Reduce, EmptyGivesTheIdentity) {
  const Tensor x = empty({3, 0});
  EXPECT_EQ(reduced(ReductionOp::sum, x, {3, 1}, f32).to_vector(), std::vector<float>(3, 0));
  EXPECT_EQ(reduced(ReductionOp::prod, x, {3, 1}, f32).to_vector(), std::vector<float>(3, 1));
  EXPECT_TRUE(reduced(ReductionOp::all, x, {1, 1}, boolean).item<bool>());
  EXPECT_FALSE(reduced(ReductionOp::any, x, {1, 1}, boolean).item<bool>());
  EXPECT_EQ(reduced(ReductionOp::sum, x, {1, 0}, f32).numel(), 0);
}

TEST(Reduce, SizesAroundTheBlocks) {
  // A known sum, at each length where a loop of the kernel begins, ends or is split.
  for (std::int64_t n :
       {1, 15, 16, 17, 63, 64, 65, 511, 512, 513, 2047, 2048, 2081, 8191, 16411, 40009}) {
    const Tensor x = arange(1, n + 1, 1, {.dtype = f64});
    const double sum = static_cast<double>(n) * static_cast<double>(n + 1) / 2;
    EXPECT_EQ(reduced(ReductionOp::sum, x, {1}, f64).item<double>(), sum) << n;
    EXPECT_EQ(reduced(ReductionOp::max, x, {1}, f64).item<double>(), static_cast<double>(n));
    EXPECT_EQ(reduced(ReductionOp::min, x, {1}, f64).item<double>(), 1);
    for (std::int64_t m : {1, 3, 67}) {
      // Each row of m columns contains its row number, so the sums of all columns are equal.
      const Tensor rows = empty({n, m}, {.dtype = f64});
      backend(x).copy(x.as_view({n, m}, {1, 0}, 0), rows);
      EXPECT_TRUE(identical(reduced(ReductionOp::sum, rows, {1, m}, f64),
                            full({1, m}, sum, {.dtype = f64})));
    }
  }
}

TEST(Reduce, WideRowsAndManyOutputs) {
  const std::int64_t rows = 131, columns = 1031;  // more columns than a tile; both are primes
  const Tensor x = arange(rows * columns, {.dtype = f64}).as_view({rows, columns}, {columns, 1}, 0);
  std::vector<double> down(columns), across(rows);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      down[j] += static_cast<double>(i * columns + j);
      across[i] += static_cast<double>(i * columns + j);
    }
  }
  EXPECT_EQ(reduced(ReductionOp::sum, x, {1, columns}, f64).to_vector<double>(), down);
  EXPECT_EQ(reduced(ReductionOp::sum, x, {rows, 1}, f64).to_vector<double>(), across);
}

/// Many sums of a few neighbours each: the blocks that upsampling makes of a pixel, and pairs.
TEST(Reduce, FewNeighboursToEachResult) {
  for (const std::int64_t n : {2, 3, 15, 63, 64}) {
    const std::int64_t h = 3, w = 259;
    const Tensor x =
        arange(h * n * w * n, {.dtype = f64}).as_view({h, n, w, n}, {n * w * n, w * n, n, 1}, 0);
    std::vector<double> blocks(h * w), pairs(h * n * w);
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      blocks[i / (n * w * n) * w + i / n % w] += static_cast<double>(i);
      pairs[i / n] += static_cast<double>(i);
    }
    EXPECT_EQ(reduced(ReductionOp::sum, x, {h, 1, w, 1}, f64).to_vector<double>(), blocks) << n;
    EXPECT_EQ(reduced(ReductionOp::sum, x, {h, n, w, 1}, f64).to_vector<double>(), pairs) << n;
    const Tensor turned =
        Tensor::empty({w, h}, {.dtype = f64}).as_view({h, 1, w, 1}, {1, 1, h, 1}, 0);
    backend(x).reduce(ReductionOp::sum, x, turned);
    EXPECT_EQ(turned.to_vector<double>(), blocks) << n;
  }
}

TEST(Reduce, ErrorOfLongFloatSumsDoesNotGrow) {
  const std::int64_t n = 3'000'017;
  Generator generator(11);
  const Tensor x = rand({n}, {}, generator);
  double exact = 0;
  for (std::int64_t i = 0; i < n; ++i) exact += static_cast<double>(x.data_ptr<float>()[i]);
  // One rounding at the end, and 64 additions in each of 32 parts. A naive f32 loop has an error of
  // 1e-4 or more.
  EXPECT_NEAR(reduced(ReductionOp::sum, x, {1}, f32).item<double>() / exact, 1, 2e-7);
  const Tensor columns = x.as_view({n / 7, 7}, {7, 1}, 0);
  const Tensor sums = reduced(ReductionOp::sum, columns, {1, 7}, f32);
  EXPECT_NEAR(reduced(ReductionOp::sum, sums, {1, 1}, f32).item<double>() / exact, 1, 1e-5);
}

TEST(Reduce, SixteenBitSumsAreAccumulatedWider) {
  const Tensor ones_bf16 = full({4099}, 1, {.dtype = bf16});
  EXPECT_EQ(reduced(ReductionOp::sum, ones_bf16, {1}, bf16).item<float>(), 4096);  // 4099 rounded
  const Tensor small = full({4096}, 0.25, {.dtype = f16});
  EXPECT_EQ(reduced(ReductionOp::sum, small, {1}, f16).item<float>(), 1024);
}

TEST(Reduce, SameBitsForAnyNumberOfThreads) {
  Generator generator(5);
  const Tensor x = randn({257, 1021}, {}, generator);
  const int threads = omp_get_max_threads();
  for (const Dims& sizes : {Dims{1, 1}, Dims{257, 1}, Dims{1, 1021}}) {
    const Tensor many = reduced(ReductionOp::sum, x, sizes, f32);
    omp_set_num_threads(1);
    const Tensor one = reduced(ReductionOp::sum, x, sizes, f32);
    omp_set_num_threads(threads);
    EXPECT_TRUE(identical(many, one));
  }
}

TEST(Extremum, AgreesWithPyTorchWithTiesAndNan) {
  for (Layout layout : all_layouts) {
    for (DType dtype : {f32, f64, bf16, f16}) {
      const Tensor x = relaid(layout, kernel_golden()["extremum.x"], dtype);
      for (std::int64_t dim : {0, 1}) {
        for (bool largest : {true, false}) {
          const char* name = largest ? "max." : "min.";
          const Tensor want = kernel_golden()[concat("extremum.", name, dim)];
          const Tensor where = kernel_golden()[concat("extremum.arg", name, dim)];
          Tensor values = empty_in(layout, want.shape(), dtype);
          Tensor indices = empty_in(layout, want.shape(), i64);
          backend(x).extremum(largest, x, dim, values, indices);
          EXPECT_TRUE(identical(values, converted(want, dtype)));
          EXPECT_TRUE(identical(indices, where));
        }
      }
    }
  }
}

TEST(Extremum, ScalarsIntegersAndEmptyDimensions) {
  const Tensor x = scalar(5, {.dtype = i32});
  Tensor value = empty({}, {.dtype = i32}), index = empty({}, {.dtype = i64});
  backend(x).extremum(true, x, 0, value, index);
  EXPECT_EQ(value.item<int>(), 5);
  EXPECT_EQ(index.item<int>(), 0);

  const Tensor bytes = tensor<std::uint8_t>({3, 255, 0, 255}, {1, 4});
  Tensor best = empty({1, 1}, {.dtype = u8}), where = empty({1, 1}, {.dtype = i64});
  backend(x).extremum(true, bytes, 1, best, where);
  EXPECT_EQ(best.item<int>(), 255);
  EXPECT_EQ(where.item<int>(), 1);

  Tensor none = empty({2, 1}), nowhere = empty({2, 1}, {.dtype = i64});
  EXPECT_THROW(backend(x).extremum(true, empty({2, 0}), 1, none, nowhere), ShapeError);
}

}  // namespace
}  // namespace rondo::test
