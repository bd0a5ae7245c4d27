// The element-wise kernels: every op in every compute type and instruction set against the scalar
// formula, and conversion between every pair of dtypes.

#include <algorithm>
#include <cmath>

#include "support/support.h"
#include "tensor/backend.h"
#include "tensor/cpu/isa/table.h"
#include "tensor/functors.h"

namespace rondo {
namespace {

using test::as;

constexpr UnaryOp last_unary = UnaryOp::clamp;
constexpr BinaryOp last_binary = BinaryOp::clamp_backward;

/// Values for which ops give different results: signs, zeros, fractions, and (for floats)
/// infinities and NaN.
Tensor inputs(DType dtype, bool shifted) {
  std::vector<double> values;
  for (int i = -40; i <= 40; ++i) values.push_back(i * 0.375 + (shifted ? 0.1 : 0));
  if (is_floating(dtype)) {
    for (double v : {double(INFINITY), -double(INFINITY), double(NAN), -0.0}) values.push_back(v);
  } else {
    for (double v : {120.0, 7.0, -0.0, 1.0}) values.push_back(v);
  }
  Tensor x = Tensor::empty({static_cast<std::int64_t>(values.size())}, {.dtype = dtype});
  backend(x).copy(tensor(values), x);
  return x;
}

/// `where` creates the text for a failure. Formatting it for each element would take most of the
/// time.
template <class T, class Where>
void expect_close(T got, T expected, double scale, const Where& where) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(got)) << where();
      return;
    }
    if (got == expected) return;
    // Vector code may fuse and reorder; the maths library guarantees a few ulps.
    EXPECT_LE(std::abs(double(got) - double(expected)),
              scale * std::max(1.0, std::abs(double(expected))))
        << where();
  } else {
    EXPECT_EQ(got, expected) << where();
  }
}

template <class T>
class Elementwise : public ::testing::Test {};
using ComputeTypes = ::testing::Types<float, double, std::int64_t>;
TYPED_TEST_SUITE(Elementwise, ComputeTypes);

TYPED_TEST(Elementwise, UnaryAgreesWithTheFormula) {
  using T = TypeParam;
  Tensor x = inputs(dtype_of<T>, false);
  auto values = x.template to_vector<T>();
  OpParams params{.alpha = 2, .beta = 3};
  for (int i = 0; i <= static_cast<int>(last_unary); ++i) {
    auto op = static_cast<UnaryOp>(i);
    Tensor y = Tensor::empty_like(x);
    bool defined = true;
    try {
      visit_unary<T>(op, params, [](auto) {});
    } catch (const DTypeError&) {
      defined = false;
    }
    if (!defined) {
      EXPECT_THROW(backend(x).unary(op, x, y, params), DTypeError);
      continue;
    }
    backend(x).unary(op, x, y, params);
    visit_unary<T>(op, params, [&](auto f) {
      auto got = y.template to_vector<T>();
      for (std::size_t k = 0; k < got.size(); ++k) {
        expect_close<T>(got[k], f(values[k]), 8 * std::numeric_limits<T>::epsilon(),
                        [&] { return concat("unary op ", i, " of ", values[k]); });
      }
    });
  }
}

TYPED_TEST(Elementwise, BinaryAgreesWithTheFormula) {
  using T = TypeParam;
  Tensor a = inputs(dtype_of<T>, false), b = inputs(dtype_of<T>, true);
  auto va = a.template to_vector<T>(), vb = b.template to_vector<T>();
  OpParams params{.alpha = 2, .beta = 3};
  for (int i = 0; i <= static_cast<int>(last_binary); ++i) {
    auto op = static_cast<BinaryOp>(i);
    if (std::is_integral_v<T> && op == BinaryOp::div) continue;
    Tensor y = Tensor::empty_like(a);
    try {
      backend(a).binary(op, a, b, y, params);
    } catch (const DTypeError&) {
      EXPECT_TRUE(std::is_integral_v<T>);
      continue;
    }
    visit_binary<T>(op, params, [&](auto f) {
      auto got = y.template to_vector<T>();
      for (std::size_t k = 0; k < got.size(); ++k) {
        expect_close<T>(got[k], f(va[k], vb[k]), 64 * std::numeric_limits<T>::epsilon(),
                        [&] { return concat("binary op ", i, " of ", va[k], " and ", vb[k]); });
      }
    });
  }
}

