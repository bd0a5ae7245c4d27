#pragma once
// The kernels of batch_norm.cu: the work of one thread or one group.

#include <algorithm>
#include <cmath>

#include "tensor/cuda/strided.cuh"

namespace rondo::cuda {

/// The memory layout of (N, C, ...): rows of `channels` elements (channels_last), or planes of
/// `length` elements of one channel each.
struct Layout {
  bool channels_last;
  std::int64_t channels, rows, length;

  explicit Layout(const Tensor& x)
      : channels_last(x.dim() == 2 || (x.dim() == 4 && x.shape()[1] > 1 &&
                                       x.is_contiguous(MemoryFormat::channels_last))),
        channels(x.shape()[1]),
        rows(x.numel() / channels),
        length(rows / x.shape()[0]) {}

  /// Whether packs of `size` elements stay within one row (or plane).
  bool fits(int size) const { return (channels_last ? channels : length) % size == 0; }
};

/// How threads divide the data. It is split into packs of V elements, and the packs form columns:
/// of V neighbouring channels (channels_last), or of one channel (planes). A block processes
/// `width` neighbouring columns and one split of their packs. Each thread takes one column and
/// moves down it in parallel with the others, so that values per channel are read once and kept in
/// registers.
template <int V>
struct Walk {
  bool channels_last;
  std::int64_t columns, packs;  // number of columns; packs in one column
  std::int64_t tiles, splits;   // pieces of the columns, pieces of the packs
  int width;
  std::int64_t column_step, pack_step, image_jump;  // elements
  Divisor by_plane;                                 // packs of a plane

  static constexpr int widest = 32;

  explicit Walk(const Layout& layout)
      : channels_last(layout.channels_last),
        columns(channels_last ? layout.channels / V : layout.channels),
        packs(channels_last ? layout.rows : layout.rows / V),
        column_step(channels_last ? V : layout.length),
        pack_step(channels_last ? layout.channels : V),
        image_jump(channels_last ? 0 : (layout.channels - 1) * layout.length),
        by_plane(channels_last ? packs : layout.length / V) {
    // Eight packs per thread, and enough blocks to fill a GPU several times.
    constexpr std::int64_t packs_of_block = 8 * threads_per_block, most_blocks = 4096;
    const std::int64_t most_width = channels_last ? widest : 1;
    tiles = (columns + most_width - 1) / most_width;
    width = static_cast<int>((columns + tiles - 1) / tiles);
    const std::int64_t wanted =
        std::clamp<std::int64_t>(columns * packs / packs_of_block, 1, most_blocks);
    splits = std::clamp<std::int64_t>(wanted / tiles, 1, std::max<std::int64_t>(packs, 1));
  }
  std::int64_t blocks() const { return tiles * splits; }

  /// The packs first, first + step, … < end of a column.
  struct Part {
    std::int64_t column, split, first, end;
    int step;
    bool is_first;  // first of the block's threads on this column
  };
  /// The part of a thread that processes column k of the block's `width` columns.
  template <class Group>
  RONDO_HD Part part(const Group& group, std::int64_t block, int k) const {
    Part p;
    p.split = block / tiles;
    p.column = (block - p.split * tiles) * width + k;
    p.step = group.size() < width ? 1 : group.size() / width;
    const int row = group.thread() / width;
    p.is_first = row == 0 && p.column < columns;
    p.end = packs * (p.split + 1) / splits;
    p.first = row < p.step && p.column < columns ? packs * p.split / splits + row : p.end;
    return p;
  }
  /// The first element of a pack.
  RONDO_HD std::int64_t at(std::int64_t column, std::int64_t pack) const {
    return column * column_step + pack * pack_step + by_plane.divide(pack) * image_jump;
  }
  /// The channel of element k of a column's packs.
  RONDO_HD std::int64_t channel(std::int64_t column, int k) const {
    return channels_last ? column * V + k : column;
  }
};

/// One float for each channel of a column.
template <int V>
struct OfChannels {
  float v[V];

