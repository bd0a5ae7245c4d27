// Kernels that work along one dimension: cumsum, softmax, sort and topk, against PyTorch.

#include "tensor/cpu/lines.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "autograd/ops/arithmetic.h"
#include "support/golden.h"
#include "support/layouts.h"
#include "support/support.h"
#include "tensor/creation.h"

namespace rondo::test {
namespace {

TEST(Walker, SeekAgreesWithNext) {
  const Dims sizes{2, 3, 1, 4};
  const std::array<Dims, 2> strides{Dims{12, 4, 4, 1}, Dims{1, 0, 9, -2}};
  cpu::Walker<2> step(sizes, strides);
  for (std::int64_t i = 0; i < numel_of(sizes); ++i, step.next()) {
    cpu::Walker<2> jump(sizes, strides);
    jump.seek(i);
    EXPECT_EQ(step.offsets(), jump.offsets()) << i;
    EXPECT_EQ(step.offsets()[0], i);
  }
}

TEST(Lines, LoadAndStoreConvertEveryDtype) {
  for (DType dtype : {f64, f32, bf16, f16, i64, i32, u8, i8, boolean}) {
    const Tensor x = empty_in(Layout::gaps, {5}, dtype);
    const std::int64_t in[5] = {1, 0, 1, 1, 0};
    cpu::store(dtype, x.data_ptr(), 0, x.stride(0), 5, in);
    std::array<float, 5> out{};
    cpu::load(dtype, x.data_ptr(), 0, x.stride(0), 5, out.data());
    for (int i = 0; i < 5; ++i) EXPECT_EQ(out[i], static_cast<float>(in[i])) << dtype;
    EXPECT_EQ(x.to_vector<double>(), (std::vector<double>{1, 0, 1, 1, 0})) << dtype;
  }
}

TEST(Cumsum, AgreesWithPyTorch) {
  for (Layout layout : all_layouts) {
    for (DType dtype : {f32, f64, bf16, f16}) {
      const Tensor x = relaid(layout, kernel_golden()["line.x"], dtype);
      for (std::int64_t dim : {0, 1, 2}) {
        for (bool reverse : {false, true}) {
          Tensor y = empty_in(layout, x.shape(), dtype);
          backend(x).scan(ScanOp::sum, x, dim, reverse, y);
          const Tensor want = kernel_golden()[concat(reverse ? "cumsum.reverse." : "cumsum.", dim)];
          const double rounding = tolerance(dtype, x.shape()[dim], 1);
          EXPECT_TRUE(all_close(converted(y, f64), want, 2 * rounding, rounding));
        }
      }
    }
  }
}

TEST(Cumsum, LongFloatSumsStayExact) {
  // 2^24 + 1 is not a float: a running f32 sum of ones would stop there, a double one does not.
  const std::int64_t n = (1 << 24) + 9;
  const Tensor x = ones({n}), y = empty({n});
  backend(x).scan(ScanOp::sum, x, 0, false, y);
  EXPECT_EQ(y.data_ptr<float>()[n - 1], static_cast<float>(n));
  const Tensor integers = tensor<std::int8_t>({100, 27, -127, 3});
  const Tensor sums = empty_like(integers);
  backend(x).scan(ScanOp::sum, integers, 0, true, sums);
  EXPECT_EQ(sums.to_vector<int>(), (std::vector<int>{3, -97, -124, 3}));
}

// Masks from another library's memory: every byte but 0 is true.
TEST(Mask, MayHaveOtherBytesThanZeroAndOne) {
  std::vector<std::uint8_t> bytes = {2, 0, 255, 1, 0, 4};
  const Tensor mask = from_blob(bytes.data(), {6}, boolean);
  const Tensor x = arange(6, {.dtype = f32}), none = zeros({6}), y = empty({6});
  const Tensor places = empty({4}, {.dtype = i64});
  const Tensor count = empty({1}, {.dtype = i64});
  backend(mask).reduce(ReductionOp::sum, mask, count);
  EXPECT_EQ(count.item<std::int64_t>(), 4);
  backend(mask).true_places(mask, places);
  EXPECT_EQ(places.to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 2, 3, 5}));
  backend(mask).where(mask, x, none, y);
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{0, 0, 2, 3, 0, 5}));
}

