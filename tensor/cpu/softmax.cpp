// softmax and log_softmax along one dimension, and their gradients:
//
//   softmax(x)_i     = exp(x_i - m) / s        with m = max_j x_j, s = sum_j exp(x_j - m)
//   log_softmax(x)_i = x_i - m - log s
//   dx_i = y_i (dy_i - sum_j dy_j y_j),   for the logarithm   dx_i = dy_i - exp(y_i) sum_j dy_j
//
// Subtracting the maximum first keeps exp from overflowing; it cancels in the result. The sum is
// kept in double. A NaN or a +inf makes its whole line NaN, as in PyTorch.
//
// Dense lines of f32 and bf16 are computed where they are, others through buffers.
//
// If lines lie side by side in memory (dim is not the fastest dimension), rows of many lines are
// computed at once.

#include <cmath>

#include "tensor/cpu/cpu_backend.h"
#include "tensor/cpu/lines.h"
#include "tensor/cpu/log_sum_exp.h"

namespace rondo::cpu {
namespace {

// y = softmax(x) for dense lines; y may be x.
void softmax_line(bool log, const float* x, std::int64_t n, float* y) {
  const SoftmaxLine<float>& of = kernels().softmax.f32;
  log ? of.log_softmax(x, n, y) : of.softmax(x, n, y, y);
}
void softmax_line(bool log, const double* x, std::int64_t n, double* y) {
  if (log) {
    const auto [top, log_sum] = log_sum_exp(x, n);
    for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] - top - log_sum;
    return;
  }
  const double top = reduce_run<ReductionOp::max>(x, n);
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    y[i] = std::exp(x[i] - top);
    sum += y[i];
  }
  const double scale = 1 / sum;
  for (std::int64_t i = 0; i < n; ++i) y[i] *= scale;
}

// dx of such a line; dx may be dy.
void gradient_line(bool log, const float* dy, const float* y, std::int64_t n, float* dx) {
  const SoftmaxLine<float>& of = kernels().softmax.f32;
  (log ? of.log_softmax_gradient : of.softmax_gradient)(dy, y, n, dx);
}
void gradient_line(bool log, const double* dy, const double* y, std::int64_t n, double* dx) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += log ? dy[i] : dy[i] * y[i];
  for (std::int64_t i = 0; i < n; ++i)
    dx[i] = log ? dy[i] - std::exp(y[i]) * sum : y[i] * (dy[i] - sum);
}

/// Whether lines of bf16 with these strides are dense.
template <class... Operands>
bool is_dense_bf16(std::int64_t dim, const Operands&... xs) {
  return ((xs.dtype() == bf16 && stride_along(xs, dim) == 1) && ...);
}
Bf16Bits* bits_of(const Tensor& x) { return static_cast<Bf16Bits*>(x.data_ptr()); }

using Index = std::int64_t;
constexpr Index lines_per_tile = 256;  // at most

/// If all operands are f32 and have a dimension along which their lines of `dim` lie side by side,
/// calls f(offsets, width) for the first elements of each `width` lines, and returns true.
template <class F, class... Operands>
bool for_each_tile(Index dim, const F& f, const Operands&... xs) {
  constexpr int count = sizeof...(Operands);
  const std::array<const Tensor*, count> all{&xs...};
  if (!((xs.dtype() == f32) && ...)) return false;
  Dims sizes = all[0]->shape();
  Index side = sizes.size() - 1;
  while (side >= 0 && (side == dim || sizes[side] == 1 || !((xs.stride(side) == 1) && ...))) --side;
  if (side < 0) return false;
  Index lines = sizes[side];
  for (Index d = side - 1; d >= 0 && d != dim && ((xs.stride(d) == lines) && ...); --d) {
    lines *= sizes[d];
    sizes[d] = 1;
  }
  if (lines < 16) return false;
  sizes[dim] = sizes[side] = 1;
  const Index others = numel_of(sizes), share = lines * others / threads_for(all[0]->numel());
  const Index tile_width =
      std::clamp(share / 16 * 16, Index{16}, lines_per_tile);  // work for all threads
  sizes[side] = (lines + tile_width - 1) / tile_width;
  std::array<Dims, count> strides;
  for (int k = 0; k < count; ++k) {
    strides[k] = all[k]->strides();
    strides[k][side] = tile_width;
  }
  Index after = 1;  // positions of the dimensions behind `side`
  for (Index d = side + 1; d < sizes.size(); ++d) after *= sizes[d];
  parallel_for(numel_of(sizes), all[0]->numel(), [&](Index begin, Index end) {
    Walker<count> walker(sizes, strides);
    walker.seek(begin);
    for (; begin < end; ++begin, walker.next()) {
      const Index first = begin / after % sizes[side] * tile_width;
      f(walker.offsets(), std::min(tile_width, lines - first));
    }
  });
  return true;
}

/// y = softmax(x) for `width` lines of n elements; the steps lead to the next element of a line.
void softmax_tile(bool log, const float* x, Index x_step, float* y, Index y_step, Index n,
                  Index width) {
  const ElementwiseKernels& of = kernels().elementwise;
  float row[lines_per_tile], top[lines_per_tile];
  double sum[lines_per_tile] = {};
  std::copy_n(x, width, top);
  for (Index i = 1; i < n; ++i) {
    const float* next = x + i * x_step;
    reduction_kernels<float>().rows(ReductionOp::max, &next, 1, width, top);
  }
  for (Index i = 0; i < n; ++i) {
    float* out = y + i * y_step;
    float* power = log ? row : out;
    of.binary_f32(BinaryOp::sub, {}, x + i * x_step, 1, top, 1, out, width);
    of.unary_f32(UnaryOp::exp, {}, out, power, width);
    for (Index j = 0; j < width; ++j) sum[j] += power[j];
  }
  for (Index j = 0; j < width; ++j)
    row[j] = static_cast<float>(log ? std::log(sum[j]) : 1 / sum[j]);
  for (Index i = 0; i < n; ++i) {
    float* out = y + i * y_step;
    of.binary_f32(log ? BinaryOp::sub : BinaryOp::mul, {}, out, 1, row, 1, out, width);
  }
}