// An element that is repeated along a row is not copied to a row first.
TYPED_TEST(Elementwise, RepeatedOperandsGiveTheBitsOfRows) {
  const auto values = inputs(dtype_of<TypeParam>, false).template to_vector<TypeParam>();
  const Tensor column = inputs(dtype_of<TypeParam>, true);
  for (int i = 0; i <= static_cast<int>(last_binary); ++i) {
    const auto op = static_cast<BinaryOp>(i);
    if (std::is_integral_v<TypeParam> && op == BinaryOp::div) continue;
    for (std::int64_t n : {1, 15, 16, 64, 65, 1003, 1030}) {
      const Tensor x = Tensor::empty({3, n}, {.dtype = dtype_of<TypeParam>});
      for (std::int64_t k = 0; k < 3 * n; ++k)
        x.template data_ptr<TypeParam>()[k] = values[static_cast<std::size_t>(k) % values.size()];
      const Tensor repeated = column.as_view({3, n}, {25, 0}, 3), copied = Tensor::empty_like(x);
      backend(x).copy(repeated, copied);
      Tensor y = Tensor::empty_like(x), expected = Tensor::empty_like(x);
      try {
        backend(x).binary(op, x, copied, expected, {});
      } catch (const DTypeError&) {
        break;
      }
      backend(x).binary(op, x, repeated, y, {});
      EXPECT_TRUE(test::identical(y, expected)) << "binary op " << i << ", n = " << n;
      backend(x).binary(op, copied, x, expected, {});
      backend(x).binary(op, repeated, x, y, {});
      EXPECT_TRUE(test::identical(y, expected)) << "binary op " << i << ", n = " << n;
    }
  }
}

TEST(ElementwiseIsa, AllTablesAgreeOnExactOps) {
  std::vector<const cpu::ElementwiseKernels*> tables = {&cpu::isa::generic::elementwise};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    tables.push_back(&cpu::isa::avx2::elementwise);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    tables.push_back(&cpu::isa::avx512::elementwise);
#else
  tables.push_back(&cpu::kernels().elementwise);
#endif
  Tensor a = randn({1003}), b = randn({1003});
  for (BinaryOp op :
       {BinaryOp::mul, BinaryOp::div, BinaryOp::maximum, BinaryOp::lt, BinaryOp::relu_backward}) {
    std::vector<float> expected(1003), got(1003);
    tables[0]->binary_f32(op, {}, a.data_ptr<float>(), 1, b.data_ptr<float>(), 1, expected.data(),
                          1003);
    for (auto* table : tables) {
      table->binary_f32(op, {}, a.data_ptr<float>(), 1, b.data_ptr<float>(), 1, got.data(), 1003);
      EXPECT_EQ(got, expected);
    }
  }
}

TEST(Copy, EveryPairOfDTypes) {
  std::vector<double> values{0, 1, 2, 100, 1.75};
  for (DType from : {f64, f32, bf16, f16, i64, i32, u8, i8, boolean}) {
    for (DType to : {f64, f32, bf16, f16, i64, i32, u8, i8, boolean}) {
      Tensor x = Tensor::empty({5}, {.dtype = from}), y = Tensor::empty({5}, {.dtype = to});
      backend(x).copy(tensor(values), x);
      backend(x).copy(x, y);
      auto got = y.to_vector<double>();
      for (std::size_t i = 0; i < values.size(); ++i) {
        double v = values[i];  // all of them are exact in every floating type
        for (DType d : {from, to}) v = d == boolean ? v != 0 : is_integral(d) ? std::trunc(v) : v;
        EXPECT_EQ(got[i], v) << from << " to " << to;
      }
    }
  }
}

TEST(Copy, IntegersKeepAllTheirBits) {
  std::int64_t big = (std::int64_t{1} << 62) + 1;
  Tensor x = tensor<std::int64_t>({big, -big}), y = Tensor::empty({2}, {.dtype = i32});
  EXPECT_EQ(x.to_vector<std::int64_t>(), (std::vector<std::int64_t>{big, -big}));
  backend(x).copy(x, y);
  EXPECT_EQ(y.to_vector<std::int32_t>(), (std::vector<std::int32_t>{1, -1}));
}

TEST(Copy, IntegersAreRoundedOnce) {
  std::int64_t value = (std::int64_t{1} << 60) + (std::int64_t{1} << 36) + 1;  // just above a tie
  Tensor x = tensor<std::int64_t>({value}), y = Tensor::empty({1});
  backend(x).copy(x, y);
  EXPECT_EQ(y.item<double>(), 0x1p60 + 0x1p37);
}

