// Batch normalisation, forward and backward. Each takes two passes over memory: one computes sums
// per channel, the other applies them. The ReLU and the residual addition that follow in a ResNet
// are part of the second pass. The backward pass gets the ReLU's mask from one bit per element if
// rows are whole vectors, otherwise from y or recomputed from x.
//
// Sums: the rows (pixels) are split into a fixed number of chunks, independent of the number of
// threads. A chunk sums short runs in f32, in vector registers, and adds the runs in f64. The
// chunks' sums are then added in order. So the result neither drifts with the batch size nor
// depends on the thread count. The variance is computed around a first guess of the mean (the mean
// of the first rows), which avoids the cancellation of E[x^2] - E[x]^2. As in PyTorch, the
// statistics of bf16 and f16 data are f32. bf16 tensors are read and written directly, f16 tensors
// through copies in f32. A channel whose squares overflow or underflow f32 is summed again in f64.

#include <cmath>
#include <vector>

#include "tensor/cpu/cpu_backend.h"
#include "tensor/cpu/isa/table.h"
#include "tensor/cpu/strided.h"
#include "tensor/scratch.h"

namespace rondo::cpu {
namespace {

/// The memory layout of (N, C, ...): `rows` runs of `channels` floats (channels_last), or `planes`
/// pieces of `length` floats, each of one channel (contiguous).
struct Layout {
  bool channels_last;
  std::int64_t channels, rows, planes, length;

  explicit Layout(const Tensor& x)
      : channels_last(is_channels_last(x)),
        channels(x.size(1)),
        rows(channels ? x.numel() / channels : 0),
        planes(x.size(0)),
        length(planes && channels ? x.numel() / planes / channels : 0) {}