template <class T>
void check_choice() {
  constexpr std::int64_t n = 70'001;
  const Tensor condition = lt(rand({n}), 0.5);
  const Tensor a = randint(0, 100, {n}).to(dtype_of<T>), b = randint(0, 100, {n}).to(dtype_of<T>);
  const auto chosen = [&](const Tensor& left, const Tensor& right, const Tensor& y) {
    backend(y).where(condition, left.broadcast_view({n}), right.broadcast_view({n}), y);
    const auto c = condition.to(u8).to_vector<std::uint8_t>();
    const auto of_a = left.broadcast_view({n}).to_vector<T>(),
               of_b = right.broadcast_view({n}).to_vector<T>(), got = y.to_vector<T>();
    for (std::size_t i = 0; i < c.size(); ++i) ASSERT_EQ(got[i], c[i] != 0 ? of_a[i] : of_b[i]);
  };
  const Tensor y = empty_like(a), one = a.narrow(0, 3, 1), other = b.narrow(0, 5, 1);
  chosen(a, b, y);
  chosen(one, b, y);
  chosen(a, other, y);
  chosen(one, other, y);
  const Tensor every_second = empty({2 * n}, {.dtype = dtype_of<T>}).as_view({n}, {2}, 0);
  chosen(a, b, every_second);
}
TEST(Where, ChoosesWordsOfEachSize) {
  check_choice<std::uint8_t>();
  check_choice<float>();
  check_choice<double>();
}

TEST(Scan, OfTheLargestGivesPlacesFromEitherEnd) {
  const Tensor x = tensor<float>({1, 3, 2, 3}), places = empty({4}, {.dtype = i64});
  const auto scanned = [&](ScanOp op, bool reverse) {
    backend(x).scan(op, x, 0, reverse, places);
    return places.to_vector<std::int64_t>();
  };
  using Integers = std::vector<std::int64_t>;
  EXPECT_EQ(scanned(ScanOp::max, false), (Integers{0, 1, 1, 3}));
  EXPECT_EQ(scanned(ScanOp::max, true), (Integers{1, 1, 3, 3}));
  EXPECT_EQ(scanned(ScanOp::min, true), (Integers{0, 2, 2, 3}));
}

TEST(Softmax, AgreesWithPyTorch) {
  for (Layout layout : all_layouts) {
    for (DType dtype : {f32, f64, bf16, f16}) {
      const Tensor x = relaid(layout, kernel_golden()["line.x"], dtype);
      for (std::int64_t dim : {0, 1, 2}) {
        for (bool log : {false, true}) {
          Tensor y = empty_in(layout, x.shape(), dtype);
          backend(x).softmax(log, x, dim, y);
          const Tensor want = kernel_golden()[concat(log ? "log_softmax." : "softmax.", dim)];
          EXPECT_TRUE(all_close(converted(y, f64), want, tolerance(dtype), tolerance(dtype)));
        }
      }
    }
  }
}

TEST(Softmax, LargeInfiniteAndNanInputs) {
  const Tensor x = kernel_golden()["softmax.odd.x"];
  for (bool log : {false, true}) {
    Tensor y = empty_like(x);
    backend(x).softmax(log, x, 1, y);
    const Tensor want = kernel_golden()[log ? "log_softmax.odd" : "softmax.odd"];
    EXPECT_TRUE(all_close(y, want, tolerance(f32), tolerance(f32))) << y << want;
  }
}

