// Philox against the known answers of its authors, and the distributions drawn from it.

#include "tensor/random.h"

#include <cmath>
#include <set>
#include <thread>

#include "support/layouts.h"
#include "support/support.h"

namespace rondo::test {
namespace {

using Words = std::array<std::uint32_t, 4>;

TEST(Philox, KnownAnswersOfRandom123) {
  // philox4x32-10 in tests/kat_vectors of the Random123 distribution: counter, key, result. The
  // counter is (block index, stream), the key is the seed, each low word first.
  EXPECT_EQ((Philox{0, 0}.block(0)), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ((Philox{~0ull, ~0ull}.block(~0ull)),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ((Philox{0x299f31d0a4093822, 0x0370734413198a2e}.block(0x85a308d3243f6a88)),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, WordsAreTheBlocksInOrder) {
  const Philox random{12, 34};
  for (std::uint64_t i = 0; i < 16; ++i) {
    EXPECT_EQ(random.word(i), random.block(i / 4)[i % 4]);
    EXPECT_EQ(random.word64(i), random.word(2 * i) | std::uint64_t{random.word(2 * i + 1)} << 32);
  }
}

TEST(Philox, Conversions) {
  EXPECT_EQ(uniform_float(0), 0);
  EXPECT_EQ(uniform_float(~0u), 1 - 0x1p-24f);
  EXPECT_EQ(uniform_double(~0ull), 1 - 0x1p-53);
  EXPECT_EQ(uniform_below(~0ull, 10), 9u);
  EXPECT_EQ(uniform_below(0, 10), 0u);
}

TEST(Generator, HandsOutDistinctStreamsAndRestores) {
  Generator generator(5);
  const Philox first = generator.next();
  const Generator::State state = generator.state();
  const Philox second = generator.next();
  EXPECT_NE(first.stream, second.stream);
  generator.set_state(state);
  EXPECT_EQ(generator.next().stream, second.stream);
  generator.manual_seed(6);
  EXPECT_EQ(generator.state(), (Generator::State{6, 0}));

  std::vector<std::vector<std::uint64_t>> drawn(4);
  std::vector<std::thread> threads;
  for (auto& mine : drawn) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) mine.push_back(generator.next().stream);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::uint64_t> all;
  for (const auto& mine : drawn) all.insert(mine.begin(), mine.end());
  EXPECT_EQ(all.size(), 2000u);
}

TEST(Uniform, BitsAreThoseOfTheStream) {
  const Philox random{99, 7};
  for (std::int64_t n : {1, 3, 1023, 1025, 5003}) {
    const Tensor y = empty({n}), wide = empty({n}, {.dtype = f64});
    backend(y).uniform(y, random, 0, 1);
    backend(y).uniform(wide, random, 0, 1);
    for (std::int64_t i = 0; i < n; ++i) {
      ASSERT_EQ(y.data_ptr<float>()[i], uniform_float(random.word(static_cast<std::uint64_t>(i))));
      ASSERT_EQ(wide.data_ptr<double>()[i],
                uniform_double(random.word64(static_cast<std::uint64_t>(i))));
    }
  }
}

TEST(Uniform, LayoutAndThreadsDoNotMatter) {
  const Philox random{1, 2};
  const Dims sizes{3, 5, 37, 11};
  for (DType dtype : {f32, f64, bf16, f16}) {
    const Tensor uniform = empty(sizes, {.dtype = dtype}), normal = empty_like(uniform);
    backend(uniform).uniform(uniform, random, -1, 2);
    backend(uniform).normal(normal, random, 1, 2);
    for (Layout layout : all_layouts) {
      Tensor y = empty_in(layout, sizes, dtype);
      backend(y).uniform(y, random, -1, 2);
      EXPECT_TRUE(identical(y, uniform));
      backend(y).normal(y, random, 1, 2);
      EXPECT_TRUE(identical(y, normal));
    }
  }
}

TEST(Uniform, StaysBelowItsUpperEnd) {
  // Rounding 1 - 2^-24 to bf16 gives 1, which [0, 1) does not contain.
  for (DType dtype : {f32, f64, bf16, f16}) {
    for (auto [low, high] : {std::pair{0.0, 1.0}, {-3.0, -1.0}, {5.0, 5.3}, {0.0, 1e-3}}) {
      const Tensor y = empty({200'003}, {.dtype = dtype});
      backend(y).uniform(y, Philox{3, 1}, low, high);
      for (double v : y.to_vector<double>()) {
        ASSERT_LT(v, high) << dtype;
        // The lower bound itself may be rounded up or down to a number of the dtype.
        ASSERT_GE(v, low - std::abs(low) * tolerance(dtype)) << dtype;
      }
    }
  }
}

/// Mean and variance of the elements.
std::pair<double, double> moments(const Tensor& x) {
  double sum = 0, squares = 0;
  const std::vector<double> values = x.to_vector<double>();
  for (double v : values) {
    sum += v;
    squares += v * v;
  }
  const double n = static_cast<double>(values.size()), mean = sum / n;
  return {mean, squares / n - mean * mean};
}

TEST(Uniform, Moments) {
  const std::int64_t n = 1'000'000;
  const Tensor y = empty({n});
  backend(y).uniform(y, Philox{17, 0}, 2, 5);
  const auto [mean, variance] = moments(y);
  EXPECT_NEAR(mean, 3.5, 5 * std::sqrt(0.75 / n));  // five standard errors
  EXPECT_NEAR(variance, 0.75, 5 * std::sqrt(0.75 * 0.75 * 0.8 / n));
}

// The vector functions of f32 differ from the scalar ones of f64 by far less than a rounding.
TEST(Normal, OfF32IsThatOfF64Rounded) {
  const std::int64_t n = 300'001;
  const Tensor wide = empty({n}, {.dtype = f64});
  backend(wide).normal(wide, Philox{5, 3}, 0.25, 2);
  for (DType dtype : {f32, bf16, f16}) {
    const Tensor y = empty({n}, {.dtype = dtype});
    backend(y).normal(y, Philox{5, 3}, 0.25, 2);
    const std::vector<double> want = wide.to(f32).to(dtype).to(f64).to_vector<double>(),
                              got = y.to(f64).to_vector<double>();
    std::int64_t others = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      others += got[i] != want[i];
      ASSERT_NEAR(got[i], want[i], 2 * tolerance(dtype) * std::max(std::abs(want[i]), 0x1p-10));
    }
    EXPECT_LE(others, 3) << dtype;  // numbers halfway between two of the dtype
  }
}

TEST(Normal, MomentsTailsAndIndependenceOfThePair) {
  const std::int64_t n = 1'000'000;
  const Tensor y = empty({n}, {.dtype = f64});
  backend(y).normal(y, Philox{21, 0}, 0, 1);
  const auto [mean, variance] = moments(y);
  const double error = 1 / std::sqrt(static_cast<double>(n));
  EXPECT_NEAR(mean, 0, 5 * error);
  EXPECT_NEAR(variance, 1, 5 * std::sqrt(2.0) * error);
  const double* z = y.data_ptr<double>();
  double third = 0, fourth = 0, product = 0, beyond = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    third += z[i] * z[i] * z[i];
    fourth += z[i] * z[i] * z[i] * z[i];
    beyond += std::abs(z[i]) > 1.959963984540054;  // 5 % of a normal distribution is outside
    if (i % 2 == 0) product += z[i] * z[i + 1];
  }
  EXPECT_NEAR(third / n, 0, 5 * std::sqrt(15.0) * error);
  EXPECT_NEAR(fourth / n, 3, 5 * std::sqrt(96.0) * error);
  EXPECT_NEAR(beyond / n, 0.05, 5 * std::sqrt(0.05 * 0.95) * error);
  EXPECT_NEAR(product / (n / 2), 0, 5 * std::sqrt(2.0) * error);

  const Tensor shifted = empty({n});
  backend(y).normal(shifted, Philox{21, 0}, 10, 0.5);
  for (std::int64_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(shifted.data_ptr<float>()[i], static_cast<float>(10 + 0.5 * z[i]));
  }
}

TEST(Randint, CoversItsRangeEvenly) {
  const std::int64_t n = 100'000;
  const Tensor y = empty({n}, {.dtype = i8});
  backend(y).randint(y, Philox{2, 0}, -3, 5);
  std::array<double, 8> counts{};
  for (int v : y.to_vector<int>()) {
    ASSERT_GE(v, -3);
    ASSERT_LT(v, 5);
    ++counts[static_cast<std::size_t>(v + 3)];
  }
  double chi_square = 0;
  for (double c : counts) chi_square += std::pow(c - n / 8.0, 2) / (n / 8.0);
  EXPECT_LT(chi_square, 36);  // 7 degrees of freedom: exceeded by one in 10^5 seeds

  const Tensor all = empty({1000}, {.dtype = i64});
  backend(y).randint(all, Philox{2, 0}, std::numeric_limits<std::int64_t>::min(),
                     std::numeric_limits<std::int64_t>::max());
  bool negative = false, positive = false;
  for (std::int64_t v : all.to_vector<std::int64_t>()) (v < 0 ? negative : positive) = true;
  EXPECT_TRUE(negative && positive);
}

TEST(Random, IntegersAreRefusedAndEmptyIsFine) {
  const Tensor integers = empty({3}, {.dtype = i64});
#ifdef NDEBUG  // otherwise an assertion of the backend comes first
  EXPECT_THROW(backend(integers).uniform(integers, {}, 0, 1), DTypeError);
  EXPECT_THROW(backend(integers).normal(integers, {}, 0, 1), DTypeError);
#endif
  const Tensor none = empty({0, 3});
  EXPECT_NO_THROW(backend(none).uniform(none, {}, 0, 1));
  EXPECT_NO_THROW(backend(none).normal(none, {}, 0, 1));
}

}  // namespace
}  // namespace rondo::test
