// Creation: PyTorch's dtypes and values, shapes, ownership, and errors.

#include "tensor/creation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "support/errors.h"
#include "support/golden.h"
#include "support/support.h"
#include "tensor/backend.h"

namespace rondo::test {
namespace {

constexpr DType every_dtype[] = {f64, f32, bf16, f16, i64, i32, u8, i8, boolean};

TEST(Creation, FilledTensorsInEveryDtype) {
  for (DType dtype : every_dtype) {
    const Tensor z = zeros({2, 3}, {.dtype = dtype}), o = ones({2, 3}, {.dtype = dtype});
    EXPECT_EQ(z.dtype(), dtype);
    EXPECT_EQ(z.shape(), (Dims{2, 3}));
    EXPECT_EQ(z.to_vector<double>(), std::vector<double>(6, 0)) << dtype;
    EXPECT_EQ(o.to_vector<double>(), std::vector<double>(6, 1)) << dtype;
  }
  EXPECT_EQ(full({2}, -3, {.dtype = i8}).to_vector<int>(), (std::vector<int>{-3, -3}));
  EXPECT_EQ(full({2}, 2.75, {.dtype = i32}).to_vector<int>(), (std::vector<int>{2, 2}));
  EXPECT_EQ(full({1}, std::int64_t{1} << 62, {.dtype = i64}).item<std::int64_t>(),
            std::int64_t{1} << 62);
  EXPECT_EQ(scalar(2.5).dim(), 0);
  EXPECT_EQ(scalar(2.5).item<double>(), 2.5);
  EXPECT_EQ(zeros({0, 4}).numel(), 0);
  EXPECT_THROW(zeros({2, -1}), ShapeError);
}

TEST(Creation, LikeKeepsShapeDtypeAndLayout) {
  const Tensor x = zeros({2, 3, 4, 5}, {.dtype = f64, .format = MemoryFormat::channels_last});
  for (const Tensor& y :
       {empty_like(x), zeros_like(x), ones_like(x), full_like(x, 7), rand_like(x), randn_like(x)}) {
    EXPECT_EQ(y.shape(), x.shape());
    EXPECT_EQ(y.dtype(), f64);
    EXPECT_TRUE(y.is_contiguous(MemoryFormat::channels_last));
  }
  EXPECT_EQ(full_like(x, 7).to_vector<int>(), std::vector<int>(120, 7));
}

// As in PyTorch: the dtype is that of the numbers unless it is given, whatever else is.
TEST(Creation, RangesOfIntegersAreI64WhateverElseIsGiven) {
  const TensorOptions somewhere{.device = Device::cpu()};
  EXPECT_EQ(arange(5, somewhere).dtype(), i64);
  EXPECT_EQ(arange(1, 5, 2, somewhere).dtype(), i64);
  EXPECT_EQ(arange(1, 5, 0.5, somewhere).dtype(), f32);
  EXPECT_EQ(randint(0, 5, {3}, somewhere).dtype(), i64);
  EXPECT_EQ(randperm(5, somewhere).dtype(), i64);
  EXPECT_EQ(randint(0, 5, {3}, {.dtype = f32}).dtype(), f32);
  EXPECT_EQ(zeros({3}, somewhere).dtype(), f32);
  EXPECT_EQ(scalar(3, somewhere).dtype(), f32);
}

TEST(Creation, ArangeAgreesWithPyTorch) {
  const Tensor mine[] = {arange(5),
                         arange(2.5),
                         arange(1, 8, 3),
                         arange(1, 2, 0.3),
                         arange(5, -4, -2),
                         arange(0, 1, 0.1),
                         arange(0, 1, 0.1, {.dtype = f64}),
                         arange(0, 4, 0.5, {.dtype = bf16}),
                         arange(0.5, 4.5, 1, {.dtype = i32}),
                         arange(3, 11, 2, {.dtype = u8}),
                         arange(4, 4),
                         arange(7, 8, 9),
                         arange(1.5, 7.5, 2, {.dtype = i64}),
                         arange(3, 7, 1, {.dtype = f32})};
  for (std::size_t i = 0; i < std::size(mine); ++i) {
    const Tensor want = kernel_golden()[concat("arange.", i)];
    EXPECT_TRUE(all_close(mine[i], want, 0, tolerance(want.dtype()) / 4)) << "arange case " << i;
  }
  EXPECT_EQ(arange(2, {.dtype = f16}).dtype(), f16);
  EXPECT_THROW(arange(0, 5, 0), Error);
  EXPECT_THROW(arange(0, 5, -1), Error);
  EXPECT_THROW(arange(0, 5, 0.5, {.dtype = i64}), Error);
  EXPECT_THROW(arange(0, std::numeric_limits<double>::infinity(), 1), Error);
}

/// The number of elements is that of the floats; then the first element and the step are cut off.
TEST(Creation, FloatsAsIntegersAreThoseOfPyTorch) {
  using Integers = std::vector<std::int64_t>;
  for (const DType dtype : {i64, i32}) {
    const auto numbers = [](const Tensor& x) { return x.to_vector<std::int64_t>(); };
    EXPECT_EQ(numbers(arange(1, 2.5, 1, {.dtype = dtype})), (Integers{1, 2}));
    EXPECT_EQ(numbers(arange(0.0, 100.0, 7.3, {.dtype = dtype})).size(), 14U);
    EXPECT_EQ(numbers(arange(5.5, 0.2, -1.5, {.dtype = dtype})), (Integers{5, 4, 3, 2}));
    EXPECT_THROW(arange(0.0, 2.0, 1.0 / 3, {.dtype = dtype}), Error);  // PyTorch: zeros
    EXPECT_EQ(numbers(linspace(-3.7, 3.7, 10, {.dtype = dtype})),
              (Integers{-3, -2, -1, -1, 0, 0, 1, 1, 2, 3}));
    EXPECT_EQ(numbers(linspace(-3.5, 8.1, 7, {.dtype = dtype})), (Integers{-3, -1, 0, 2, 4, 6, 8}));
    EXPECT_EQ(numbers(logspace(0.3, 2.7, 5, 10, {.dtype = dtype})), (Integers{1, 3, 10, 31, 100}));
  }
}

TEST(Creation, LinspaceAgreesWithPyTorch) {
  const Tensor mine[] = {linspace(0, 1, 5), linspace(-3, 7, 12), linspace(2, -1, 7, {.dtype = f64}),
                         linspace(2, 9, 1), linspace(2, 9, 0),   linspace(0, 10, 5, {.dtype = i64}),
                         linspace(0, 1, 2)};
  for (std::size_t i = 0; i < std::size(mine); ++i) {
    const Tensor want = kernel_golden()[concat("linspace.", i)];
    EXPECT_TRUE(all_close(mine[i], want, tolerance(want.dtype()), tolerance(want.dtype())))
        << "linspace case " << i;
  }
  EXPECT_EQ(linspace(0, 0.3, 4).to_vector().back(), 0.3f);
  EXPECT_THROW(linspace(0, 1, -1), Error);
}

TEST(Creation, Eye) {
  EXPECT_EQ(eye(2, 3).to_vector(), (std::vector<float>{1, 0, 0, 0, 1, 0}));
  EXPECT_EQ(eye(3, 2, {.dtype = i32}).to_vector<int>(), (std::vector<int>{1, 0, 0, 1, 0, 0}));
  EXPECT_EQ(eye(1).to_vector(), std::vector<float>{1});
  EXPECT_EQ(eye(0).shape(), (Dims{0, 0}));
}

TEST(Creation, FromValues) {
  const Tensor x = tensor<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  EXPECT_EQ(x.shape(), (Dims{2, 3}));
  EXPECT_EQ(x.to_vector(), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(tensor<bool>({true, false}).dtype(), boolean);
  EXPECT_EQ(tensor(std::vector<std::int64_t>{1, 2}).dtype(), i64);
  EXPECT_EQ(tensor(std::vector<double>{}).numel(), 0);
  const std::int32_t raw[] = {1, 2, 3};
  EXPECT_EQ(tensor(std::span<const std::int32_t>(raw), {3}).to_vector<int>(),
            (std::vector<int>{1, 2, 3}));
  EXPECT_THROW(tensor<float>({1, 2, 3}, {2, 2}), ShapeError);
}

TEST(Creation, FromBlobSharesAndReleases) {
  std::vector<float> memory{1, 2, 3, 4};
  int released = 0;
  {
    const Tensor x = from_blob(memory.data(), {2, 2}, f32, [&] { ++released; });
    const Tensor row = x.as_view({2}, {1}, 2);
    memory[3] = 9;
    EXPECT_EQ(row.to_vector(), (std::vector<float>{3, 9}));
    backend(x).fill(row, 5);
    EXPECT_EQ(memory, (std::vector<float>{1, 2, 5, 5}));
  }
  EXPECT_EQ(released, 1);
  EXPECT_THROW(from_blob(nullptr, {2}, f32), Error);
}

TEST(Creation, RandomTensorsFollowTheirGenerator) {
  Generator a(42), b(42);
  EXPECT_TRUE(identical(randn({100}, {}, a), randn({100}, {}, b)));
  EXPECT_TRUE(identical(rand({7}, {}, a), rand({7}, {}, b)));
  EXPECT_TRUE(
      identical(randint(-3, 9, {11}, {.dtype = i32}, a), randint(-3, 9, {11}, {.dtype = i32}, b)));
  EXPECT_FALSE(identical(rand({100}, {}, a), rand({100}, {}, a)));
  manual_seed(9);
  const Tensor first = rand({5});
  manual_seed(9);
  EXPECT_TRUE(identical(rand({5}), first));
  EXPECT_THROW(rand({2}, {.dtype = i64}), DTypeError);
  EXPECT_THROW(randn({2}, {.dtype = boolean}), DTypeError);
  EXPECT_THROW(rand_like(zeros({2}, {.dtype = u8})), DTypeError);
  EXPECT_THROW(randint(3, 3, {2}), Error);
}

TEST(Creation, RandpermIsAPermutationAndFair) {
  Generator generator(4);
  for (std::int64_t n : {0, 1, 2, 97, 10007}) {
    std::vector<std::int64_t> order =
        randperm(n, {.dtype = i64}, generator).to_vector<std::int64_t>();
    std::sort(order.begin(), order.end());
    std::vector<std::int64_t> want(static_cast<std::size_t>(n));
    std::iota(want.begin(), want.end(), 0);
    EXPECT_EQ(order, want);
  }
  // All 6 orders of 3: chi-square with 5 degrees of freedom is above 30 once in 10^5 seeds.
  std::map<std::vector<int>, int> counts;
  const int draws = 6000;
  for (int i = 0; i < draws; ++i) ++counts[randperm(3, {.dtype = i64}, generator).to_vector<int>()];
  ASSERT_EQ(counts.size(), 6u);
  double chi_square = 0;
  for (const auto& [order, count] : counts) chi_square += std::pow(count - 1000.0, 2) / 1000;
  EXPECT_LT(chi_square, 30);
  EXPECT_THROW(randperm(-1), Error);
}

TEST(Creation, ValuesMustFitTheDtype) {
  EXPECT_EQ(full({2}, 0.5, {.dtype = boolean}).to_vector<int>(), (std::vector<int>{1, 1}));
  EXPECT_EQ(full({1}, -1, {.dtype = u8}).item<int>(), 255);
  EXPECT_ERROR(full({1}, 300, {.dtype = u8}), Error, "the number 300 does not fit into u8");
  EXPECT_ERROR(full({1}, 1500.0, {.dtype = i8}), Error, "the number 1500 does not fit into i8");
  EXPECT_ERROR(full({1}, NAN, {.dtype = i64}), Error, "the number nan does not fit into i64");
  EXPECT_ERROR(full({1}, 1e6, {.dtype = f16}), Error, "the number 1e+06 does not fit into f16");
  EXPECT_ERROR(full_like(zeros({1}), 1e40), Error, "does not fit into f32");
  EXPECT_TRUE(std::isinf(full({1}, INFINITY, {.dtype = f16}).item()));
}

TEST(Creation, RangesMustFitTheDtype) {
  EXPECT_ERROR(randint(0, 1000, {3}, {.dtype = u8}), Error,
               "randint: not all integers in [0, 1000) fit into u8");
  EXPECT_ERROR(randint(-1, 5, {3}, {.dtype = u8}), Error, "fit into u8");
  EXPECT_ERROR(randint(0, 100000, {3}, {.dtype = f16}), Error, "fit into f16");
  EXPECT_ERROR(randint(0, 3, {3}, {.dtype = boolean}), Error, "fit into bool");
  EXPECT_EQ(randint(255, 256, {3}, {.dtype = u8}).to_vector<int>(), std::vector<int>(3, 255));
  EXPECT_EQ(randint(-128, -127, {1}, {.dtype = i8}).item<int>(), -128);
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(randint(most - 1, most, {1}).item<std::int64_t>(), most - 1);
}

TEST(Creation, HugeRangesAreErrors) {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_THROW(arange(0, most), Error);
  EXPECT_ERROR(arange(-most, most), ShapeError, "is 2^63 or more");
  EXPECT_ERROR(arange(0, std::numeric_limits<std::int64_t>::min(), -1), ShapeError, "2^63");
  EXPECT_ERROR(arange(0, 1e30, 1e-5), ShapeError, "values are too many");
  EXPECT_EQ(arange(most - 2, most).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{most - 2, most - 1}));
}

// PyTorch refuses most of these. Where it does not, numbers would wrap around or be rounded.
TEST(Creation, WhatIsMadeFitsItsDtype) {
  EXPECT_ERROR(arange(0, 300, 1, {.dtype = boolean}), DTypeError,
               "arange: expected a dtype of numbers, got bool");
  EXPECT_ERROR(linspace(0, 1, 2, {.dtype = boolean}), DTypeError, "linspace: expected a dtype");
  EXPECT_ERROR(full({1}, 300, {.dtype = u8}), Error, "full: the number 300 does not fit into u8");
  EXPECT_ERROR(randperm(300, {.dtype = u8}), Error,
               "randperm: not all integers in [0, 300) fit into u8");
  EXPECT_ERROR(randperm(129, {.dtype = i8}), Error, "fit into i8");
  EXPECT_ERROR(randperm(300, {.dtype = bf16}), Error, "fit into bf16");
  EXPECT_ERROR(randperm(2050, {.dtype = f16}), Error, "fit into f16");
  EXPECT_ERROR(randint(0, 300, {2}, {.dtype = bf16}), Error, "fit into bf16");
  EXPECT_ERROR(randint(0, (1 << 24) + 2, {2}, {.dtype = f32}), Error, "fit into f32");
  EXPECT_ERROR(linspace(0, 300, 2, {.dtype = u8}), Error, "the number 300 does not fit into u8");
  EXPECT_ERROR(linspace(0, 1e6, 3, {.dtype = f16}), Error, "does not fit into f16");
  EXPECT_ERROR(arange(250, 258, 1, {.dtype = u8}), Error, "the number 257 does not fit into u8");
  EXPECT_ERROR(arange(0, 1e5, 1e4, {.dtype = f16}), Error, "does not fit into f16");
  EXPECT_EQ(randperm(256, {.dtype = u8}).numel(), 256);
  EXPECT_EQ(randperm(257, {.dtype = bf16}).numel(), 257);
  EXPECT_EQ(arange(250, 256, 1, {.dtype = u8}).to_vector<int>().back(), 255);
  EXPECT_EQ(linspace(0, 255, 2, {.dtype = u8}).to_vector<int>().back(), 255);
}

TEST(Creation, FromNestedLists) {
  const Tensor x = tensor<float>({{1, 2, 3}, {4, 5, 6}});
  EXPECT_EQ(x.shape(), (Dims{2, 3}));
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(tensor<float>({{1}, {2}, {3}}).shape(), (Dims{3, 1}));
  EXPECT_EQ(tensor({{1.0, 2.0}}).shape(), (Dims{1, 2}));
  EXPECT_EQ(tensor<bool>({{{true, false}}, {{false, true}}}).shape(), (Dims{2, 1, 2}));
  EXPECT_EQ(tensor<std::int64_t>({}).shape(), (Dims{0}));
  EXPECT_EQ(tensor<std::int64_t>({}).dtype(), i64);
  EXPECT_ERROR(tensor<float>({{1, 2}, {3}}), ShapeError,
               "tensor: list 1 has the shape [1], the first [2]");
}

TEST(Creation, RandintFromZero) {
  EXPECT_EQ(randint(0, 5, {}).dim(), 0);
  const Tensor x = randint(3, {200});
  EXPECT_EQ(x.dtype(), i64);
  EXPECT_EQ(x.min().item<int>(), 0);
  EXPECT_EQ(x.max().item<int>(), 2);
}

}  // namespace
}  // namespace rondo::test