TEST(Softmax, RowsSumToOneAtAwkwardSizes) {
  Generator generator(3);
  for (std::int64_t n : {1, 2, 15, 17, 1009}) {
    const Tensor x = randn({41, n}, {}, generator), y = empty_like(x);
    backend(x).softmax(false, x, 1, y);
    Tensor sums = empty({41, 1});
    backend(x).reduce(ReductionOp::sum, y, sums);
    EXPECT_TRUE(all_close(sums, ones({41, 1}), tolerance(f32, n, 1 / std::sqrt(double(n)))));
  }
  const Tensor none = empty({0, 5});
  EXPECT_NO_THROW(backend(none).softmax(false, none, 1, empty_like(none)));
  const Tensor integers = zeros({2, 2}, {.dtype = i64});
  EXPECT_THROW(backend(integers).softmax(false, integers, 1, empty_like(integers)), DTypeError);
}

/// Along a dimension that is not the fastest, many lines are computed together.
TEST(Softmax, LinesSideBySideAreThoseOfF64) {
  for (const auto& [shape, dim] : std::vector<std::pair<Dims, std::int64_t>>{{{3, 5, 300}, 1},
                                                                             {{2, 6, 7, 9, 3}, 1},
                                                                             {{7, 2, 16}, 0},
                                                                             {{1, 1, 257}, 0},
                                                                             {{9, 1000}, 0}}) {
    for (const bool log : {false, true}) {
      const Tensor x = empty(shape), y = empty_like(x), dy = randn(shape), dx = empty_like(x);
      backend(x).normal(x, Philox{7, 1}, 0, 4);
      x.data_ptr<float>()[1] = -INFINITY;
      x.data_ptr<float>()[2] = INFINITY;
      x.data_ptr<float>()[3] = NAN;
      const Tensor wide = as(x, f64), want = empty_like(wide), want_dx = empty_like(wide);
      backend(x).softmax(log, x, dim, y);
      backend(x).softmax(log, wide, dim, want);
      // A logarithm is up to 40 here.
      EXPECT_TRUE(all_close(as(y, f64), want, 4 * tolerance(f32), 4 * tolerance(f32)));
      backend(x).softmax_backward(log, dy, y, dim, dx);
      backend(x).softmax_backward(log, as(dy, f64), as(y, f64), dim, want_dx);
      EXPECT_TRUE(all_close(as(dx, f64), want_dx, tolerance(f32, shape[dim], 4)));
      backend(x).softmax(log, x, dim, x);
      EXPECT_TRUE(identical(x, y)) << "in place";
    }
  }
}

struct NanLast {
  using type = double;
  bool operator()(double a, double b) const { return a < b || (a == a && b != b); }
};
struct Ascending {
  using type = std::int64_t;
  bool operator()(std::int64_t a, std::int64_t b) const { return a < b; }
};

TEST(Sort, AgreesWithPyTorchStableAndWithNan) {
  for (Layout layout : all_layouts) {
    for (DType dtype : {f32, f64, bf16, f16}) {
      const Tensor x = relaid(layout, kernel_golden()["sort.x"], dtype);
      for (std::int64_t dim : {0, 1}) {
        for (int descending : {0, 1}) {
          Tensor values = empty_in(layout, x.shape(), dtype);
          Tensor indices = empty_in(layout, x.shape(), i64);
          backend(x).sort(x, dim, descending != 0, values, indices);
          const std::string tag = concat(dim, ".", descending);
          EXPECT_TRUE(identical(values, converted(kernel_golden()["sort.values." + tag], dtype)));
          EXPECT_TRUE(identical(indices, kernel_golden()["sort.indices." + tag]));
        }
      }
    }
  }
}

TEST(Sort, TopkIsTheHeadOfTheSortedOrder) {
  const Tensor x = kernel_golden()["sort.x"];
  for (std::int64_t k : {0, 1, 4, 10, 11}) {
    for (int largest : {0, 1}) {
      const Tensor all = kernel_golden()[concat("sort.values.1.", largest)];
      const Tensor order = kernel_golden()[concat("sort.indices.1.", largest)];
      const Tensor values = empty({3, k}), indices = empty({3, k}, {.dtype = i64});
      backend(x).topk(x, 1, largest != 0, values, indices);
      EXPECT_TRUE(identical(values, all.as_view({3, k}, {11, 1}, 0)));
      EXPECT_TRUE(identical(indices, order.as_view({3, k}, {11, 1}, 0)));
    }
  }
}