  static bool is_channels_last(const Tensor& x) {
    return x.dim() == 2 || (x.dim() == 4 && x.is_contiguous(MemoryFormat::channels_last));
  }
  static Tensor normalize(const Tensor& x) {
    return is_channels_last(x) && (x.dim() == 4 || x.is_contiguous()) ? x : dense(x);
  }
};

constexpr std::int64_t chunks = 64;
constexpr std::int64_t run_rows = 128;      // rows that are summed in f32
constexpr std::int64_t run_length = 16384;  // the same within one plane, split over 16 lanes

/// Two sums for each channel. `add(first, rows, channel, out_a, out_b)` adds the terms of `rows`
/// rows, starting at element `first`, in f32. For channels_last data, channel is 0 and all channels
/// are summed.
template <class Add>
void sum_pairs(const Layout& layout, std::vector<double>& a, std::vector<double>& b, Add add) {
  auto channels = static_cast<std::size_t>(layout.channels);
  a.assign(channels, 0);
  b.assign(channels, 0);
  if (!layout.channels_last) {
    parallel_for(layout.channels, layout.rows * layout.channels, [&](auto begin, auto end) {
      for (std::int64_t c = begin; c < end; ++c) {
        auto k = static_cast<std::size_t>(c);
        for (std::int64_t n = 0; n < layout.planes; ++n) {
          for (std::int64_t i = 0; i < layout.length; i += run_length) {
            float u = 0, v = 0;
            add((n * layout.channels + c) * layout.length + i,
                std::min(run_length, layout.length - i), c, &u, &v);
            a[k] += u;
            b[k] += v;
          }
        }
      }
    });
    return;
  }
  std::vector<double> partial(2 * chunks * channels, 0);
  parallel_for(chunks, layout.rows * layout.channels, [&](auto begin, auto end) {
    std::vector<float> run(2 * channels);
    for (std::int64_t chunk = begin; chunk < end; ++chunk) {
      double* sums = partial.data() + static_cast<std::size_t>(2 * chunk) * channels;
      std::int64_t last = layout.rows * (chunk + 1) / chunks;
      for (std::int64_t r = layout.rows * chunk / chunks; r < last; r += run_rows) {
        std::fill(run.begin(), run.end(), 0.f);
        add(r * layout.channels, std::min(run_rows, last - r), std::int64_t{0}, run.data(),
            run.data() + channels);
        for (std::size_t i = 0; i < 2 * channels; ++i) sums[i] += run[i];
      }
    }
  });
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    for (std::size_t c = 0; c < channels; ++c) {
      a[c] += partial[2 * chunk * channels + c];
      b[c] += partial[(2 * chunk + 1) * channels + c];
    }
  }
}

/// Calls f(first, rows, channels, channel) on pieces of the data, in parallel, in the form that the
/// ISA kernels need. channel is the index of the piece's first per-channel factor. Each thread runs
/// from the end of its share to the beginning, because the caches still hold the data that the pass
/// for the sums read last.
template <class F>
void for_each_piece(const Layout& layout, F f) {
  std::int64_t work = layout.rows * layout.channels;
  if (layout.channels_last) {
    parallel_for(layout.rows, work, [&](auto begin, auto end) {
      for (std::int64_t last = end; last > begin; last -= run_rows) {
        std::int64_t first = std::max(begin, last - run_rows);
        f(first * layout.channels, last - first, layout.channels, std::int64_t{0});
      }
    });
  } else {
    parallel_for(layout.planes * layout.channels, work, [&](auto begin, auto end) {
      for (std::int64_t i = end - 1; i >= begin; --i) {
        f(i * layout.length, layout.length, std::int64_t{1}, i % layout.channels);
      }
    });
  }
}

struct ChannelMoments {
  double mean, variance;
};
/// Those of one channel of x (N, C, ...), a row-major tensor of f64.
ChannelMoments moments_in_f64(const Tensor& x, std::int64_t channel) {
  const Layout layout(x);
  const auto mean_of = [&](auto f) {
    double sum = 0;
    for (std::int64_t n = 0; n < layout.planes; ++n) {
      const double* plane = x.data_ptr<double>() + (n * layout.channels + channel) * layout.length;
      for (std::int64_t i = 0; i < layout.length; ++i) sum += f(plane[i]);
    }
    return sum / static_cast<double>(layout.rows);
  };
  const double mean = mean_of([](double v) { return v; });
  return {mean, mean_of([mean](double v) { return (v - mean) * (v - mean); })};
}

float value_or(const Tensor& x, std::int64_t i, float otherwise) {
  return x.defined() ? x.data_ptr<float>()[i] : otherwise;
}

/// y = (x - mean) scale + offset.
struct Affine {
  const float* mean;
  std::vector<float> scale, offset;
  Affine(std::int64_t channels, const Tensor& gamma, const Tensor& beta, const float* mean,
         const float* invstd)
      : mean(mean), scale(static_cast<std::size_t>(channels)), offset(scale.size()) {
    for (std::int64_t c = 0; c < channels; ++c) {
      auto k = static_cast<std::size_t>(c);
      scale[k] = static_cast<float>(static_cast<double>(value_or(gamma, c, 1)) * invstd[c]);
      offset[k] = value_or(beta, c, 0);
    }
  }
};

/// The kernels for tensors of T, and the tensors' data pointers.
template <class T>
const BatchNormKernels<T>& batch_norm_kernels() {
  if constexpr (std::is_same_v<T, float>) {
    return kernels().batch_norm;
  } else {
    return kernels().batch_norm_bf16;
  }
}
template <class T>
T* data_of(const Tensor& x) {
  return x.defined() ? static_cast<T*>(x.data_ptr()) : nullptr;
}

/// The dtype in which data of `dtype` is read and written; visit_kernel_dtype calls f<T>() for it.
DType kernel_dtype(DType dtype) { return dtype == bf16 ? bf16 : f32; }
template <class F>
void visit_kernel_dtype(DType dtype, F f) {
  dtype == bf16 ? f.template operator()<Bf16Bits>() : f.template operator()<float>();
}

/// Whether to write results past the caches: the results are so large that their next reader would
/// not find them in the cache. (The results' bits do not depend on it.)
bool go_past_caches(const Layout& layout, std::initializer_list<const Tensor*> results) {
  constexpr std::int64_t too_large = std::int64_t{24} << 20;
  bool go = layout.channels_last && layout.channels % 16 == 0;
  for (const Tensor* t : results) {
    if (!t->defined()) continue;
    go &= t->nbytes() > too_large && reinterpret_cast<std::uintptr_t>(t->data_ptr()) % 64 == 0;
  }
  return go;
}

template <class T>
void apply(const Tensor& x, const Affine& affine, const BatchNormFusion& fusion, const Tensor& y) {
  Layout layout(x);
  const T* from = data_of<T>(x);
  const T* residual = data_of<T>(fusion.residual);
  T* to = data_of<T>(y);
  std::uint8_t* bits = data_of<std::uint8_t>(fusion.mask);
  const bool past_caches = go_past_caches(layout, {&y});
  for_each_piece(layout, [&](auto first, auto rows, auto channels, auto channel) {
    batch_norm_kernels<T>().apply(from + first, residual ? residual + first : nullptr, to + first,
                                  bits ? bits + first / 8 : nullptr, rows, channels,
                                  affine.mean + channel, affine.scale.data() + channel,
                                  affine.offset.data() + channel, fusion.relu, past_caches);
  });
}

/// x in the form that the kernels read: dense, of their dtype.
Tensor readable_activation(const Tensor& x) {
  return Layout::normalize(x.dtype() == kernel_dtype(x.dtype()) ? x : as_f32(x));
}
/// Whether t has the layout of `input` and can be traversed together with it.
bool lies_like(const Tensor& input, const Tensor& t) {
  return t.dtype() == input.dtype() &&
         (t.strides() == input.strides() || t.is_contiguous(input.suggested_format()));
}
Tensor laid_like(const Tensor& input, const Tensor& t) {
  if (!t.defined() || lies_like(input, t)) return t;
  Tensor copy = Tensor::empty_like(input);
  CpuBackend::instance().do_copy(t, copy);
  return copy;
}

/// Runs compute<T>(x, fusion, y) on data of one layout and dtype. Converts inputs and outputs.
template <class F>
void in_kernel_dtype(const Tensor& x, const BatchNormFusion& fusion, const Tensor& y, F compute) {
  Tensor input = readable_activation(x);
  BatchNormFusion with = fusion;
  with.residual = laid_like(input, fusion.residual);
  Tensor output = lies_like(input, y) ? y : Tensor::empty_like(input);
  visit_kernel_dtype(input.dtype(),
                     [&]<class T>() { compute.template operator()<T>(input, with, output); });
  if (!output.is_same(y)) CpuBackend::instance().do_copy(output, y);
}

/// The normalisation of the forward pass.
struct Norm {
  const Tensor &gamma, &beta, &mean, &invstd;
};

/// CpuBackend::batch_norm_backward on tensors of T with the same layout.
template <class T>
void backward(const Tensor& gradient, const Tensor& input, const Tensor& output, bool relu,
              const Norm& norm, const Tensor& result, const Tensor& dgamma, const Tensor& dbeta,
              const Tensor& residual) {
  Layout layout(input);
  const T *px = data_of<T>(input), *pdy = data_of<T>(gradient);
  const float* pm = norm.mean.data_ptr<float>();
  const float* ps = norm.invstd.data_ptr<float>();
  Affine forward(layout.channels, norm.gamma, norm.beta, pm, ps);
  auto mask_at = [&](std::int64_t first, std::int64_t channel) -> ReluMask<T> {
    if (!relu) return {};
    if (output.defined() && output.dtype() == u8)
      return {.bits = data_of<std::uint8_t>(output) + first / 8};
    if (output.defined()) return {.y = data_of<T>(output) + first};
    return {.mean = pm + channel,
            .scale = forward.scale.data() + channel,
            .offset = forward.offset.data() + channel};
  };
  std::vector<double> sum_g, sum_gx;
  sum_pairs(layout, sum_g, sum_gx, [&](auto at, auto rows, auto c, float* g, float* gx) {
    batch_norm_kernels<T>().backward_sums(pdy + at, px + at, mask_at(at, c), rows,
                                          layout.channels_last ? layout.channels : 1, pm + c, g,
                                          gx);
  });

  // dx = gamma invstd (g - sum_g / n - (x - mean) invstd^2 sum_gx / n) = a g + b (x - mean) + d.
  auto n = static_cast<double>(layout.rows);
  auto channels = static_cast<std::size_t>(layout.channels);
  std::vector<float> a(channels), b(channels), d(channels);
  for (std::size_t c = 0; c < channels; ++c) {
    double s = ps[c];
    double scale = value_or(norm.gamma, static_cast<std::int64_t>(c), 1) * s;
    a[c] = static_cast<float>(scale);
    b[c] = static_cast<float>(-scale * s * s * sum_gx[c] / n);
    d[c] = static_cast<float>(-scale * sum_g[c] / n);
    if (dgamma.defined()) dgamma.data_ptr<float>()[c] = static_cast<float>(sum_gx[c] * s);
    if (dbeta.defined()) dbeta.data_ptr<float>()[c] = static_cast<float>(sum_g[c]);
  }
  T *pdx = data_of<T>(result), *pr = data_of<T>(residual);
  const bool past_caches = go_past_caches(layout, {&result, &residual});
  for_each_piece(layout, [&](auto first, auto rows, auto width, auto c) {
    batch_norm_kernels<T>().backward_apply(pdy + first, px + first, mask_at(first, c), pdx + first,
                                           pr ? pr + first : nullptr, rows, width, pm + c,
                                           a.data() + c, b.data() + c, d.data() + c, past_caches);
  });
}

}  // namespace

