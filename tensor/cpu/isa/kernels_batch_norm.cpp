// Batch normalisation's four passes over rows of channels; compiled once for each instruction set
// (table.h). The rows of a channels_last tensor are short (16 to 2048 floats) and many, the channel
// sums are therefore kept in an array that stays in the first cache; a plane of a contiguous tensor
// is one channel and reduced along the row instead.
#include "tensor/cpu/isa/bf16.h"

namespace rondo::cpu::isa::RONDO_ISA {
namespace {

// What a column's index is multiplied by to find its channel's factors: 0 in the plane of one
// channel, 1 where each column is a channel.
constexpr std::integral_constant<std::int64_t, 0> one_channel;
constexpr std::integral_constant<std::int64_t, 1> each_channel;

template <class T>
void moments(const T* x, std::int64_t rows, std::int64_t channels, const float* shift, float* sum,
             float* sum_squares) {
  if (channels == 1) {
    float s = 0, q = 0, k = shift[0];
#pragma omp simd reduction(+ : s, q)
    for (std::int64_t i = 0; i < rows; ++i) {
      float d = widen(x[i]) - k;
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
      float d = widen(x[c]) - shift[c];
      sum[c] += d;
      sum_squares[c] += d * d;
    }
  }
}

template <class T, bool has_residual, bool relu>
void apply_rows(const T* x, const T* residual, T* y, std::int64_t rows, std::int64_t channels,
                const float* scale, const float* offset) {
  // One channel repeats its factors along the row; else they go with the column.
  std::int64_t step = channels == 1 ? 0 : 1;
  std::int64_t width = channels == 1 ? rows : channels;
  if (channels == 1) rows = 1;
  for (std::int64_t r = 0; r < rows; ++r) {
    auto row = [&](auto unit) {
#pragma omp simd
      for (std::int64_t c = 0; c < width; ++c) {
        float v = widen(x[c]) * scale[c * unit] + offset[c * unit];
        if (has_residual) v += widen(residual[c]);
        narrow(relu && v < 0 ? 0 : v, y[c]);
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

template <class T>
void apply(const T* x, const T* residual, T* y, std::int64_t rows, std::int64_t channels,
           const float* scale, const float* offset, bool relu) {
  auto f = residual ? (relu ? apply_rows<T, true, true> : apply_rows<T, true, false>)
                    : (relu ? apply_rows<T, false, true> : apply_rows<T, false, false>);
  f(x, residual, y, rows, channels, scale, offset);
}

enum class Mask { none, from_y, from_x };

/// dy where the relu let its input through: v is that input, or what came out.
inline float passed(float dy, float v) { return v <= 0 ? 0 : dy; }

/// Column i's gradient behind the relu.
template <Mask mask, class T, class Unit>
inline float masked(const T* dy, const T* x, const ReluMask<T>& m, std::int64_t i, Unit unit) {
  if (mask == Mask::from_y) return passed(widen(dy[i]), widen(m.y[i]));
  if (mask == Mask::from_x)
    return passed(widen(dy[i]), widen(x[i]) * m.scale[i * unit] + m.offset[i * unit]);
  return widen(dy[i]);
}

template <class T, Mask mask>
void backward_sums_rows(const T* dy, const T* x, const ReluMask<T>& relu, std::int64_t rows,
                        std::int64_t channels, const float* mean, float* sum_g, float* sum_gx) {
  ReluMask<T> m = relu;
  if (channels == 1) {
    float s = 0, q = 0, k = mean[0];
#pragma omp simd reduction(+ : s, q)
    for (std::int64_t i = 0; i < rows; ++i) {
      float g = masked<mask>(dy, x, m, i, one_channel);
      s += g;
      q += g * (widen(x[i]) - k);
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
      sum_gx[c] += g * (widen(x[c]) - mean[c]);
    }
    if (mask == Mask::from_y) m.y += channels;
  }
}

template <class T>
void backward_sums(const T* dy, const T* x, const ReluMask<T>& mask, std::int64_t rows,
                   std::int64_t channels, const float* mean, float* sum_g, float* sum_gx) {
  auto f = mask.y       ? backward_sums_rows<T, Mask::from_y>
           : mask.scale ? backward_sums_rows<T, Mask::from_x>
                        : backward_sums_rows<T, Mask::none>;
  f(dy, x, mask, rows, channels, mean, sum_g, sum_gx);
}

template <class T, Mask mask, bool has_residual>
void backward_apply_rows(const T* dy, const T* x, const ReluMask<T>& relu, T* dx, T* dresidual,
                         std::int64_t rows, std::int64_t channels, const float* a, const float* b,
                         const float* d) {
  ReluMask<T> m = relu;
  bool single = channels == 1;
  std::int64_t width = single ? rows : channels;
  if (single) rows = 1;
  for (std::int64_t r = 0; r < rows; ++r) {
    auto row = [&](auto unit) {
#pragma omp simd
      for (std::int64_t c = 0; c < width; ++c) {
        float g = masked<mask>(dy, x, m, c, unit);
        if (has_residual) narrow(g, dresidual[c]);
        narrow(g * a[c * unit] + widen(x[c]) * b[c * unit] + d[c * unit], dx[c]);
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

template <class T, Mask mask>
auto backward_apply_for(bool has_residual) {
  return has_residual ? backward_apply_rows<T, mask, true> : backward_apply_rows<T, mask, false>;
}

template <class T>
void backward_apply(const T* dy, const T* x, const ReluMask<T>& mask, T* dx, T* dresidual,
                    std::int64_t rows, std::int64_t channels, const float* a, const float* b,
                    const float* d) {
  auto f = mask.y       ? backward_apply_for<T, Mask::from_y>(dresidual)
           : mask.scale ? backward_apply_for<T, Mask::from_x>(dresidual)
                        : backward_apply_for<T, Mask::none>(dresidual);
  f(dy, x, mask, dx, dresidual, rows, channels, a, b, d);
}

}  // namespace

extern const BatchNormKernels<float> batch_norm;
const BatchNormKernels<float> batch_norm{moments<float>, apply<float>, backward_sums<float>,
                                         backward_apply<float>};
extern const BatchNormKernels<Bf16Bits> batch_norm_bf16;
const BatchNormKernels<Bf16Bits> batch_norm_bf16{moments<Bf16Bits>, apply<Bf16Bits>,
                                                 backward_sums<Bf16Bits>, backward_apply<Bf16Bits>};

}  // namespace rondo::cpu::isa::RONDO_ISA
