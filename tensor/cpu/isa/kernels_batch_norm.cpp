// Batch normalisation's four passes over rows of channels; compiled once for each instruction set
// (table.h). The rows of a channels_last tensor are short (16 to 2048 floats) and many, the channel
// sums are therefore kept in an array that stays in the first cache; a plane of a contiguous tensor
// is one channel and reduced along the row instead.
#include "tensor/cpu/isa/table.h"

namespace rondo::cpu::isa::RONDO_ISA {
namespace {

// What a column's index is multiplied by to find its channel's factors: 0 in the plane of one
// channel, 1 where each column is a channel.
constexpr std::integral_constant<std::int64_t, 0> one_channel;
constexpr std::integral_constant<std::int64_t, 1> each_channel;

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
      row(each_channel);
    } else {
      row(one_channel);
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

enum class Mask { none, from_y, from_x };

/// dy where the relu let its input through: v is that input, or what came out.
inline float passed(float dy, float v) { return v <= 0 ? 0 : dy; }

/// Column i's gradient behind the relu.
template <Mask mask, class Unit>
inline float masked(const float* dy, const float* x, const ReluMask& m, std::int64_t i, Unit unit) {
  if (mask == Mask::from_y) return passed(dy[i], m.y[i]);
  if (mask == Mask::from_x) return passed(dy[i], x[i] * m.scale[i * unit] + m.offset[i * unit]);
  return dy[i];
}

template <Mask mask>
void backward_sums_rows(const float* dy, const float* x, const ReluMask& relu, std::int64_t rows,
                        std::int64_t channels, const float* mean, float* sum_g, float* sum_gx) {
  ReluMask m = relu;
  if (channels == 1) {
    float s = 0, q = 0, k = mean[0];
#pragma omp simd reduction(+ : s, q)
    for (std::int64_t i = 0; i < rows; ++i) {
      float g = masked<mask>(dy, x, m, i, one_channel);
      s += g;
      q += g * (x[i] - k);
    }
    sum_g[0] += s;
    sum_gx[0] += q;
    return;
  }
  for (std::int64_t r = 0; r < rows; ++r, dy += channels, x += channels) {
#pragma omp simd
    for (std::int64_t c = 0; c < channels; ++c) {
      float g = masked<mask>(dy, x, m, c, each_channel);
      sum_g[c] += g;
      sum_gx[c] += g * (x[c] - mean[c]);
    }
    if (mask == Mask::from_y) m.y += channels;
  }
}

void backward_sums(const float* dy, const float* x, const ReluMask& mask, std::int64_t rows,
                   std::int64_t channels, const float* mean, float* sum_g, float* sum_gx) {
  auto f = mask.y       ? backward_sums_rows<Mask::from_y>
           : mask.scale ? backward_sums_rows<Mask::from_x>
                        : backward_sums_rows<Mask::none>;
  f(dy, x, mask, rows, channels, mean, sum_g, sum_gx);
}

template <Mask mask, bool has_residual>
void backward_apply_rows(const float* dy, const float* x, const ReluMask& relu, float* dx,
                         float* dresidual, std::int64_t rows, std::int64_t channels, const float* a,
                         const float* b, const float* d) {
  ReluMask m = relu;
  bool single = channels == 1;
  std::int64_t width = single ? rows : channels;
  if (single) rows = 1;
  for (std::int64_t r = 0; r < rows; ++r) {
    auto row = [&](auto unit) {
#pragma omp simd
      for (std::int64_t c = 0; c < width; ++c) {
        float g = masked<mask>(dy, x, m, c, unit);
        if (has_residual) dresidual[c] = g;
        dx[c] = g * a[c * unit] + x[c] * b[c * unit] + d[c * unit];
      }
    };
    if (single) {
      row(one_channel);
    } else {
      row(each_channel);
    }
    dy += width;
    x += width;
    dx += width;
    if (mask == Mask::from_y) m.y += width;
    if (has_residual) dresidual += width;
  }
}

template <Mask mask>
auto backward_apply_for(bool has_residual) {
  return has_residual ? backward_apply_rows<mask, true> : backward_apply_rows<mask, false>;
}

void backward_apply(const float* dy, const float* x, const ReluMask& mask, float* dx,
                    float* dresidual, std::int64_t rows, std::int64_t channels, const float* a,
                    const float* b, const float* d) {
  auto f = mask.y       ? backward_apply_for<Mask::from_y>(dresidual)
           : mask.scale ? backward_apply_for<Mask::from_x>(dresidual)
                        : backward_apply_for<Mask::none>(dresidual);
  f(dy, x, mask, dx, dresidual, rows, channels, a, b, d);
}

}  // namespace

extern const BatchNormKernels batch_norm;
const BatchNormKernels batch_norm{moments, apply, backward_sums, backward_apply};

}  // namespace rondo::cpu::isa::RONDO_ISA