// Kernels read and write mask bits in whole vectors.
std::int64_t CpuBackend::batch_norm_mask_bytes(const Tensor& x) const {
  const bool whole = Layout::is_channels_last(x) && x.size(1) % 16 == 0;
  return whole && x.dtype() == kernel_dtype(x.dtype()) ? x.numel() / 8 : 0;
}

void CpuBackend::do_batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                               const Tensor& running_mean, const Tensor& running_var,
                               double momentum, double eps, const BatchNormFusion& fusion,
                               const Tensor& y, const Tensor& mean, const Tensor& invstd) {
  in_kernel_dtype(
      x, fusion, y,
      [&]<class T>(const Tensor& input, const BatchNormFusion& with, const Tensor& output) {
        Layout layout(input);
        const T* data = data_of<T>(input);
        auto channels = static_cast<std::size_t>(layout.channels);
        std::vector<float> zero(channels, 0), guess(channels, 0), unused(channels, 0);
        const auto& moments = batch_norm_kernels<T>().moments;
        std::int64_t first = std::min(run_rows, layout.channels_last ? layout.rows : layout.length);
        for (std::int64_t c = 0; c < (layout.channels_last ? 1 : layout.channels); ++c) {
          moments(data + c * layout.length, first, layout.channels_last ? layout.channels : 1,
                  zero.data(), guess.data() + c, unused.data() + c);
        }
        for (float& g : guess) g /= static_cast<float>(first);

        std::vector<double> sum, squares;
        sum_pairs(layout, sum, squares, [&](auto at, auto rows, auto c, float* s, float* q) {
          moments(data + at, rows, layout.channels_last ? layout.channels : 1, guess.data() + c, s,
                  q);
        });
        auto n = static_cast<double>(layout.rows);
        float* batch_mean = mean.data_ptr<float>();
        float* batch_invstd = invstd.data_ptr<float>();
        Tensor wide;  // x in f64, if it is needed
        for (std::size_t c = 0; c < channels; ++c) {
          double shift = sum[c] / n, var = std::max(squares[c] / n - shift * shift, 0.0);
          double average = guess[c] + shift;
          // Partial sums in f32 may overflow, to NaN if both infinities meet.
          if (!std::isfinite(sum[c]) || !std::isfinite(squares[c]) || var + eps < 1e-30) {
            if (!wide.defined()) do_copy(x, wide = Tensor::empty(x.shape(), {.dtype = f64}));
            const auto exact = moments_in_f64(wide, static_cast<std::int64_t>(c));
            average = exact.mean;
            var = exact.variance;
          }
          batch_mean[c] = static_cast<float>(average);
          batch_invstd[c] = static_cast<float>(1 / std::sqrt(var + eps));
          if (!running_mean.defined()) continue;
          float& rm = running_mean.data_ptr<float>()[c];
          float& rv = running_var.data_ptr<float>()[c];
          rm = static_cast<float>((1 - momentum) * rm + momentum * average);
          rv = static_cast<float>((1 - momentum) * rv + momentum * var * n / (n - 1));
        }
        apply<T>(input, Affine(layout.channels, gamma, beta, batch_mean, batch_invstd), with,
                 output);
      });
}

