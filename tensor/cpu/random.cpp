// Filling tensors from a Philox stream.
//
// Element i (row-major) is a function of the stream and of i alone, so the result depends neither
// on strides nor on threads, and a GPU that evaluates the same function gives the same numbers:
//
//   uniform f32 bf16 f16: u = 24 bits of word i;  f64: u = 53 bits of words 2i, 2i+1;
//                         low + (high - low) u by one fma in double, then one rounding
//   randint:              low + the high half of word64(i) (high - low)
//   normal:               elements 2j and 2j+1 are the pair that Box and Muller (1958) make of the
//                         uniforms word64(2j), word64(2j+1), i.e. of block j
//
// Read next: tensor/random.h, the generator itself.

#include <cmath>
#include <numbers>

#include "tensor/cpu/cpu_backend.h"
#include "tensor/cpu/lines.h"

namespace rondo::cpu {
namespace {

/// y[i] = draw(i) for every element i in row-major order; draw fills blocks: draw(i, n, out).
template <class C, class Draw>
void fill_blocks(const Tensor& y, const Draw& draw) {
  constexpr std::int64_t block = 1024;  // a multiple of what one Philox block can yield
  const std::int64_t count = y.numel(), blocks = (count + block - 1) / block;
  const bool dense = y.is_contiguous();
#pragma omp parallel for schedule(static) if (count >= parallel_grain / 8)
  for (std::int64_t b = 0; b < blocks; ++b) {
    std::array<C, block> values;
    const std::int64_t begin = b * block, n = std::min(block, count - begin);
    draw(begin, n, values.data());
    if (dense) {
      store(y.dtype(), y.data_ptr(), begin, 1, n, values.data());
      continue;
    }
    Walker<1> walker(y.shape(), {y.strides()});
    walker.seek(begin);
    for (std::int64_t i = 0; i < n; ++i, walker.next()) {
      store(y.dtype(), y.data_ptr(), walker.offsets()[0], 1, 1, &values[i]);
    }
  }
}

/// `value` as `dtype` will hold it.
double rounded(DType dtype, double value) {
  if (dtype == DType::f64) return value;
  const auto narrow = static_cast<float>(value);
  if (dtype == DType::bf16) return BFloat16(narrow);
  return dtype == DType::f16 ? static_cast<float>(Half(narrow)) : narrow;
}

/// The largest number below `high` that `dtype` can hold (rounding must not make [low, high)
/// closed).
double below(DType dtype, double high) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  double ulp = std::nextafter(high, -infinity);
  for (double step = high - ulp; rounded(dtype, ulp) >= high; step *= 2) ulp = high - step;
  return rounded(dtype, ulp);
}

}  // namespace

void CpuBackend::uniform(const Tensor& y, Philox random, double low, double high) {
  require<DTypeError>(is_floating(y.dtype()), "uniform wants a floating dtype, not ", y.dtype());
  const double range = high - low, last = range > 0 ? below(y.dtype(), high) : low;
  const DType dtype = y.dtype();
  auto value = [=](double u) {
    const double v = rounded(dtype, low == 0 ? range * u : std::fma(range, u, low));
    return v > last ? last : v;
  };
  fill_blocks<double>(y, [&](std::int64_t begin, std::int64_t n, double* out) {
    if (dtype == DType::f64) {
      for (std::int64_t i = 0; i < n; i += 2) {
        const auto words = random.block(static_cast<std::uint64_t>(begin + i) / 2);
        for (std::int64_t k = 0; k < 2 && i + k < n; ++k) {
          out[i + k] = value(uniform_double(words[2 * k] | std::uint64_t{words[2 * k + 1]} << 32));
        }
      }
    } else {
      for (std::int64_t i = 0; i < n; i += 4) {
        const auto words = random.block(static_cast<std::uint64_t>(begin + i) / 4);
        for (std::int64_t k = 0; k < 4 && i + k < n; ++k) {
          out[i + k] = value(uniform_float(words[k]));
        }
      }
    }
  });
}

void CpuBackend::normal(const Tensor& y, Philox random, double mean, double stddev) {
  require<DTypeError>(is_floating(y.dtype()), "normal wants a floating dtype, not ", y.dtype());
  fill_blocks<double>(y, [&](std::int64_t begin, std::int64_t n, double* out) {
    for (std::int64_t i = 0; i < n; i += 2) {
      const auto words = random.block(static_cast<std::uint64_t>(begin + i) / 2);
      // 1 - u lies in (0, 1], where the logarithm is finite.
      const double u = 1 - uniform_double(words[0] | std::uint64_t{words[1]} << 32);
      const double v = uniform_double(words[2] | std::uint64_t{words[3]} << 32);
      const double radius = std::sqrt(-2 * std::log(u)), angle = 2 * std::numbers::pi * v;
      out[i] = mean + stddev * radius * std::cos(angle);
      if (i + 1 < n) out[i + 1] = mean + stddev * radius * std::sin(angle);
    }
  });
}

void CpuBackend::randint(const Tensor& y, Philox random, std::int64_t low, std::int64_t high) {
  const auto range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  fill_blocks<std::int64_t>(y, [&](std::int64_t begin, std::int64_t n, std::int64_t* out) {
    for (std::int64_t i = 0; i < n; ++i) {
      const std::uint64_t word = random.word64(static_cast<std::uint64_t>(begin + i));
      out[i] =
          static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + uniform_below(word, range));
    }
  });
}

}  // namespace rondo::cpu