  /// Loads from `of`, which has one float for each channel of the tensor; 16-byte aligned if V is 4
  /// or 8.
  RONDO_HD static OfChannels load(const float* of, const Walk<V>& walk, std::int64_t column) {
    OfChannels values;
    if (V > 1 && walk.channels_last) {
      for (int k = 0; k + 4 <= V; k += 4) {
        const auto four = *reinterpret_cast<const Pack<float>*>(of + column * V + k);
        for (int j = 0; j < 4; ++j) values.v[k + j] = four.values[j];
      }
    } else {
      for (int k = 0; k < V; ++k) values.v[k] = of[column];
    }
    return values;
  }
};

/// The sums of one channel: (sum of x - shift, sum of its squares), or in the backward pass (sum of
/// g, sum of g (x - mean)).
struct Pair {
  float a, b;
};

/// dy where the relu passed values through, otherwise 0. The mask is y > 0, or (x - mean) scale +
/// offset > 0 as Apply computed it (a cuDNN engine may differ from it where y is within an ulp of
/// 0).
template <class T, int V>
struct Gradient {
  const T *dy, *y;
  const float *scale, *offset;  // null: no mask from x

  /// The factors of a column's channels.
  struct OfColumn {
    OfChannels<V> scale, offset;
  };
  RONDO_HD OfColumn of(const Walk<V>& walk, std::int64_t column) const {
    OfColumn c;
    if (scale != nullptr)
      c = {OfChannels<V>::load(scale, walk, column), OfChannels<V>::load(offset, walk, column)};
    return c;
  }
  struct Loaded {
    Raw<T, V> dy, y;
  };
  RONDO_HD Loaded load(std::int64_t i) const {
    return {load_raw<V>(dy, i), y != nullptr ? load_raw<V>(y, i) : Raw<T, V>{}};
  }
  /// `centered` is x - mean.
  RONDO_HD Values<T, V> masked(const Loaded& loaded, const OfColumn& c,
                               const float* centered) const {
    Values<T, V> g = Values<T, V>::of(loaded.dy);
    if (y != nullptr) {
      const Values<T, V> out = Values<T, V>::of(loaded.y);
      for (int k = 0; k < V; ++k) g.v[k] = out.v[k] <= 0 ? 0 : g.v[k];
    } else if (scale != nullptr) {
      for (int k = 0; k < V; ++k)
        g.v[k] = std::fma(centered[k], c.scale.v[k], c.offset.v[k]) <= 0 ? 0 : g.v[k];
    }
    return g;
  }
};

/// The forward's terms, relative to the shift.
template <class T, int V>
struct ForwardTerms {
  const T* x;
  const T* first;  // the first value of each channel, `first_step` apart
  std::int64_t first_step;

