// Attention without a matrix of scores (FlashAttention: Dao et al. 2022, Dao 2023).
//
// The scores of L queries and S keys are computed in tiles of 64 keys that fit a first-level cache,
// and no tile is kept. For one query with scores s_k, forward visits the keys once. For the keys
// seen so far it has their maximum m, the sum l = Σ exp(s_k - m), and o = Σ exp(s_k - m) v_k. A
// tile with the maximum m' first multiplies l and o by exp(m - max(m, m')), and then adds its own
// terms:
//
//   y = o / l,   lse = m + log l
//
// lse is all that backward needs to compute the weights again, in whatever order:
//
//   p_k = exp(s_k - lse),   dv_k = Σ_q p_k dy,   dp_k = dy · v_k,   ds_k = p_k (dp_k - dy · y)
//   dq = scale Σ_k ds_k k_k,   dk_k = Σ_q ds_k scale q
//
// With dropout, z_k / (1 - p) with z_k in {0, 1} multiplies the weights after the softmax, so p_k
// in y and dv_k, and dp_k. z is drawn by the weight's place in the matrix of scores, again in
// backward.
//
// A tile has the queries side by side (AttentionKernels): S = K Qᵀ, O += Vᵀ S, and in backward
// dP = V dYᵀ, dQ += Kᵀ dS, dK += dS Q, dV += P dY. Keys that no query of a block attends to are
// left out: with is_causal, tiles of 16 keys follow the diagonal.
//
// Threads share the blocks of queries in forward. In backward they share the heads of keys, and if
// these are few, parts of their keys: then dq is the sum of the parts. The division depends only on
// the sizes, so the bits do not depend on the number of threads. Peak memory is linear in L and S.

#include <omp.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tensor/cpu/allocator.h"
#include "tensor/cpu/convert.h"
#include "tensor/cpu/cpu_backend.h"
#include "tensor/cpu/isa/table.h"
#include "tensor/cpu/strided.h"

namespace rondo::cpu {
namespace {

using Index = std::int64_t;

constexpr Index unit = 16;       // matrices are padded with zeros to multiples of it
constexpr Index most_keys = 64;  // of a tile
constexpr float infinity = std::numeric_limits<float>::infinity();

Index padded(Index n) { return (n + unit - 1) / unit * unit; }
Index pieces(Index n, Index size) { return (n + size - 1) / size; }

/// The rows of one head, with the distances between rows and between features in bytes.
struct Rows {
  char* data;
  Index row, step;

  Rows(const Tensor& x, Index n, Index head, Index first)
      : row(x.stride(2) * size_of(x.dtype())), step(x.stride(3) * size_of(x.dtype())) {
    data = static_cast<char*>(x.data_ptr()) + first * row +
           (n * x.stride(0) + head * x.stride(1)) * size_of(x.dtype());
  }
};

/// to (count, padded features) = factor * the rows of one head, from `first` on, as f32. What is
/// outside x is 0.
void read(const Tensor& x, Index n, Index head, Index first, Index count, float factor, float* to) {
  const Index width = x.size(3), all = padded(width), here = std::min(count, x.size(2) - first);
  const bool dense = x.dtype() == f32 && x.stride(3) == 1;
  Rows rows(x, n, head, first);
  for (Index r = 0; r < here; ++r, to += all, rows.data += rows.row) {
    if (!dense) load_row(x.dtype(), rows.data, rows.step, width, to);
    const float* from = dense ? reinterpret_cast<const float*>(rows.data) : to;
    for (Index i = 0; i < width; ++i) to[i] = from[i] * factor;
    std::fill(to + width, to + all, 0.0F);
  }
  std::fill_n(to, (count - here) * all, 0.0F);
}

/// The opposite of read. Rows outside x are left out.
void write(const float* from, float factor, const Tensor& x, Index n, Index head, Index first,
           Index count) {
  const Index width = x.size(3), all = padded(width), last = std::min(first + count, x.size(2));
  Rows rows(x, n, head, first);
  std::array<float, row_block> scaled;
  for (Index r = first; r < last; ++r, from += all, rows.data += rows.row)
    for (Index i = 0; i < width; i += row_block) {
      const Index some = std::min(row_block, width - i);
      for (Index k = 0; k < some; ++k) scaled[k] = from[i + k] * factor;
      store_row(x.dtype(), scaled.data(), some, rows.data + i * rows.step, rows.step);
    }
}

/// Some keys, and the queries of a block that attend to any of them: those from `skipped` on.
struct Tile {
  Index key, keys, skipped;
};

/// The sizes of a problem, and its keys and values as f32.
class Attention {
 public:
  const AttentionKernels& kernel = kernels().attention;
  const Tensor &q, &k, &v;
  const AttentionParams& params;
  const Index batch = q.size(0), heads = q.size(1), key_heads = k.size(1),
              group = heads / key_heads, queries = q.size(2), keys = k.size(2),
              features = padded(q.size(3)), values = padded(v.size(3)), block = kernel.queries,
              blocks = pieces(queries, block), all_keys = padded(keys);

  Attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionParams& params)
      : q(q),
        k(k),
        v(v),
        params(params),
        keys_(batch * key_heads * all_keys * features),
        values_(batch * key_heads * all_keys * values) {
    parallel_for(batch * key_heads * pieces(keys, most_keys), k.numel() + v.numel(),
                 [&](Index begin, Index end) {
                   for (Index i = begin; i < end; ++i) {
                     const Index tiles = pieces(keys, most_keys), head = i / tiles % key_heads;
                     const Index n = i / tiles / key_heads, first = i % tiles * most_keys;
                     const Index count = std::min(most_keys, all_keys - first);
                     read(k, n, head, first, count, 1, key_rows(n, head, first));
                     read(v, n, head, first, count, 1, value_rows(n, head, first));
                   }
                 });
  }

  float* key_rows(Index n, Index key_head, Index key) const {
    return keys_.data() + ((n * key_heads + key_head) * all_keys + key) * features;
  }
  float* value_rows(Index n, Index key_head, Index key) const {
    return values_.data() + ((n * key_heads + key_head) * all_keys + key) * values;
  }

  /// The queries of a block that are computed: a multiple of `unit`.
  Index width(Index first_query) const { return std::min(block, padded(queries - first_query)); }

  /// Calls f(tile) for the keys begin … end - 1, except those that no query of the block attends
  /// to.
  template <class F>
  void for_tiles(Index first_query, Index begin, Index end, F f) const {
    if (params.is_causal) end = std::min(end, padded(std::min(first_query + block, queries)));
    for (Index key = begin, some = 0; key < end; key += some) {
      some = std::min(most_keys, end - key);
      if (params.is_causal)  // keys that all queries attend to, or a piece of the diagonal
        some = std::clamp((first_query + 1 - key) / unit * unit, unit, some);
      const Index skipped = params.is_causal ? std::max<Index>(0, key - first_query) : 0;
      f(Tile{key, some, skipped / unit * unit});
    }
  }

  /// The scores of a tile, and if slopes is not null, the derivatives by score_mod.
  void score(Index n, Index head, Index first_query, const Tile& tile, const float* q_columns,
             float* scores, float* slopes) const {
    const Index count = width(first_query) - tile.skipped;
    kernel.multiply({key_rows(n, head / group, tile.key), features, 1}, q_columns + tile.skipped,
                    block, tile.keys, features, count, nullptr, scores, block);
    const ScoreTile part{n,
                         head,
                         first_query + tile.skipped,
                         tile.key,
                         std::min(count, queries - first_query - tile.skipped),
                         std::min(tile.keys, keys - tile.key),
                         block,
                         scores,
                         slopes};
    if (params.score_mod) params.score_mod(part);
    if (params.mask.defined()) add_mask(part);
    for (Index i = 0; i < tile.keys; ++i) {
      const Index key = tile.key + i;
      const Index excluded = key >= keys ? count
                             : params.is_causal
                                 ? std::clamp<Index>(key - part.first_query, 0, count)
                                 : 0;
      std::fill_n(scores + i * block, excluded, -infinity);
    }
  }

  /// keep = 1 / (1 - p) for each weight of a tile that is kept, 0 for the others.
  void draw(Index n, Index head, Index first_query, const Tile& tile, float* keep) const {
    const auto p = static_cast<float>(params.dropout_p);
    const float kept = p == 1 ? 1 : static_cast<float>(1 / (1 - params.dropout_p));
    for (Index j = tile.skipped; j < width(first_query); ++j) {
      const Index row = (n * heads + head) * queries + first_query + j;
      auto word = static_cast<std::uint64_t>(row * keys + tile.key);
      auto words = params.random.block(word / 4);
      for (Index i = 0; i < tile.keys; ++i, ++word) {
        if (i > 0 && word % 4 == 0) words = params.random.block(word / 4);
        keep[i * block + j - tile.skipped] = uniform_float(words[word % 4]) >= p ? kept : 0;
      }
    }
  }

 private:
  void add_mask(const ScoreTile& part) const {
    const Tensor& mask = params.mask;
    const Rows rows(mask, part.batch, part.head, part.first_query);
    std::array<float, most_keys> row;
    for (Index j = 0; j < part.queries; ++j) {
      load_row(mask.dtype(), rows.data + j * rows.row + part.first_key * rows.step, rows.step,
               part.keys, row.data());
      float* score = part.scores + j;
      for (Index i = 0; i < part.keys; ++i, score += part.stride)
        *score = mask.dtype() != boolean ? *score + row[i] : row[i] != 0 ? *score : -infinity;
    }
  }

