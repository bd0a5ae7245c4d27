// Fills tensors from a Philox stream. tensor/draw.h defines the value of each element.

#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/packed.cuh"
#include "tensor/draw.h"

namespace rondo::cuda {
namespace {

/// Addresses elements by their row-major number, independent of y's memory order: dimensions are
/// not reordered, and the last is the fastest.
Operands<1> row_major(const Tensor& y) {
  Collapsed<1> shape({&y});
  shape.dims = 0;
  for (std::int64_t d = y.dim() - 1; d >= 0; --d) {
    shape.sizes[shape.dims] = y.shape()[d];
    shape.steps[shape.dims++] = {y.strides()[d] * size_of(y.dtype())};
  }
  return Operands<1>(shape, {&y});
}

struct Uniform {
  Operands<1> y;
  Philox random;
  UniformDraw draw;
  RONDO_HD void operator()(std::int64_t i) const {
    y.write(y.locate(i), 0, draw(random, static_cast<std::uint64_t>(i)));
  }
};

/// Call i writes elements 8 i … 8 i + 7 of a dense tensor: all the words of a Philox block are
/// used.
struct DenseUniform {
  PackedRun<double> y;
  Philox random;
  UniformDraw draw;
  RONDO_HD void operator()(std::int64_t i) const {
    const auto first = static_cast<std::uint64_t>(8 * i);
    Octet<double> octet;
    if (draw.dtype() == DType::f64) {
      for (unsigned b = 0; b < 4; ++b) {
        const auto words = random.block(first / 2 + b);
        for (unsigned k = 0; k < 2; ++k)
          octet.values[2 * b + k] =
              draw.value(uniform_double(words[2 * k] | std::uint64_t{words[2 * k + 1]} << 32));
      }
    } else {
      for (unsigned b = 0; b < 2; ++b) {
        const auto words = random.block(first / 4 + b);
        for (unsigned k = 0; k < 4; ++k)
          octet.values[4 * b + k] = draw.value(uniform_float(words[k]));
      }
    }
    y.store(8 * i, octet);
  }
};

/// Call j writes elements 2j and 2j + 1.
struct Normal {
  Operands<1> y;
  Philox random;
  double mean, stddev;
  std::int64_t n;
  RONDO_HD void operator()(std::int64_t j) const {
    const auto [first, second] =
        draw_normal_pair(random, static_cast<std::uint64_t>(j), mean, stddev);
    y.write(y.locate(2 * j), 0, first);
    if (2 * j + 1 < n) y.write(y.locate(2 * j + 1), 0, second);
  }
};

struct Integers {
  Operands<1> y;
  Philox random;
  std::int64_t low;
  std::uint64_t range;
  RONDO_HD void operator()(std::int64_t i) const {
    y.write(y.locate(i), 0, draw_integer(random, static_cast<std::uint64_t>(i), low, range));
  }
};

}  // namespace

void CudaBackend::do_uniform(const Tensor& y, Philox random, double low, double high) {
  require<DTypeError>(is_floating(y.dtype()), "uniform: expected a floating-point dtype, got ",
                      y.dtype());
  const UniformDraw draw(y.dtype(), low, high);
  if (!y.is_contiguous()) return for_each(device_, y.numel(), Uniform{row_major(y), random, draw});
  const PackedRun<double> run{static_cast<char*>(y.data_ptr()), y.numel(), y.dtype(),
                              is_aligned(y)};
  for_each(device_, (y.numel() + 7) / 8, DenseUniform{run, random, draw});
}

void CudaBackend::do_normal(const Tensor& y, Philox random, double mean, double stddev) {
  require<DTypeError>(is_floating(y.dtype()), "normal: expected a floating-point dtype, got ",
                      y.dtype());
  const std::int64_t n = y.numel();
  for_each(device_, (n + 1) / 2, Normal{row_major(y), random, mean, stddev, n});
}

void CudaBackend::do_randint(const Tensor& y, Philox random, std::int64_t low, std::int64_t high) {
  const auto range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  for_each(device_, y.numel(), Integers{row_major(y), random, low, range});
}

}  // namespace rondo::cuda
