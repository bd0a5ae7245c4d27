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
#include <vector>

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

Index pieces(Index n, Index size) { return (n + size - 1) / size; }
Index padded(Index n, Index size = unit) { return pieces(n, size) * size; }

/// The rows of one head, with the distances between rows and between features in bytes.
struct HeadRows {
  char* data;
  Index row, step;

  HeadRows(const Tensor& x, Index n, Index head, Index first)
      : row(x.stride(2) * size_of(x.dtype())), step(x.stride(3) * size_of(x.dtype())) {
    data = static_cast<char*>(x.data_ptr()) + first * row +
           (n * x.stride(0) + head * x.stride(1)) * size_of(x.dtype());
  }
};

/// to (count, width) = the rows of one head, from `first` on, as f32. Elements outside x are 0.
void read(const Tensor& x, Index n, Index head, Index first, Index count, Index width, float* to) {
  const Index size = x.size(3), here = std::min(count, x.size(2) - first);
  const bool dense = x.dtype() == f32 && x.stride(3) == 1;
  HeadRows rows(x, n, head, first);
  for (Index r = 0; r < here; ++r, to += width, rows.data += rows.row) {
    if (dense)
      std::copy_n(reinterpret_cast<const float*>(rows.data), size, to);
    else
      load_row(x.dtype(), rows.data, rows.step, size, to);
    std::fill(to + size, to + width, 0.0F);
  }
  std::fill_n(to, (count - here) * width, 0.0F);
}

/// The rows of one head = factor * from (count, width). Rows outside x are left out.
void write(const float* from, Index width, float factor, const Tensor& x, Index n, Index head,
           Index first, Index count) {
  const Index size = x.size(3), last = std::min(first + count, x.size(2));
  HeadRows rows(x, n, head, first);
  std::array<float, row_block> scaled;
  for (Index r = first; r < last; ++r, from += width, rows.data += rows.row)
    for (Index i = 0; i < size; i += row_block) {
      const Index some = std::min(row_block, size - i);
      for (Index k = 0; k < some; ++k) scaled[k] = from[i + k] * factor;
      store_row(x.dtype(), scaled.data(), some, rows.data + i * rows.step, rows.step);
    }
}

float dot(const float* a, const float* b, Index n) {
  std::array<float, unit> sums{};
  for (Index i = 0; i < n; i += unit)
    for (Index k = 0; k < unit; ++k) sums[k] += a[i + k] * b[i + k];
  float sum = 0;
  for (const float part : sums) sum += part;
  return sum;
}

/// A matrix as the words of both kinds (AttentionKernels). For f32, both are the matrix itself.
struct Words {
  float *along, *down;
  Index columns, terms;

  Words(float* memory, Index rows, Index columns, Index terms)
      : along(memory),
        down(memory + (terms - 1) * rows * columns / 2),
        columns(columns),
        terms(terms) {}

  Words from(Index row) const {
    Words rest = *this;
    rest.along += row * columns / terms;
    rest.down += row / terms * columns;
    return rest;
  }
  /// The matrix as a left factor, and its transpose.
  LeftFactor left() const { return {along, columns / terms, 1}; }
  LeftFactor transposed() const { return {down, 1, columns}; }
};

/// Some keys, and the queries of a block that attend to any of them: those from `skipped` on.
struct Tile {
  Index key, keys, skipped;
};

const AttentionKernels& kernels_for(DType dtype) {
  const bool in_bf16 = dtype == bf16 && kernels().attention_bf16.multiply != nullptr;
  return in_bf16 ? kernels().attention_bf16 : kernels().attention;
}

/// The sizes of a problem, and its keys and values as words.
class Attention {
 public:
  const AttentionKernels& kernel;
  const Tensor &q, &k, &v;
  const AttentionParams& params;
  const Index terms = kernel.terms, block = kernel.queries;
  const Index batch = q.size(0), heads = q.size(1), key_heads = k.size(1),
              group = heads / key_heads, queries = q.size(2), keys = k.size(2),
              features = padded(q.size(3), unit*terms), values = padded(v.size(3), unit*terms),
              wide = std::max(features, values), blocks = pieces(queries, block),
              all_keys = padded(keys);

  Attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionParams& params)
      : kernel(kernels_for(q.dtype())),
        q(q),
        k(k),
        v(v),
        params(params),
        keys_(batch * key_heads * all_keys * features),
        values_(batch * key_heads * all_keys * values) {
    const Index tiles = pieces(keys, most_keys);
    parallel_for(batch * key_heads * tiles, k.numel() + v.numel(), [&](Index begin, Index end) {
      std::vector<float> rows(static_cast<std::size_t>(terms == 1 ? 0 : most_keys * wide));
      const auto prepare = [&](const Tensor& x, Index n, Index head, Index first, const Words& to) {
        const Index count = std::min(most_keys, all_keys - first);
        float* const plain = terms == 1 ? to.along : rows.data();
        read(x, n, head, first, count, to.columns, plain);
        if (terms == 2) kernel.pack(plain, to.columns, count, to.columns, to.along, to.down);
      };
      for (Index i = begin; i < end; ++i) {
        const Index n = i / tiles / key_heads, head = i / tiles % key_heads;
        const Index first = i % tiles * most_keys;
        prepare(k, n, head, first, key_words(n, head).from(first));
        prepare(v, n, head, first, value_words(n, head).from(first));
      }
    });
  }

  Words key_words(Index n, Index key_head) const {
    return {keys_.data() + (n * key_heads + key_head) * all_keys * features, all_keys, features,
            terms};
  }
  Words value_words(Index n, Index key_head) const {
    return {values_.data() + (n * key_heads + key_head) * all_keys * values, all_keys, values,
            terms};
  }

  /// Reads a block of x (q, or a gradient) for both kinds of products. columns (width / terms,
  /// block): the words along rows, transposed. down (block / terms, width): the words down columns;
  /// may be null. rows (block, width): f32. spare: as large as rows.
  void turn(const Tensor& x, Index n, Index head, Index first, Index width, float* columns,
            float* down, float* rows, float* spare) const {
    read(x, n, head, first, block, width, rows);
    float* along = rows;
    if (terms == 2)
      kernel.pack(rows, width, block, width, along = spare, down);
    else if (down != nullptr)
      std::copy_n(rows, block * width, down);
    kernel.transpose(along, width / terms, block, width / terms, columns, block);
  }

  /// A tile as words, in `memory` if these are not the tile itself.
  Words words_of(float* tile, Index rows, Index columns, float* memory) const {
    if (terms == 1) return {tile, rows, block, 1};
    const Words packed(memory, rows, columns, terms);
    kernel.pack(tile, block, rows, columns, packed.along, packed.down);
    return packed;
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
    kernel.multiply(key_words(n, head / group).from(tile.key).left(), q_columns + tile.skipped,
                    block, tile.keys, features / terms, count, static_cast<float>(params.scale),
                    nullptr, scores, block);
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
    const HeadRows rows(mask, part.batch, part.head, part.first_query);
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
  const Index block = a.block, tile_size = block * most_keys;
  auto* const lse_out = lse.data_ptr<float>();
  const bool drops = params.dropout_p > 0;
  const Index floats = 4 * block * a.wide + 3 * block + 3 * tile_size;
  for_items(a.batch * a.heads * a.blocks, work_of(a), floats, [&](Index item, float* scratch) {
    // The last queries first: with is_causal they have the most keys.
    const Index first = (a.blocks - 1 - item / (a.batch * a.heads)) * block;
    const Index n = item % (a.batch * a.heads) / a.heads, head = item % a.heads;
    float *rows = scratch, *spare = rows + block * a.wide, *q_columns = spare + block * a.wide;
    float *o = q_columns + block * a.wide, *top = o + block * a.wide, *sum = top + block;
    float *factor = sum + block, *scores = factor + block, *keep = scores + tile_size;
    float* const packed = keep + tile_size;
    const Words values = a.value_words(n, head / a.group);
    a.turn(q, n, head, first, a.features, q_columns, nullptr, rows, spare);
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
      const Words p = a.words_of(scores, tile.keys, count, packed);
      a.kernel.multiply(values.from(tile.key).transposed(), p.down, p.columns, a.values,
                        tile.keys / a.terms, count, 1, factor, o + skip, block);
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
    write(rows, a.values, 1, y, n, head, first, block);
  });
}