  using OfColumn = OfChannels<V>;
  RONDO_HD OfColumn of(const Walk<V>& walk, std::int64_t column) const {
    OfColumn shift;
    for (int k = 0; k < V; ++k)
      shift.v[k] = convert<float>(first[walk.channel(column, k) * first_step]);
    return shift;
  }
  static constexpr int together = 4;  // packs that are loaded at the same time
  using Loaded = Raw<T, V>;
  RONDO_HD Loaded load(std::int64_t i) const { return load_raw<V>(x, i); }
  RONDO_HD void add(const Loaded& loaded, const OfColumn& shift, Pair* sums) const {
    const Values<T, V> values = Values<T, V>::of(loaded);
    for (int k = 0; k < V; ++k) {
      const float d = values.v[k] - shift.v[k];
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

  struct OfColumn {
    OfChannels<V> mean;
    typename Gradient<T, V>::OfColumn mask;
  };
  RONDO_HD OfColumn of(const Walk<V>& walk, std::int64_t column) const {
    return {OfChannels<V>::load(mean, walk, column), gradient.of(walk, column)};
  }
  static constexpr int together = 2;
  struct Loaded {
    Raw<T, V> x;
    typename Gradient<T, V>::Loaded gradient;
  };
  RONDO_HD Loaded load(std::int64_t i) const { return {load_raw<V>(x, i), gradient.load(i)}; }
  RONDO_HD void add(const Loaded& loaded, const OfColumn& c, Pair* sums) const {
    Values<T, V> centered = Values<T, V>::of(loaded.x);
    for (int k = 0; k < V; ++k) centered.v[k] -= c.mean.v[k];
    const Values<T, V> g = gradient.masked(loaded.gradient, c.mask, centered.v);
    for (int k = 0; k < V; ++k) {
      sums[k].a += g.v[k];
      sums[k].b += g.v[k] * centered.v[k];
    }
  }
};

/// Moves down a part of a column. Loads `together` packs, so that these loads are in flight at the
/// same time, then calls `use` for each pack.
template <int together, int V, class Load, class Use>
RONDO_HD void go_down(const Walk<V>& walk, const typename Walk<V>::Part& part, const Load& load,
                      const Use& use) {
  std::int64_t p = part.first;
  for (; p + (together - 1) * part.step < part.end; p += together * part.step) {
    std::int64_t at[together];
    for (int u = 0; u < together; ++u) at[u] = walk.at(part.column, p + u * part.step);
    decltype(load(at[0])) loaded[together];
    for (int u = 0; u < together; ++u) loaded[u] = load(at[u]);
    for (int u = 0; u < together; ++u) use(loaded[u], at[u]);
  }
  for (; p < part.end; p += part.step) {
    const std::int64_t at = walk.at(part.column, p);
    use(load(at), at);
  }
}

/// A block's sums of its columns.
template <int V, class Terms>
struct SumBlock {
  Walk<V> walk;
  Terms terms;
  Pair* partial;  // (channels, splits)

  struct Sums {
    Pair of[V];
  };
  template <class Group>
  RONDO_HD void operator()(const Group& group, std::int64_t block) const {
    // On a GPU the loop runs once; the single thread on the host processes one column after
    // another.
    for (int k = group.thread() % walk.width; k < walk.width; k += group.size()) {
      const auto part = walk.part(group, block, k);
      Sums sums;
      for (int j = 0; j < V; ++j) sums.of[j] = {0, 0};
      if (part.first < part.end) {
        const auto of_column = terms.of(walk, part.column);
        go_down<Terms::together>(
            walk, part, [&](std::int64_t i) { return terms.load(i); },
            [&](const auto& loaded, std::int64_t) { terms.add(loaded, of_column, sums.of); });
      }
      sums = group.reduce_columns(sums, walk.width, [](Sums x, const Sums& y) {
        for (int j = 0; j < V; ++j) x.of[j] = {x.of[j].a + y.of[j].a, x.of[j].b + y.of[j].b};
        return x;
      });
      if (!part.is_first) continue;
      if (walk.channels_last) {
        for (int j = 0; j < V; ++j)
          partial[(part.column * V + j) * walk.splits + part.split] = sums.of[j];
      } else {
        Pair total = sums.of[0];
        for (int j = 1; j < V; ++j) total = {total.a + sums.of[j].a, total.b + sums.of[j].b};
        partial[part.column * walk.splits + part.split] = total;
      }
    }
  }
};

/// The sums of a channel over all splits.
struct Joined {
  double a, b;
};
template <class Group>
RONDO_HD Joined join_splits(const Group& group, const Pair* partial, std::int64_t splits,
                            std::int64_t c) {
  Joined sums{0, 0};
  for (std::int64_t s = group.thread(); s < splits; s += group.size()) {
    sums.a += partial[c * splits + s].a;
    sums.b += partial[c * splits + s].b;
  }
  return group.reduce(sums, [](Joined x, Joined y) { return Joined{x.a + y.a, x.b + y.b}; });
}

/// The factors of y = (x - mean) scale + offset.
struct Affine {
  const float *gamma, *beta;  // may be null
  float *scale, *offset;
  RONDO_HD void set(std::int64_t c, float invstd) const {
    scale[c] = static_cast<float>(static_cast<double>(gamma != nullptr ? gamma[c] : 1.0f) * invstd);
    offset[c] = beta != nullptr ? beta[c] : 0.0f;
  }
};

/// Computes a channel's statistics, running statistics and factors from its sums.
template <class T>
struct FinishStatistics {
  const Pair* partial;
  std::int64_t splits, rows;
  const T* first;
  std::int64_t first_step;
  double momentum, eps;
  float *mean, *invstd, *running_mean, *running_var;
  Affine affine;
  template <class Group>
  RONDO_HD void operator()(const Group& group, std::int64_t c) const {
    const Joined sums = join_splits(group, partial, splits, c);
    if (group.thread() != 0) return;
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

/// y = relu?((x - mean) scale + offset + residual?).
template <class T, int V>
struct Apply {
  Walk<V> walk;
  const T *x, *residual;
  T* y;
  const float *mean, *scale, *offset;
  bool relu;

  template <class Group>
  RONDO_HD void operator()(const Group& group, std::int64_t block) const {
    for (int k = group.thread() % walk.width; k < walk.width; k += group.size()) {
      const auto part = walk.part(group, block, k);
      if (part.first >= part.end) continue;
      const auto of_mean = OfChannels<V>::load(mean, walk, part.column),
                 of_scale = OfChannels<V>::load(scale, walk, part.column),
                 of_offset = OfChannels<V>::load(offset, walk, part.column);
      struct Loaded {
        Raw<T, V> x, residual;
      };
      auto load = [&](std::int64_t i) {
        return Loaded{load_raw<V>(x, i),
                      residual != nullptr ? load_raw<V>(residual, i) : Raw<T, V>{}};
      };
      auto finish = [&](const Loaded& loaded, std::int64_t i) {
        Values<T, V> values = Values<T, V>::of(loaded.x);
        for (int j = 0; j < V; ++j)
          values.v[j] = std::fma(values.v[j] - of_mean.v[j], of_scale.v[j], of_offset.v[j]);
        if (residual != nullptr) {
          const Values<T, V> r = Values<T, V>::of(loaded.residual);
          for (int j = 0; j < V; ++j) values.v[j] += r.v[j];
        }
        if (relu) {
          for (int j = 0; j < V; ++j) values.v[j] = values.v[j] < 0 ? 0 : values.v[j];
        }
        values.store(y, i);
      };
      go_down<2>(walk, part, load, finish);
    }
  }
};

/// dx = gamma invstd (g - sum_g / n - (x - mean) invstd^2 sum_gx / n) = a g + b (x - mean) + d.
struct FinishGradient {
  const Pair* partial;
  std::int64_t splits, rows;
  const float *gamma, *invstd;
  float *dgamma, *dbeta, *a, *b, *d;
  template <class Group>
  RONDO_HD void operator()(const Group& group, std::int64_t c) const {
    const Joined sums = join_splits(group, partial, splits, c);
    if (group.thread() != 0) return;
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
  Walk<V> walk;
  const T* x;
  Gradient<T, V> gradient;
  T *dx, *dresidual;
  const float *mean, *a, *b, *d;

  template <class Group>
  RONDO_HD void operator()(const Group& group, std::int64_t block) const {
    for (int k = group.thread() % walk.width; k < walk.width; k += group.size()) {
      const auto part = walk.part(group, block, k);
      if (part.first >= part.end) continue;
      const auto of_mean = OfChannels<V>::load(mean, walk, part.column),
                 of_a = OfChannels<V>::load(a, walk, part.column),
                 of_b = OfChannels<V>::load(b, walk, part.column),
                 of_d = OfChannels<V>::load(d, walk, part.column);
      typename Gradient<T, V>::OfColumn mask{of_a, {}};  // a = gamma invstd, equal to scale
      if (gradient.scale != nullptr)
        mask.offset = OfChannels<V>::load(gradient.offset, walk, part.column);
      struct Loaded {
        Raw<T, V> x;
        typename Gradient<T, V>::Loaded gradient;
      };
      auto load = [&](std::int64_t i) { return Loaded{load_raw<V>(x, i), gradient.load(i)}; };
      auto finish = [&](const Loaded& loaded, std::int64_t i) {
        Values<T, V> centered = Values<T, V>::of(loaded.x);
        for (int j = 0; j < V; ++j) centered.v[j] -= of_mean.v[j];
        const Values<T, V> g = gradient.masked(loaded.gradient, mask, centered.v);
        Values<T, V> result;
        for (int j = 0; j < V; ++j)
          result.v[j] = g.v[j] * of_a.v[j] + centered.v[j] * of_b.v[j] + of_d.v[j];
        result.store(dx, i);
        if (dresidual != nullptr) g.store(dresidual, i);
      };
      go_down<2>(walk, part, load, finish);
    }
  }
};

inline float* floats(const Tensor& x) { return x.defined() ? x.data_ptr<float>() : nullptr; }

}  // namespace rondo::cuda