void CpuBackend::do_batch_norm_inference(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                                         const Tensor& mean, const Tensor& var, double eps,
                                         const BatchNormFusion& fusion, const Tensor& y) {
  in_kernel_dtype(
      x, fusion, y,
      [&]<class T>(const Tensor& input, const BatchNormFusion& with, const Tensor& output) {
        const float* v = var.data_ptr<float>();
        std::vector<float> invstd(v, v + x.size(1));
        for (float& s : invstd) s = static_cast<float>(1 / std::sqrt(s + eps));
        apply<T>(input, Affine(x.size(1), gamma, beta, mean.data_ptr<float>(), invstd.data()), with,
                 output);
      });
}

void CpuBackend::do_batch_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& y,
                                        bool relu, const Tensor& gamma, const Tensor& beta,
                                        const Tensor& mean, const Tensor& invstd, const Tensor& dx,
                                        const Tensor& dgamma, const Tensor& dbeta,
                                        const Tensor& dresidual) {
  const bool has_bits = y.defined() && y.dtype() == u8;
  Tensor input = readable_activation(x), gradient = laid_like(input, dy);
  Tensor output = has_bits ? y : laid_like(input, y);
  auto output_like_input = [&](const Tensor& t) {
    return !t.defined() || lies_like(input, t) ? t : Tensor::empty_like(input);
  };
  Tensor result = output_like_input(dx), residual = output_like_input(dresidual);
  visit_kernel_dtype(input.dtype(), [&]<class T>() {
    backward<T>(gradient, input, output, relu, {gamma, beta, mean, invstd}, result, dgamma, dbeta,
                residual);
  });
  if (!result.is_same(dx)) do_copy(result, dx);
  if (dresidual.defined() && !residual.is_same(dresidual)) do_copy(residual, dresidual);
}

}  // namespace rondo::cpu