void CpuBackend::do_attention_backward(const Tensor& dy, const Tensor& q, const Tensor& k,
                                       const Tensor& v, const AttentionParams& params,
                                       const Tensor& y, const Tensor& lse, const Tensor& dq,
                                       const Tensor& dk, const Tensor& dv) {
  const Attention a(q, k, v, params);
  const Index block = a.block, tile_size = block * most_keys, all = a.batch * a.key_heads;
  const Index blocks = a.batch * a.heads * a.blocks;  // of all heads
  const auto scale = static_cast<float>(params.scale);
  const bool drops = params.dropout_p > 0, changes = params.score_mod != nullptr;

  // What all parts of the keys need of a block of queries.
  const Index q_size = block * a.features / a.terms, dy_size = block * a.values / a.terms;
  const Index block_size = 2 * (q_size + dy_size) + 2 * block;
  const Scratch prepared(blocks * block_size);
  for_items(blocks, 4 * q.numel(), 3 * block * a.wide, [&](Index item, float* rows) {
    const Index n = item / a.blocks / a.heads, head = item / a.blocks % a.heads;
    const Index first = item % a.blocks * block, here = std::min(block, a.queries - first);
    float *q_columns = prepared.data() + item * block_size, *q_down = q_columns + q_size;
    float *dy_columns = q_down + q_size, *dy_down = dy_columns + dy_size;
    float *delta = dy_down + dy_size, *logs = delta + block;
    float *spare = rows + block * a.wide, *y_rows = spare + block * a.wide;
    a.turn(q, n, head, first, a.features, q_columns, q_down, rows, spare);
    a.turn(dy, n, head, first, a.values, dy_columns, dy_down, rows, spare);
    read(y, n, head, first, block, a.values, y_rows);
    for (Index j = 0; j < block; ++j)
      delta[j] = dot(rows + j * a.values, y_rows + j * a.values, a.values);
    std::copy_n(lse.data_ptr<float>() + (n * a.heads + head) * a.queries + first, here, logs);
    std::fill(logs + here, logs + block, infinity);
  });

  // Parts of the keys for about 32 items, of at least 256 keys.
  const Index wanted = std::min(pieces(32, all), std::max<Index>(1, a.keys / 256));
  const Index part_keys = pieces(pieces(a.keys, wanted), most_keys) * most_keys;
  const Index parts = pieces(a.keys, part_keys), dq_size = block * a.features;
  const Scratch dk_rows(all * a.all_keys * a.features), dv_rows(all * a.all_keys * a.values);
  const Scratch dq_parts(parts * blocks * dq_size);
  const std::vector<float> ones(static_cast<std::size_t>(std::max(block, a.wide)), 1.0F);
  for_items(all * parts, 2 * work_of(a), 6 * tile_size, [&](Index item, float* scores) {
    const Index part = item / all, n = item % all / a.key_heads, key_head = item % a.key_heads;
    const Index begin = part * part_keys, end = std::min(begin + part_keys, a.all_keys);
    float *dp = scores + tile_size, *keep = dp + tile_size, *slopes = keep + tile_size;
    float *packed_p = slopes + tile_size, *packed_ds = packed_p + tile_size;
    const Words keys = a.key_words(n, key_head), values = a.value_words(n, key_head);
    float* const dk_here = dk_rows.data() + (item % all * a.all_keys + begin) * a.features;
    float* const dv_here = dv_rows.data() + (item % all * a.all_keys + begin) * a.values;
    std::fill_n(dk_here, (end - begin) * a.features, 0.0F);
    std::fill_n(dv_here, (end - begin) * a.values, 0.0F);
    for (Index i = 0; i < a.group * a.blocks; ++i) {
      const Index head = key_head * a.group + i / a.blocks, first = i % a.blocks * block;
      const Index number = (n * a.heads + head) * a.blocks + i % a.blocks;
      const float* const q_columns = prepared.data() + number * block_size;
      const float *q_down = q_columns + q_size, *dy_columns = q_down + q_size;
      const float *dy_down = dy_columns + dy_size, *delta = dy_down + dy_size;
      const float* const logs = delta + block;
      float* const dq_columns = dq_parts.data() + (part * blocks + number) * dq_size;
      std::fill_n(dq_columns, dq_size, 0.0F);
      a.for_tiles(first, begin, end, [&](const Tile& tile) {
        const Index skip = tile.skipped, count = a.width(first) - skip;
        if (changes) std::fill_n(slopes, tile_size, 1.0F);
        a.score(n, head, first, tile, q_columns, scores, changes ? slopes : nullptr);
        a.kernel.multiply(values.from(tile.key).left(), dy_columns + skip, block, tile.keys,
                          a.values / a.terms, count, 1, nullptr, dp, block);
        if (drops) a.draw(n, head, first, tile, keep);
        a.kernel.gradient(scores, dp, tile.keys, count, logs + skip, delta + skip,
                          drops ? keep : nullptr);
        for (Index j = 0; changes && j < block * tile.keys; ++j) dp[j] *= slopes[j];
        const Words p = a.words_of(scores, tile.keys, count, packed_p);
        const Words ds = a.words_of(dp, tile.keys, count, packed_ds);
        a.kernel.multiply(keys.from(tile.key).transposed(), ds.down, ds.columns, a.features,
                          tile.keys / a.terms, count, 1, ones.data(), dq_columns + skip, block);
        a.kernel.multiply(ds.left(), q_down + skip / a.terms * a.features, a.features, tile.keys,
                          count / a.terms, a.features, 1, ones.data(),
                          dk_here + (tile.key - begin) * a.features, a.features);
        a.kernel.multiply(p.left(), dy_down + skip / a.terms * a.values, a.values, tile.keys,
                          count / a.terms, a.values, 1, ones.data(),
                          dv_here + (tile.key - begin) * a.values, a.values);
      });
    }
    write(dk_here, a.features, scale, dk, n, key_head, begin, end - begin);
    write(dv_here, a.values, 1, dv, n, key_head, begin, end - begin);
  });

  for_items(blocks, dq.numel() * parts, dq_size, [&](Index item, float* rows) {
    const Index n = item / a.blocks / a.heads, head = item / a.blocks % a.heads;
    float* const sum = dq_parts.data() + item * dq_size;
    for (Index part = 1; part < parts; ++part) {
      const float* const more = sum + part * blocks * dq_size;
      for (Index i = 0; i < dq_size; ++i) sum[i] += more[i];
    }
    a.kernel.transpose(sum, block, a.features, block, rows, a.features);
    write(rows, a.features, scale, dq, n, head, item % a.blocks * block, block);
  });
}

}  // namespace rondo::cpu
