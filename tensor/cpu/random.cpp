// Fills tensors from a Philox stream, in blocks that are divided among threads. tensor/draw.h
// defines the value of each element.

#include "tensor/cpu/cpu_backend.h"
#include "tensor/cpu/isa/table.h"
#include "tensor/cpu/lines.h"
#include "tensor/draw.h"

namespace rondo::cpu {
namespace {

constexpr std::int64_t elements_of_block = 1024;  // a multiple of the values per Philox block

/// y[i] = draw(i) for every element i in row-major order. draw fills blocks: draw(i, n, out).
template <class C, class Draw>
void fill_blocks(const Tensor& y, const Draw& draw) {
  constexpr std::int64_t block = elements_of_block;
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

}  // namespace

void CpuBackend::do_uniform(const Tensor& y, Philox random, double low, double high) {
  require<DTypeError>(is_floating(y.dtype()), "uniform: expected a floating-point dtype, got ",
                      y.dtype());
  const UniformDraw draw(y.dtype(), low, high);
  fill_blocks<double>(y, [&](std::int64_t begin, std::int64_t n, double* out) {
    if (draw.dtype() == DType::f64) {  // one Philox block at a time
      for (std::int64_t i = 0; i < n; i += 2) {
        const auto words = random.block(static_cast<std::uint64_t>(begin + i) / 2);
        for (std::int64_t k = 0; k < 2 && i + k < n; ++k) {
          out[i + k] =
              draw.value(uniform_double(words[2 * k] | std::uint64_t{words[2 * k + 1]} << 32));
        }
      }
    } else {
      for (std::int64_t i = 0; i < n; i += 4) {
        const auto words = random.block(static_cast<std::uint64_t>(begin + i) / 4);
        for (std::int64_t k = 0; k < 4 && i + k < n; ++k) {
          out[i + k] = draw.value(uniform_float(words[k]));
        }
      }
    }
  });
}

void CpuBackend::do_normal(const Tensor& y, Philox random, double mean, double stddev) {
  require<DTypeError>(is_floating(y.dtype()), "normal: expected a floating-point dtype, got ",
                      y.dtype());
  if (y.dtype() != f64) {
    const std::uint64_t stream = random.stream + (random.shift == nullptr ? 0 : *random.shift);
    return fill_blocks<float>(y, [&](std::int64_t begin, std::int64_t n, float* out) {
      const std::int64_t pairs = (n + 31) / 32 * 16;  // also beyond the last element
      kernels().normals(random.seed, stream, static_cast<std::uint64_t>(begin) / 2, pairs, mean,
                        stddev, out);
    });
  }
  fill_blocks<double>(y, [&](std::int64_t begin, std::int64_t n, double* out) {
    for (std::int64_t i = 0; i < n; i += 2) {
      const auto [first, second] =
          draw_normal_pair(random, static_cast<std::uint64_t>(begin + i) / 2, mean, stddev);
      out[i] = first;
      if (i + 1 < n) out[i + 1] = second;
    }
  });
}

void CpuBackend::do_randint(const Tensor& y, Philox random, std::int64_t low, std::int64_t high) {
  const auto range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  fill_blocks<std::int64_t>(y, [&](std::int64_t begin, std::int64_t n, std::int64_t* out) {
    for (std::int64_t i = 0; i < n; ++i) {
      out[i] = draw_integer(random, static_cast<std::uint64_t>(begin + i), low, range);
    }
  });
}

}  // namespace rondo::cpu