  Scratch keys_, values_;
};

/// f(i, scratch) for all i < n, on several threads if there is enough work; each has scratch
/// memory.
template <class F>
void for_items(Index n, Index work, Index floats, F f) {
  const int threads = static_cast<int>(std::min<Index>(threads_for(work), n));
  const Scratch scratch(threads * floats);
#pragma omp parallel for num_threads(threads) schedule(dynamic)
  for (Index i = 0; i < n; ++i) f(i, scratch.data() + omp_get_thread_num() * floats);
}

/// The work of a problem, in elements of other kernels.
Index work_of(const Attention& a) {
  return a.batch * a.heads * a.queries * a.keys / 8 * (a.features + a.values) / 64;
}

}  // namespace

bool CpuBackend::has_attention(const Tensor& q) const { return q.dtype() != f64; }

void CpuBackend::do_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                              const AttentionParams& params, const Tensor& y, const Tensor& lse) {
  const Attention a(q, k, v, params);
  const Index block = a.block, wide = std::max(a.features, a.values);
  auto* const lse_out = lse.data_ptr<float>();
  const bool drops = params.dropout_p > 0;
  const Index floats = block * (2 * wide + a.features + (drops ? 2 : 1) * most_keys + 3);
  for_items(a.batch * a.heads * a.blocks, work_of(a), floats, [&](Index item, float* scratch) {
    // The last queries first: with is_causal they have the most keys.
    const Index first = (a.blocks - 1 - item / (a.batch * a.heads)) * block;
    const Index n = item % (a.batch * a.heads) / a.heads, head = item % a.heads;
    float *rows = scratch, *q_columns = rows + block * wide, *o = q_columns + block * a.features;
    float *top = o + block * wide, *sum = top + block, *factor = sum + block;
    float *scores = factor + block, *keep = scores + block * most_keys;
    read(q, n, head, first, block, static_cast<float>(params.scale), rows);
    a.kernel.transpose(rows, a.features, block, a.features, q_columns, block);
    std::fill_n(o, block * a.values, 0.0F);
    std::fill_n(top, block, -infinity);
    std::fill_n(sum, block, 0.0F);
    a.for_tiles(first, 0, a.all_keys, [&](const Tile& tile) {
      const Index skip = tile.skipped, count = a.width(first) - skip;
      a.score(n, head, first, tile, q_columns, scores, nullptr);
      a.kernel.softmax(scores, tile.keys, count, top + skip, sum + skip, factor);
      if (drops) {
        a.draw(n, head, first, tile, keep);
        for (Index i = 0; i < tile.keys * block; ++i) scores[i] *= keep[i];
      }
      a.kernel.multiply({a.value_rows(n, head / a.group, tile.key), 1, a.values}, scores, block,
                        a.values, tile.keys, count, factor, o + skip, block);
    });
    for (Index j = 0; j < block; ++j) {
      const bool none = sum[j] == 0;
      factor[j] = none ? 0 : 1 / sum[j];
      if (first + j < a.queries)
        lse_out[(n * a.heads + head) * a.queries + first + j] =
            none ? infinity : top[j] + std::log(sum[j]);
    }
    for (Index e = 0; e < a.values; ++e)
      for (Index j = 0; j < block; ++j) o[e * block + j] *= factor[j];
    a.kernel.transpose(o, block, a.values, block, rows, a.values);
    write(rows, 1, y, n, head, first, block);
  });
}

