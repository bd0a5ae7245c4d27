// Packed matrix products against plain loops in f64, and the cases in which they are used.

#include "tensor/cpu/packed_matmul.h"

#include <omp.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "support/errors.h"
#include "support/support.h"
#include "tensor/backend.h"
#include "tensor/cpu/onednn.h"
#include "tensor/cpu/reference.h"

namespace rondo {
namespace {

using test::as;
using Sizes = std::array<std::int64_t, 3>;  // m, k, n
namespace packed = cpu::packed_matmul;

Tensor swapped(const Tensor& x) {
  return x.as_view({x.size(0), x.size(2), x.size(1)}, {x.stride(0), x.stride(2), x.stride(1)},
                   x.storage_offset());
}
/// The same values in column-major order.
Tensor column_major(const Tensor& x) { return swapped(as(swapped(x), f32)); }

/// The tolerance for sums of `terms` products of normal numbers, as in matmul_conv_test.cpp.
double of_packed_terms(std::int64_t terms) {
  return test::tolerance(f32, terms, std::max(3.0, std::sqrt(static_cast<double>(terms))));
}

std::vector<float> relu_of(std::vector<float> x) {
  for (float& value : x) value = std::max(value, 0.f);
  return x;
}

class PackedMatmul : public ::testing::TestWithParam<Sizes> {};

/// Part of a larger matrix.
Tensor part_of_a_larger(const Tensor& x) {
  const Tensor larger = full({1, x.size(1) + 3, x.size(2) + 5}, 1e9);
  const Tensor part = larger.narrow(1, 2, x.size(1)).narrow(2, 1, x.size(2));
  part.copy_(x);
  return part;
}

/// Runs on one thread, which has whole blocks to compute, and on all threads.
TEST_P(PackedMatmul, AgreesWithTheLoops) {
  const auto [m, k, n] = GetParam();
  const Tensor a = randn({1, m, k}), c = randn({1, k, n}), b = randn({n});
  const int all_threads = omp_get_max_threads();
  for (const Tensor& bias : {b, Tensor()}) {
    const Tensor want = Tensor::empty({1, m, n}, {.dtype = f64});
    cpu::reference::matmul(as(a, f64), as(c, f64), bias.defined() ? as(bias, f64) : bias, want);
    for (const Tensor& left : {a, column_major(a), part_of_a_larger(a)}) {
      for (const Tensor& right : {c, column_major(c), part_of_a_larger(c)}) {
        omp_set_num_threads(right.is_same(c) ? 1 : all_threads);
        // y is a range of rows in a larger matrix, whose other rows must not change.
        const Tensor around = full({1, m, n + 16}, 1e9);
        const Tensor y = around.narrow(2, 8, n);
        packed::matmul(left, right, bias, y);
        omp_set_num_threads(all_threads);
        EXPECT_TRUE(test::all_close(as(y, f64), want, of_packed_terms(k + 1)));
        const Tensor before = around.narrow(2, 0, 8), after = around.narrow(2, n + 8, 8);
        EXPECT_TRUE(test::all_close(as(before, f64), full(before.shape(), 1e9, {.dtype = f64}), 0));
        EXPECT_TRUE(test::all_close(as(after, f64), full(after.shape(), 1e9, {.dtype = f64}), 0));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, PackedMatmul,
                         ::testing::Values(Sizes{16, 16, 16},     // a tile and remaining rows
                                           Sizes{48, 32, 64},     //
                                           Sizes{144, 192, 128},  // exactly one block
                                           Sizes{304, 208, 144},  // partial blocks
                                           Sizes{64, 400, 272},   // several of columns and terms
                                           Sizes{32, 208, 4112},  // more columns than are kept
                                           Sizes{160, 16, 4112},  //
                                           Sizes{1024, 48, 32}));

TEST(PackedMatmul, OtherSizesAreErrors) {
  const auto multiply = [](const Sizes& sizes) {
    const auto [m, k, n] = sizes;
    packed::matmul(zeros({1, m, k}), zeros({1, k, n}), {}, zeros({1, m, n}));
  };
  EXPECT_ERROR(multiply({16, 24, 16}), Error, "sizes 16, 24, 16 are not all multiples of 16");
  EXPECT_ERROR(multiply({16, 0, 16}), Error, "sizes 16, 0, 16");
}

TEST(PackedMatmul, CarriesWhatIsNoNumber) {
  const double inf = std::numeric_limits<double>::infinity();
  Tensor a = ones({1, 64, 64}), c = ones({1, 64, 64});
  a[0][3][5].fill_(inf);
  c[0][7][9].fill_(std::nan(""));
  const Tensor y = Tensor::empty({1, 64, 64});
  packed::matmul(a, c, {}, y);
  EXPECT_EQ(y[0][3][0].item<double>(), inf);
  EXPECT_TRUE(std::isnan(y[0][0][9].item<double>()));
  EXPECT_EQ(y[0][0][0].item<double>(), 64);
}

/// The gradients of a layer's weights and inputs, with a row stride that is a multiple of 2 KiB.
TEST(PackedMatmul, SuitsWhatOneDnnDoesBadly) {
  using Strides = std::array<std::int64_t, 2>;
  const auto suits = [](Sizes sizes, Strides a, Strides c, auto change) {
    const auto [m, k, n] = sizes;
    cpu::MatmulProblem p{.dtype = f32,
                         .batch = 1,
                         .a_batch = 1,
                         .c_batch = 1,
                         .m = m,
                         .n = n,
                         .k = k,
                         .a_strides = {m * k, a[0], a[1]},
                         .c_strides = {k * n, c[0], c[1]},
                         .y_strides = {m * n, n, 1},
                         .bias = false};
    change(p);
    return packed::suits(p);
  };
  const auto as_is = [](auto&) {};
  EXPECT_EQ(suits({784, 96, 512}, {1, 784}, {512, 1}, as_is), packed::enabled());
  EXPECT_EQ(suits({1024, 96, 320}, {1, 1024}, {320, 1}, as_is), packed::enabled());
  EXPECT_FALSE(suits({1024, 96, 336}, {1, 1024}, {336, 1}, as_is));
  EXPECT_FALSE(suits({512, 96, 784}, {1, 512}, {784, 1}, as_is));
  EXPECT_EQ(suits({64, 512, 512}, {512, 1}, {512, 1}, as_is), packed::enabled());
  EXPECT_FALSE(suits({64, 512, 784}, {512, 1}, {784, 1}, as_is));
  EXPECT_FALSE(suits({1024, 512, 512}, {512, 1}, {512, 1}, as_is));  // packed by oneDNN
  EXPECT_FALSE(suits({64, 784, 512}, {784, 1}, {1, 784}, as_is));    // y = x wᵀ
  EXPECT_FALSE(suits({528, 512, 512}, {512, 1}, {512, 1}, as_is));
  for (Sizes odd : {Sizes{520, 96, 784}, Sizes{512, 90, 784}, Sizes{512, 96, 72},
                    Sizes{48, 96, 784}, Sizes{512, 96, 48}})
    EXPECT_FALSE(suits(odd, {1, odd[0]}, {odd[2], 1}, as_is));
  for (auto change :
       {+[](cpu::MatmulProblem& p) { p.dtype = bf16; }, +[](cpu::MatmulProblem& p) { p.batch = 2; },
        +[](cpu::MatmulProblem& p) { p.y_strides[2] = 2; }})
    EXPECT_FALSE(suits({784, 96, 512}, {1, 784}, {512, 1}, change));
}

TEST(PackedMatmul, IsWhatTheBackendDoes) {
  if (!packed::enabled()) GTEST_SKIP() << "not with these kernels";
  const Tensor x = randn({1, 96, 512}), dy = randn({1, 96, 512}), square = randn({1, 512, 512});
  for (auto [a, c] : {std::pair{swapped(dy), x}, std::pair{dy, square}}) {
    const Tensor y = Tensor::empty({1, a.size(1), c.size(2)}), direct = zeros(y.shape());
    backend(y).matmul(a, c, {}, y);
    packed::matmul(a, c, {}, direct);
    EXPECT_EQ(y.to_vector() == direct.to_vector(), true);
    const Tensor bias = randn({c.size(2)}), around = zeros({1, a.size(1), c.size(2) + 1});
    packed::matmul(a, c, bias, y);
    const auto with_bias = y.to_vector();
    const Tensor columns = around.narrow(2, 1, c.size(2));
    backend(y).matmul(a, c, bias, columns);
    EXPECT_EQ(columns.to_vector() == with_bias, true);
    backend(y).matmul(a, c, {}, y, Activation::relu);
    EXPECT_EQ(y.to_vector() == relu_of(direct.to_vector()), true);
  }
}

TEST(PackedMatmul, HasTheSameBitsOnAnyNumberOfThreads) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "it is not told what OpenMP's threads wait for";
#endif
  const Tensor a = randn({1, 208, 400}), c = randn({1, 400, 336}), bias = randn({336});
  const auto computed = [&](int threads) {
    const int before = omp_get_max_threads();
    omp_set_num_threads(threads);
    const Tensor y = Tensor::empty({1, 208, 336});
    packed::matmul(a, c, bias, y);
    omp_set_num_threads(before);
    return y.to_vector();
  };
  const auto one = computed(1);
  for (int threads : {2, 3, 5, 8, 13}) EXPECT_EQ(computed(threads) == one, true) << threads;
}

}  // namespace
}  // namespace rondo