// Against std::stable_sort: many equal elements, 0 and -0, infinities and NaN of both signs, and
// the ends of the integers, in lines that are sorted by comparisons and in lines that are sorted by
// radix.
TEST(Sort, AgreesWithAStableSort) {
  Generator generator(1);
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const std::vector<double> special = {0.0, -0.0, inf, -inf, nan, -nan, 1e-310, -1e-310};
  const std::vector<std::int64_t> ends = {std::numeric_limits<std::int64_t>::min(), 0, -1,
                                          std::numeric_limits<std::int64_t>::max()};
  const auto expect_sorted = [](const Tensor& x, auto less) {
    using T = typename decltype(less)::type;
    const std::vector<T> elements = x.to_vector<T>();
    for (bool descending : {false, true}) {
      std::vector<std::int64_t> expected(elements.size());
      std::iota(expected.begin(), expected.end(), 0);
      std::ranges::stable_sort(expected, [&](std::int64_t a, std::int64_t b) {
        return descending ? less(elements[b], elements[a]) : less(elements[a], elements[b]);
      });
      Tensor values = empty_like(x), indices = empty(x.shape(), {.dtype = i64});
      backend(x).sort(x, 0, descending, values, indices);
      EXPECT_EQ(indices.to_vector<std::int64_t>(), expected) << x.dtype() << " " << x.shape();
      Tensor moved = empty_like(x);
      backend(x).index_select(x, 0, indices, moved);
      EXPECT_TRUE(identical(values, moved));
    }
  };
  for (std::int64_t n : {63, 64, 300, 5000}) {
    for (DType dtype : {f32, f64, bf16}) {
      const Tensor x = randn({n}, {.dtype = dtype}, generator);
      for (std::size_t i = 0; i < special.size(); ++i) {
        x.narrow(0, static_cast<std::int64_t>(5 * i), 1).fill_(special[i]);
        x.narrow(0, n - 1 - static_cast<std::int64_t>(i), 1).fill_(special[i]);
      }
      expect_sorted(x, NanLast{});
    }
    const Tensor x = randint(-3, 3, {n}, {.dtype = i64}, generator);
    for (std::size_t i = 0; i < ends.size(); ++i) x.data_ptr<std::int64_t>()[7 * i] = ends[i];
    expect_sorted(x, Ascending{});
  }
}

TEST(Sort, IntegersBooleansAndLargeLines) {
  // Beyond 2^53 two different integers may convert to the same double, so they must not be compared
  // as doubles.
  const std::int64_t big = std::int64_t{1} << 53;
  const Tensor x = tensor<std::int64_t>({big + 1, big, -big - 1, big + 2});
  Tensor values = empty_like(x), indices = empty_like(x);
  backend(x).sort(x, 0, false, values, indices);
  EXPECT_EQ(indices.to_vector<int>(), (std::vector<int>{2, 1, 0, 3}));
  const Tensor flags = tensor<bool>({true, false, true, false});
  Tensor sorted = empty_like(flags);
  backend(x).sort(flags, 0, true, sorted, indices);
  EXPECT_EQ(indices.to_vector<int>(), (std::vector<int>{0, 2, 1, 3}));

  Generator generator(1);
  const Tensor shuffled = randperm(30011, {.dtype = i64}, generator);
  Tensor in_order = empty_like(shuffled), from = empty_like(shuffled);
  backend(x).sort(shuffled, 0, false, in_order, from);
  EXPECT_TRUE(identical(in_order, arange(30011)));
}

}  // namespace
}  // namespace rondo::test
