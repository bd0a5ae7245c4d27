#pragma once
// The kernels of batch_norm.cu: what one thread, or one group, does.

#include <cmath>

#include "tensor/cuda/strided.cuh"

namespace rondo::cuda {

/// How the data of (N, C, ...) lies in memory: rows of `channels` elements (channels_last), or
/// planes of `length` elements of one channel each.
struct Layout {
  bool channels_last;
  std::int64_t channels, rows, length;
  Divisor by_channels, by_length;

  explicit Layout(const Tensor& x)
      : channels_last(x.dim() == 2 ||
                      (x.dim() == 4 && x.is_contiguous(MemoryFormat::channels_last))),
        channels(x.shape()[1]),
        rows(x.numel() / channels),
        length(rows / x.shape()[0]),
        by_channels(channels),
        by_length(length) {}

  /// Whether packs of `size` elements stay within one row (or plane).
  bool fits(int size) const { return (channels_last ? channels : length) % size == 0; }
  /// The channel of element i.
  RONDO_HD std::int64_t channel(std::int64_t i) const {
    const std::int64_t run = channels_last ? i : by_length.divide(i);
    return run - by_channels.divide(run) * channels;
  }
};

/// V elements of x from `i` on, as floats. V is 1 or a 16-byte pack.
template <class T, int V>
struct Values {
  float v[V];

  RONDO_HD static Values load(const T* x, std::int64_t i) {
    Values values;
    if constexpr (V == 1) {
      values.v[0] = convert<float>(x[i]);
    } else {
      const Pack<T> pack = *reinterpret_cast<const Pack<T>*>(x + i);
      for (int k = 0; k < V; ++k) values.v[k] = convert<float>(pack.values[k]);
    }
    return values;
  }
  RONDO_HD void store(T* y, std::int64_t i) const {
    if constexpr (V == 1) {
      y[i] = convert<T>(v[0]);
    } else {
      Pack<T> pack;
      for (int k = 0; k < V; ++k) pack.values[k] = convert<T>(v[k]);
      *reinterpret_cast<Pack<T>*>(y + i) = pack;
    }
  }
};

/// What a channel's elements add up to: (sum of x - shift, sum of its squares), or backward
/// (sum of g, sum of g (x - mean)).
struct Pair {
  float a = 0, b = 0;
};

/// dy where the relu let through, else 0. The mask: y > 0, or (x - mean) scale + offset > 0, which
/// is what Apply computed (an engine of cuDNN's may differ from it where y is within an ulp of 0).
template <class T, int V>
struct Gradient {
  const T *dy, *y;
  const float *mean, *scale, *offset;  // scale null: no mask from x