/// The numbers 0, 1, … as a tensor of any dtype, dense in the memory order that `order` gives
/// (slowest dimension first), with its dimensions permuted back.
Tensor numbered(const Dims& sizes, const Dims& order, DType dtype) {
  Dims strides = sizes;
  std::int64_t step = 1;
  for (std::int64_t k = order.size() - 1; k >= 0; --k) {
    strides[order[k]] = step;
    step *= sizes[order[k]];
  }
  const Tensor memory = Tensor::empty({step}, {.dtype = dtype});
  backend(memory).copy(arange(0, step, 1, {.dtype = i64}), memory);
  return memory.as_view(sizes, strides, 0);
}

/// Element i in row-major order, computed from the strides alone.
template <class T>
T at(const Tensor& x, std::int64_t i) {
  std::int64_t offset = 0;
  for (std::int64_t d = x.dim() - 1; d >= 0; i /= x.size(d), --d)
    offset += i % x.size(d) * x.stride(d);
  return x.data_ptr<T>()[offset];
}

/// Sizes around a tile of the transposition (64 bytes per side), around a task of it (1,024 rows),
/// and far from both, with all memory orders.
TEST(Copy, BetweenAllOrdersOfMemory) {
  for (const Dims& sizes : {Dims{2, 3, 17, 5}, Dims{1, 16, 16, 1}, Dims{3, 70, 1, 33},
                            Dims{2, 1, 65, 64}, Dims{130, 3, 2, 2}, Dims{1, 2100, 1, 17}}) {
    for (const DType dtype : {f64, f32, bf16, u8}) {
      Dims from{0, 1, 2, 3};
      do {
        for (const Dims& to : {Dims{0, 1, 2, 3}, Dims{0, 2, 3, 1}, Dims{3, 1, 0, 2}}) {
          const Tensor x = numbered(sizes, from, dtype), y = numbered(sizes, to, dtype);
          backend(x).fill(y, 1);
          backend(x).copy(x, y);
          visit_dtype(dtype, [&]<class T>() {
            for (std::int64_t i = 0; i < y.numel(); ++i)
              ASSERT_EQ(at<T>(y, i), at<T>(x, i)) << sizes << dtype << from << to << i;
          });
        }
      } while (std::next_permutation(from.begin(), from.end()));
    }
  }
}

/// Targets from 1 to 65 bytes behind the source, counted within their pages: some have a kernel.
TEST(Copy, OfRowsAFewBytesBehindTheirSource) {
  constexpr std::int64_t pages = 4 * 4096;
  const Tensor memory = Tensor::empty({2 * pages}, {.dtype = u8});
  auto* const bytes = memory.data_ptr<std::uint8_t>();
  for (const std::int64_t length : {2047, 2048, 2049, 2111, 2112, 5000}) {
    for (const std::int64_t behind : {0, 1, 4, 63, 64, 65}) {
      for (std::int64_t i = 0; i < 2 * pages; ++i) bytes[i] = 1 + i * 7 % 251;
      const std::int64_t to = pages + behind;
      bytes[to - 1] = bytes[to + length] = 0;
      backend(memory).copy(memory.as_view({length}, {1}, 0), memory.as_view({length}, {1}, to));
      EXPECT_TRUE(std::equal(bytes, bytes + length, bytes + to)) << length << ", " << behind;
      EXPECT_TRUE(bytes[to - 1] == 0 && bytes[to + length] == 0) << "wrote next to them";
    }
  }
}

/// Broadcast operands, and rows that are too short to be processed one by one.
TEST(Copy, OfBroadcastAndShortRows) {
  for (const std::int64_t n : {2, 3, 7, 8}) {
    const Tensor x = numbered({5, 1, 40, 1}, {0, 1, 2, 3}, f32);
    const Tensor wide = x.as_view({5, n, 40, n}, {40, 0, 1, 0}, 0);
    const Tensor y = Tensor::empty({5, n, 40, n});
    backend(x).copy(wide, y);
    const auto got = y.to_vector<float>();
    for (std::int64_t i = 0; i < y.numel(); ++i)
      ASSERT_EQ(got[i], static_cast<float>(i / (n * 40 * n) * 40 + i / n % 40)) << n << ' ' << i;
    const Tensor half = Tensor::empty(y.shape(), {.dtype = f16});
    backend(x).copy(wide, half);
    EXPECT_EQ(half.to_vector<float>(), got);
  }
}