void CpuBackend::do_attention_backward(const Tensor& dy, const Tensor& q, const Tensor& k,
                                       const Tensor& v, const AttentionParams& params,
                                       const Tensor& y, const Tensor& lse, const Tensor& dq,
                                       const Tensor& dk, const Tensor& dv) {
  const Attention a(q, k, v, params);
  const Index block = a.block, wide = std::max(a.features, a.values), all = a.batch * a.key_heads;
  const auto* const lse_in = lse.data_ptr<float>();
  const bool drops = params.dropout_p > 0, changes = params.score_mod != nullptr;
  // Parts of the keys for about 32 items, of at least 256 keys.
  const Index wanted = std::min(pieces(32, all), std::max<Index>(1, a.keys / 256));
  const Index part_keys = pieces(pieces(a.keys, wanted), most_keys) * most_keys;
  const Index parts = pieces(a.keys, part_keys), dq_size = a.blocks * block * a.features;
  const Scratch dk_rows(all * a.all_keys * a.features), dv_rows(all * a.all_keys * a.values);
  const Scratch dq_parts(parts * a.batch * a.heads * dq_size);
  const auto dq_of = [&](Index part, Index n, Index head, Index first) {
    return dq_parts.data() + ((part * a.batch + n) * a.heads + head) * dq_size + first * a.features;
  };

  const Index floats = block * (5 * wide + 4 * most_keys + 2) + std::max(block, wide);
  for_items(all * parts, 2 * work_of(a), floats, [&](Index item, float* scratch) {
    const Index part = item / all, n = item % all / a.key_heads, key_head = item % a.key_heads;
    const Index begin = part * part_keys, end = std::min(begin + part_keys, a.all_keys);
    float *q_rows = scratch, *q_columns = q_rows + block * wide;
    float *dy_rows = q_columns + block * wide, *dy_columns = dy_rows + block * wide;
    float *y_columns = dy_columns + block * wide, *scores = y_columns + block * wide;
    float *dp = scores + block * most_keys, *keep = dp + block * most_keys;
    float *slopes = keep + block * most_keys, *logs = slopes + block * most_keys;
    float *delta = logs + block, *ones = delta + block;
    std::fill_n(ones, std::max(block, wide), 1.0F);
    float* const dk_here = dk_rows.data() + (item % all * a.all_keys + begin) * a.features;
    float* const dv_here = dv_rows.data() + (item % all * a.all_keys + begin) * a.values;
    std::fill_n(dk_here, (end - begin) * a.features, 0.0F);
    std::fill_n(dv_here, (end - begin) * a.values, 0.0F);
    for (Index head = key_head * a.group; head < (key_head + 1) * a.group; ++head) {
      for (Index first = 0; first < a.queries; first += block) {
        float* const dq_columns = dq_of(part, n, head, first);
        std::fill_n(dq_columns, block * a.features, 0.0F);
        if (params.is_causal && first + block <= begin) continue;
        read(y, n, head, first, block, 1, dy_rows);
        a.kernel.transpose(dy_rows, a.values, block, a.values, y_columns, block);
        read(dy, n, head, first, block, 1, dy_rows);
        a.kernel.transpose(dy_rows, a.values, block, a.values, dy_columns, block);
        read(q, n, head, first, block, static_cast<float>(params.scale), q_rows);
        a.kernel.transpose(q_rows, a.features, block, a.features, q_columns, block);
        std::fill_n(delta, block, 0.0F);
        for (Index e = 0; e < a.values; ++e)
          for (Index j = 0; j < block; ++j)
            delta[j] += y_columns[e * block + j] * dy_columns[e * block + j];
        const Index here = std::min(block, a.queries - first);
        std::copy_n(lse_in + (n * a.heads + head) * a.queries + first, here, logs);
        std::fill(logs + here, logs + block, infinity);

        a.for_tiles(first, begin, end, [&](const Tile& tile) {
          const Index skip = tile.skipped, count = a.width(first) - skip;
          const float* const key = a.key_rows(n, key_head, tile.key);
          if (changes) std::fill_n(slopes, block * tile.keys, 1.0F);
          a.score(n, head, first, tile, q_columns, scores, changes ? slopes : nullptr);
          a.kernel.multiply({a.value_rows(n, key_head, tile.key), a.values, 1}, dy_columns + skip,
                            block, tile.keys, a.values, count, nullptr, dp, block);
          if (drops) a.draw(n, head, first, tile, keep);
          a.kernel.gradient(scores, dp, tile.keys, count, logs + skip, delta + skip,
                            drops ? keep : nullptr);
          for (Index i = 0; changes && i < block * tile.keys; ++i) dp[i] *= slopes[i];
          a.kernel.multiply({key, 1, a.features}, dp, block, a.features, tile.keys, count, ones,
                            dq_columns + skip, block);
          a.kernel.multiply({dp, block, 1}, q_rows + skip * a.features, a.features, tile.keys,
                            count, a.features, ones, dk_here + (tile.key - begin) * a.features,
                            a.features);
          a.kernel.multiply({scores, block, 1}, dy_rows + skip * a.values, a.values, tile.keys,
                            count, a.values, ones, dv_here + (tile.key - begin) * a.values,
                            a.values);
        });
      }
    }
    write(dk_here, 1, dk, n, key_head, begin, end - begin);
    write(dv_here, 1, dv, n, key_head, begin, end - begin);
  });

  for_items(a.batch * a.heads * a.blocks, dq.numel() * parts, block * a.features,
            [&](Index item, float* rows) {
              const Index n = item / a.blocks / a.heads, head = item / a.blocks % a.heads;
              const Index first = item % a.blocks * block;
              float* const sum = dq_of(0, n, head, first);
              for (Index part = 1; part < parts; ++part) {
                const float* more = dq_of(part, n, head, first);
                for (Index i = 0; i < block * a.features; ++i) sum[i] += more[i];
              }
              a.kernel.transpose(sum, block, a.features, block, rows, a.features);
              write(rows, static_cast<float>(params.scale), dq, n, head, first, block);
            });
}

}  // namespace rondo::cpu
