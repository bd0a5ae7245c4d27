// Batch normalisation's four passes over rows of channels; compiled once for each instruction set
// (table.h). The rows of a channels_last tensor are short (16 to 2048 floats) and many, the channel
// sums are therefore kept in an array that stays in the first cache; a plane of a contiguous tensor
// is one channel and reduced along the row instead.
#include "tensor/cpu/isa/table.h"

namespace rondo::cpu::isa::RONDO_ISA {
namespace {

void moments(const float* x, std::int64_t rows, std::int64_t channels, const float* shift,
             float* sum, float* sum_squares) {
  if (channels == 1) {
    float s = 0, q = 0, k = shift[0];
#pragma omp simd reduction(+ : s, q)
    for (std::int64_t i = 0; i < rows; ++i) {
      float d = x[i] - k;
      s += d;
      q += d * d;
    }
    sum[0] += s;
    sum_squares[0] += q;
    return;
  }
  for (std::int64_t r = 0; r < rows; ++r, x += channels) {
#pragma omp simd
    for (std::int64_t c = 0; c < channels; ++c) {
      float d = x[c] - shift[c];
      sum[c] += d;
      sum_squares[c] += d * d;
    }
  }
}

template <bool has_residual, bool relu>
void apply_rows(const float* x, const float* residual, float* y, std::int64_t rows,
                std::int64_t channels, const float* scale, const float* offset) {
  // One channel repeats its factors along the row; else they go with the column.
  std::int64_t step = channels == 1 ? 0 : 1;
  std::int64_t width = channels == 1 ? rows : channels;
  if (channels == 1) rows = 1;
  for (std::int64_t r = 0; r < rows; ++r) {
    auto row = [&](auto unit) {
#pragma omp simd
      for (std::int64_t c = 0; c < width; ++c) {
        float v = x[c] * scale[c * unit] + offset[c * unit];
        if (has_residual) v += residual[c];
        y[c] = relu && v < 0 ? 0 : v;
      }
    };
    if (step) {
      row(std::integral_constant<std::int64_t, 1>{});
    } else {
      row(std::integral_constant<std::int64_t, 0>{});
    }
    x += width;
    y += width;
    if (has_residual) residual += width;
  }
}

void apply(const float* x, const float* residual, float* y, std::int64_t rows,
           std::int64_t channels, const float* scale, const float* offset, bool relu) {
  auto f = residual ? (relu ? apply_rows<true, true> : apply_rows<true, false>)
                    : (relu ? apply_rows<false, true> : apply_rows<false, false>);
  f(x, residual, y, rows, channels, scale, offset);
}

template <bool relu>
void backward_sums_rows(const float* dy, const float* x, const float* y, std::int64_t rows,
                        std::int64_t channels, const float* mean, float* sum_g, float* sum_gx) {
  if (channels == 1) {
    float s = 0, q = 0, m = mean[0];
#pragma omp simd reduction(+ : s, q)
    for (std::int64_t i = 0; i < rows; ++i) {
      float g = relu && y[i] <= 0 ? 0 : dy[i];
      s += g;
      q += g * (x[i] - m);
    }
    sum_g[0] += s;
    sum_gx[0] += q;
    return;
  }
  for (std::int64_t r = 0; r < rows; ++r, dy += channels, x += channels) {
#pragma omp simd
    for (std::int64_t c = 0; c < channels; ++c) {
      float g = relu && y[c] <= 0 ? 0 : dy[c];
      sum_g[c] += g;
      sum_gx[c] += g * (x[c] - mean[c]);
    }
    if (relu) y += channels;
  }
}

void backward_sums(const float* dy, const float* x, const float* y, std::int64_t rows,
                   std::int64_t channels, const float* mean, float* sum_g, float* sum_gx) {
  auto f = y ? backward_sums_rows<true> : backward_sums_rows<false>;
  f(dy, x, y, rows, channels, mean, sum_g, sum_gx);
}

template <bool relu, bool has_residual>
void backward_apply_rows(const float* dy, const float* x, const float* y, float* dx,
                         float* dresidual, std::int64_t rows, std::int64_t channels, const float* a,
                         const float* b, const float* d) {
  bool single = channels == 1;
  std::int64_t width = single ? rows : channels;
  if (single) rows = 1;
  for (std::int64_t r = 0; r < rows; ++r) {
    auto row = [&](auto unit) {
#pragma omp simd
      for (std::int64_t c = 0; c < width; ++c) {
        float g = relu && y[c] <= 0 ? 0 : dy[c];
        if (has_residual) dresidual[c] = g;
        dx[c] = g * a[c * unit] + x[c] * b[c * unit] + d[c * unit];
      }
    };
    if (single) {
      row(std::integral_constant<std::int64_t, 0>{});
    } else {
      row(std::integral_constant<std::int64_t, 1>{});
    }
    dy += width;
    x += width;
    dx += width;
    if (relu) y += width;
    if (has_residual) dresidual += width;
  }
}

void backward_apply(const float* dy, const float* x, const float* y, float* dx, float* dresidual,
                    std::int64_t rows, std::int64_t channels, const float* a, const float* b,
                    const float* d) {
  auto f = y ? (dresidual ? backward_apply_rows<true, true> : backward_apply_rows<true, false>)
             : (dresidual ? backward_apply_rows<false, true> : backward_apply_rows<false, false>);
  f(dy, x, y, dx, dresidual, rows, channels, a, b, d);
}

}  // namespace

extern const BatchNormKernels batch_norm;
const BatchNormKernels batch_norm{moments, apply, backward_sums, backward_apply};

}  // namespace rondo::cpu::isa::RONDO_ISA