/// dx of such lines.
void gradient_tile(bool log, const float* dy, Index dy_step, const float* y, Index y_step,
                   float* dx, Index dx_step, Index n, Index width) {
  double sum[lines_per_tile] = {};
  float power[lines_per_tile];
  for (Index i = 0; i < n; ++i) {
    const float *g = dy + i * dy_step, *p = y + i * y_step;
    for (Index j = 0; j < width; ++j)
      sum[j] += log ? g[j] : static_cast<double>(g[j]) * static_cast<double>(p[j]);
  }
  for (Index i = 0; i < n; ++i) {
    const float *g = dy + i * dy_step, *p = y + i * y_step;
    float* to = dx + i * dx_step;
    if (log) kernels().elementwise.unary_f32(UnaryOp::exp, {}, p, power, width);
    for (Index j = 0; j < width; ++j) {
      const auto s = static_cast<float>(sum[j]);
      to[j] = log ? g[j] - power[j] * s : p[j] * (g[j] - s);
    }
  }
}

}  // namespace

void CpuBackend::do_softmax(bool log, const Tensor& x, std::int64_t dim, const Tensor& y) {
  const std::int64_t n = size_along(x, dim);
  const std::int64_t x_stride = stride_along(x, dim), y_stride = stride_along(y, dim);
  const auto of_tile = [&](const Offsets<2>& at, Index width) {
    softmax_tile(log, x.data_ptr<float>() + at[0], x_stride, y.data_ptr<float>() + at[1], y_stride,
                 n, width);
  };
  if (x.numel() == 0 || for_each_tile(dim, of_tile, x, y)) return;
  if (is_dense_bf16(dim, x, y)) {
    auto make_body = [&] {
      return [&, powers = std::vector<float>(n)](const Offsets<2>& at) mutable {
        const SoftmaxLine<Bf16Bits>& of = kernels().softmax.bf16;
        const Bf16Bits* from = bits_of(x) + at[0];
        Bf16Bits* to = bits_of(y) + at[1];
        log ? of.log_softmax(from, n, to) : of.softmax(from, n, powers.data(), to);
      };
    };
    return for_each_line(dim, make_body, x, y);
  }
  visit_float_compute(x.dtype(), "softmax", [&]<class C>() {
    const bool y_dense = y.dtype() == dtype_of<C> && y_stride == 1;
    auto make_body = [&] {
      return [&, in = std::vector<C>(n), out = std::vector<C>(n)](const Offsets<2>& at) mutable {
        const C* from = dense_line(x.dtype(), x.data_ptr(), at[0], x_stride, n, in.data());
        C* to = y_dense ? static_cast<C*>(y.data_ptr()) + at[1] : out.data();
        softmax_line(log, from, n, to);
        if (!y_dense) store(y.dtype(), y.data_ptr(), at[1], y_stride, n, to);
      };
    };
    for_each_line(dim, make_body, x, y);
  });
}

void CpuBackend::do_softmax_backward(bool log, const Tensor& dy, const Tensor& y, std::int64_t dim,
                                     const Tensor& dx) {
  const std::int64_t n = size_along(y, dim);
  const std::int64_t dy_stride = stride_along(dy, dim), y_stride = stride_along(y, dim);
  const std::int64_t dx_stride = stride_along(dx, dim);
  const auto of_tile = [&](const Offsets<3>& at, Index width) {
    gradient_tile(log, dy.data_ptr<float>() + at[0], dy_stride, y.data_ptr<float>() + at[1],
                  y_stride, dx.data_ptr<float>() + at[2], dx_stride, n, width);
  };
  if (y.numel() == 0 || for_each_tile(dim, of_tile, dy, y, dx)) return;
  if (is_dense_bf16(dim, dy, y, dx)) {
    const SoftmaxLine<Bf16Bits>& of = kernels().softmax.bf16;
    const auto gradient = log ? of.log_softmax_gradient : of.softmax_gradient;
    auto make_body = [&] {
      return [&](const Offsets<3>& at) {
        gradient(bits_of(dy) + at[0], bits_of(y) + at[1], n, bits_of(dx) + at[2]);
      };
    };
    return for_each_line(dim, make_body, dy, y, dx);
  }
  visit_float_compute(y.dtype(), "softmax_backward", [&]<class C>() {
    const bool dx_dense = dx.dtype() == dtype_of<C> && dx_stride == 1;
    auto make_body = [&] {
      return [&, in = std::vector<C>(n), from = std::vector<C>(n),
              out = std::vector<C>(n)](const Offsets<3>& at) mutable {
        const C* g = dense_line(dy.dtype(), dy.data_ptr(), at[0], dy_stride, n, in.data());
        const C* p = dense_line(y.dtype(), y.data_ptr(), at[1], y_stride, n, from.data());
        C* to = dx_dense ? static_cast<C*>(dx.data_ptr()) + at[2] : out.data();
        gradient_line(log, g, p, n, to);
        if (!dx_dense) store(dx.dtype(), dx.data_ptr(), at[2], dx_stride, n, to);
      };
    };
    for_each_line(dim, make_body, dy, y, dx);
  });
}

}  // namespace rondo::cpu