  RONDO_HD Values<T, V> load(std::int64_t i, const Values<T, V>& x, const std::int64_t* c) const {
    Values<T, V> g = Values<T, V>::load(dy, i);
    if (y != nullptr) {
      const Values<T, V> out = Values<T, V>::load(y, i);
      for (int k = 0; k < V; ++k) g.v[k] = out.v[k] <= 0 ? 0 : g.v[k];
    } else if (scale != nullptr) {
      for (int k = 0; k < V; ++k)
        g.v[k] = std::fma(x.v[k] - mean[c[k]], scale[c[k]], offset[c[k]]) <= 0 ? 0 : g.v[k];
    }
    return g;
  }
};

/// The channels of the V elements from i on.
template <int V>
RONDO_HD void channels_of(const Layout& layout, std::int64_t i, std::int64_t (&c)[V]) {
  c[0] = layout.channel(i);
  for (int k = 1; k < V; ++k) c[k] = layout.channels_last ? c[0] + k : c[0];
}

/// Terms of the forward: about the shift.
template <class T, int V>
struct ForwardTerms {
  const T* x;
  const T* first;  // the first value of each channel, `first_step` apart
  std::int64_t first_step;
  RONDO_HD void add(std::int64_t i, const std::int64_t* c, Pair* sums) const {
    const Values<T, V> values = Values<T, V>::load(x, i);
    for (int k = 0; k < V; ++k) {
      const float d = values.v[k] - convert<float>(first[c[k] * first_step]);
      sums[k].a += d;
      sums[k].b += d * d;
    }
  }
};

template <class T, int V>
struct BackwardTerms {
  const T* x;
  Gradient<T, V> gradient;
  const float* mean;
  RONDO_HD void add(std::int64_t i, const std::int64_t* c, Pair* sums) const {
    const Values<T, V> values = Values<T, V>::load(x, i);
    const Values<T, V> g = gradient.load(i, values, c);
    for (int k = 0; k < V; ++k) {
      sums[k].a += g.v[k];
      sums[k].b += g.v[k] * (values.v[k] - mean[c[k]]);
    }
  }
};

/// channels_last: call i sums the V channels of column i % columns over the rows of one split.
template <int V, class Terms>
struct SumColumns {
  Layout layout;
  std::int64_t splits, columns;  // columns = channels / V
  Terms terms;
  Pair* partial;  // (splits, channels)
  RONDO_HD void operator()(std::int64_t i) const {
    const std::int64_t split = i / columns, first = (i - split * columns) * V;
    std::int64_t c[V];
    for (int k = 0; k < V; ++k) c[k] = first + k;
    Pair sums[V];
    const std::int64_t end = layout.rows * (split + 1) / splits;
    for (std::int64_t r = layout.rows * split / splits; r < end; ++r)
      terms.add(r * layout.channels + first, c, sums);
    for (int k = 0; k < V; ++k) partial[split * layout.channels + first + k] = sums[k];
  }
};

/// Planes: a group sums one split of one channel.
template <int V, class Terms>
struct SumPlanes {
  Layout layout;
  std::int64_t splits;
  Terms terms;
  Pair* partial;  // (splits, channels)
  template <class Group>
  RONDO_HD void operator()(const Group& group, std::int64_t row) const {
    const std::int64_t split = row / layout.channels, channel = row - split * layout.channels;
    const std::int64_t packs = layout.rows / V, end = packs * (split + 1) / splits;
    std::int64_t c[V];
    for (int k = 0; k < V; ++k) c[k] = channel;
    Pair sums[V];
    for (std::int64_t p = packs * split / splits + group.thread(); p < end; p += group.size()) {
      const std::int64_t r = p * V, image = layout.by_length.divide(r);
      terms.add((image * layout.channels + channel) * layout.length + r - image * layout.length, c,
                sums);
    }
    Pair total = sums[0];
    for (int k = 1; k < V; ++k) total = {total.a + sums[k].a, total.b + sums[k].b};
    total = group.reduce(total, [](Pair p, Pair q) { return Pair{p.a + q.a, p.b + q.b}; });
    if (group.thread() == 0) partial[split * layout.channels + channel] = total;
  }
};

struct Sums {
  double a = 0, b = 0;
};
RONDO_HD Sums join_splits(const Pair* partial, std::int64_t splits, std::int64_t channels,
                          std::int64_t c) {
  Sums sums;
  for (std::int64_t s = 0; s < splits; ++s) {
    sums.a += partial[s * channels + c].a;
    sums.b += partial[s * channels + c].b;
  }
  return sums;
}

/// Factors of y = (x - mean) scale + offset.
struct Affine {
  const float *gamma, *beta;  // or null
  float *scale, *offset;
  RONDO_HD void set(std::int64_t c, float invstd) const {
    scale[c] = static_cast<float>(static_cast<double>(gamma != nullptr ? gamma[c] : 1.0f) * invstd);
    offset[c] = beta != nullptr ? beta[c] : 0.0f;
  }
};

/// From the sums of a channel to its statistics, running statistics and factors.
template <class T>
struct FinishStatistics {
  const Pair* partial;
  std::int64_t splits, channels, rows;
  const T* first;
  std::int64_t first_step;
  double momentum, eps;
  float *mean, *invstd, *running_mean, *running_var;
  Affine affine;
  RONDO_HD void operator()(std::int64_t c) const {
    const Sums sums = join_splits(partial, splits, channels, c);
    const auto n = static_cast<double>(rows);
    const double shift = sums.a / n, guess = convert<float>(first[c * first_step]);
    double var = sums.b / n - shift * shift;
    if (var < 0) var = 0;
    mean[c] = static_cast<float>(guess + shift);
    invstd[c] = static_cast<float>(1 / std::sqrt(var + eps));
    if (running_mean != nullptr) {
      running_mean[c] =
          static_cast<float>((1 - momentum) * running_mean[c] + momentum * (guess + shift));
      running_var[c] =
          static_cast<float>((1 - momentum) * running_var[c] + momentum * var * n / (n - 1));
    }
    affine.set(c, invstd[c]);
  }
};

struct AffineOfRunning {
  const float* var;
  double eps;
  Affine affine;
  RONDO_HD void operator()(std::int64_t c) const {
    affine.set(c, static_cast<float>(1 / std::sqrt(var[c] + eps)));
  }
};

struct AffineOfBatch {
  const float* invstd;
  Affine affine;
  RONDO_HD void operator()(std::int64_t c) const { affine.set(c, invstd[c]); }
};

/// y = relu?((x - mean) scale + offset + residual?), V elements a call.
template <class T, int V>
struct Apply {
  Layout layout;
  const T *x, *residual;
  T* y;
  const float *mean, *scale, *offset;
  bool relu;
  RONDO_HD void operator()(std::int64_t call) const {
    const std::int64_t i = call * V;
    std::int64_t c[V];
    channels_of(layout, i, c);
    Values<T, V> values = Values<T, V>::load(x, i);
    for (int k = 0; k < V; ++k)
      values.v[k] = std::fma(values.v[k] - mean[c[k]], scale[c[k]], offset[c[k]]);
    if (residual != nullptr) {
      const Values<T, V> r = Values<T, V>::load(residual, i);
      for (int k = 0; k < V; ++k) values.v[k] += r.v[k];
    }
    if (relu) {
      for (int k = 0; k < V; ++k) values.v[k] = values.v[k] < 0 ? 0 : values.v[k];
    }
    values.store(y, i);
  }
};

/// dx = gamma invstd (g - sum_g / n - (x - mean) invstd^2 sum_gx / n) = a g + b (x - mean) + d.
struct FinishGradient {
  const Pair* partial;
  std::int64_t splits, channels, rows;
  const float *gamma, *invstd;
  float *dgamma, *dbeta, *a, *b, *d;
  RONDO_HD void operator()(std::int64_t c) const {
    const Sums sums = join_splits(partial, splits, channels, c);
    const auto n = static_cast<double>(rows);
    const double s = invstd[c], scale = (gamma != nullptr ? gamma[c] : 1.0f) * s;
    a[c] = static_cast<float>(scale);
    b[c] = static_cast<float>(-scale * s * s * sums.b / n);
    d[c] = static_cast<float>(-scale * sums.a / n);
    if (dgamma != nullptr) dgamma[c] = static_cast<float>(sums.b * s);
    if (dbeta != nullptr) dbeta[c] = static_cast<float>(sums.a);
  }
};

template <class T, int V>
struct ApplyGradient {
  Layout layout;
  const T* x;
  Gradient<T, V> gradient;
  T *dx, *dresidual;
  const float *mean, *a, *b, *d;
  RONDO_HD void operator()(std::int64_t call) const {
    const std::int64_t i = call * V;
    std::int64_t c[V];
    channels_of(layout, i, c);
    const Values<T, V> values = Values<T, V>::load(x, i);
    const Values<T, V> g = gradient.load(i, values, c);
    Values<T, V> result;
    for (int k = 0; k < V; ++k)
      result.v[k] = g.v[k] * a[c[k]] + (values.v[k] - mean[c[k]]) * b[c[k]] + d[c[k]];
    result.store(dx, i);
    if (dresidual != nullptr) g.store(dresidual, i);
  }
};

float* floats(const Tensor& x) { return x.defined() ? x.data_ptr<float>() : nullptr; }

}  // namespace rondo::cuda