TEST(Fill, ZerosOfBothSigns) {
  for (const double zero : {0.0, -0.0}) {
    for (const DType dtype : {f64, f32, bf16, f16}) {
      const Tensor y = numbered({3, 5}, {0, 1}, dtype), part = y.as_view({3, 4}, {5, 1}, 1);
      backend(y).fill(part, zero);
      const auto got = y.to_vector<double>();
      for (std::size_t i = 0; i < 15; ++i) {
        EXPECT_EQ(got[i], i % 5 == 0 ? static_cast<double>(i) : 0) << dtype;
        EXPECT_EQ(std::signbit(got[i]), i % 5 != 0 && std::signbit(zero)) << dtype;
      }
    }
  }
}

TEST(Fill, ToBoolIsATest) {
  Tensor y = Tensor::empty({2}, {.dtype = boolean});
  backend(y).fill(y, 0.5);
  EXPECT_EQ(y.to_vector<int>(), (std::vector<int>{1, 1}));
}

TEST(Strided, AnyLayoutGivesTheSameNumbers) {
  for (std::int64_t rows : {1, 2, 37, 300}) {
    Tensor base = randn({rows, 2, 41, 3});
    Tensor a = base.as_view({rows, 41, 3}, {2 * 41 * 3, 3, 1}, 0);  // every second plane
    Tensor b = randn({3, 41, rows}).as_view({rows, 41, 3}, {1, rows, 41 * rows}, 0);  // transposed
    Tensor c = randn({41, 1}).as_view({rows, 41, 3}, {0, 1, 0}, 0);                   // broadcast
    Tensor y = Tensor::empty({rows, 41, 3}), dense = Tensor::empty({rows, 41, 3});
    backend(y).binary(BinaryOp::mul, a, b, y);
    backend(y).binary(BinaryOp::add, y, c, y);
    auto va = a.to_vector<float>(), vb = b.to_vector<float>(), vc = c.to_vector<float>(),
         got = y.to_vector<float>();
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_FLOAT_EQ(got[i], va[i] * vb[i] + vc[i]);
  }
}

/// Bools have loops of their own, on bytes.
TEST(Bools, HaveTheResultsOfIntegers) {
  const Tensor numbers = randint(0, 2, {7, 40, 33}), others = randint(0, 2, {7, 40, 33});
  const auto cut = [](const Tensor& x, int kind) {
    if (kind == 0) return x;
    if (kind == 1) return x.as_view({33, 40, 7}, {1, 33, 1320}, 0);  // reversed dimensions
    if (kind == 2) return x.as_view({7, 40, 16}, {1320, 33, 2}, 1);  // every second element
    return x.as_view({7, 40, 33}, {1320, 0, 1}, 0);                  // a repeated row
  };
  for (const BinaryOp op :
       {BinaryOp::logical_and, BinaryOp::logical_or, BinaryOp::logical_xor, BinaryOp::bitwise_and,
        BinaryOp::bitwise_or, BinaryOp::bitwise_xor, BinaryOp::eq, BinaryOp::ne, BinaryOp::lt,
        BinaryOp::ge, BinaryOp::mul, BinaryOp::maximum}) {
    for (int kind = 0; kind < 4; ++kind) {
      SCOPED_TRACE(concat(name_of(op), ", layout ", kind));
      const Tensor a = cut(as(numbers, boolean), kind), b = cut(as(others, boolean), kind),
                   y = Tensor::empty(a.shape(), {.dtype = boolean}),
                   want = Tensor::empty(a.shape(), {.dtype = i64});
      backend(a).binary(op, a, b, y, {});
      backend(a).binary(op, cut(numbers, kind), cut(others, kind), want, {});
      EXPECT_TRUE(test::identical(as(y, i64), want));
      backend(a).unary(UnaryOp::logical_not, a, y, {});
      backend(a).unary(UnaryOp::logical_not, cut(numbers, kind), want, {});
      EXPECT_TRUE(test::identical(as(y, i64), want));
    }
  }
}

TEST(Where, TakesFromBothSides) {
  Tensor c = tensor<bool>({true, false, true}), a = tensor<double>({1, 2, 3}),
         b = tensor<double>({4, 5, 6});
  Tensor y = Tensor::empty_like(a);
  backend(y).where(c, a, b, y);
  EXPECT_EQ(y.to_vector<double>(), (std::vector<double>{1, 5, 3}));
}

}  // namespace
}  // namespace rondo
