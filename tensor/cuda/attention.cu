// Attention without a matrix of scores: tensor/cpu/attention.cpp has the formulas.
//
// A block of threads computes a tile of 64 queries and visits 64 keys at a time, or in the
// gradients of k and v a tile of 32 keys and visits 64 queries at a time. Its threads are a square
// of 16 x 16. Each of them has a rectangle of the tile's scores and of the results in its
// registers, and a product reads its factors from shared memory:
//
//   scores   S = Q Kᵀ, a sum over 32 features at a time
//   results  O += P V, where the threads exchange their P through shared memory
//
// Results of more than 128 features are divided among blocks, which compute the same scores. No
// element is added to by two blocks, so the bits do not depend on their order. For that, backward
// computes the scores twice: for dq, and for dk and dv.

#include <algorithm>
#include <cmath>
#include <limits>

#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/strided.cuh"

namespace rondo::cuda {
namespace {

using Index = std::int64_t;

constexpr int tile = 64;   // queries or keys
constexpr int depth = 32;  // features that a product of scores reads at a time
constexpr int half = 64;   // features of a result that a product computes at a time
constexpr int slice = 2 * half;
constexpr int pitch = tile + 4;  // of a row in shared memory: aligned for 16 bytes
constexpr float infinity = std::numeric_limits<float>::infinity();

struct SharedTiles {
  alignas(16) float factors[2 * depth * pitch];  // two factors of scores, or one of a result
  alignas(16) float weights[tile * pitch];
};

/// The threads of a block are side x side; on the host there is one.
template <class Group>
constexpr int side = 16;
template <>
constexpr int side<LoneThread> = 1;

/// One head of a tensor (N, heads, rows, columns). Distances are in bytes.
struct Head {
  char* data;
  DType dtype;
  Index rows, columns, row, column;

  RONDO_HD char* at(Index r, Index c) const { return data + r * row + c * column; }
  /// An element, or 0 outside.
  RONDO_HD float operator()(Index r, Index c) const {
    if (r >= rows || c >= columns) return 0;
    if (dtype == DType::f32) return *reinterpret_cast<const float*>(at(r, c));
    if (dtype == DType::bf16) return convert<float>(*reinterpret_cast<const BFloat16*>(at(r, c)));
    return convert<float>(*reinterpret_cast<const Half*>(at(r, c)));
  }
  RONDO_HD void store(Index r, Index c, float value) const {
    if (r < rows && c < columns) cuda::store(dtype, at(r, c), value);
  }
};

struct Heads {
  char* data = nullptr;
  DType dtype = DType::f32;
  Index sizes[4] = {}, steps[4] = {};

  Heads() = default;
  explicit Heads(const Tensor& x) : data(static_cast<char*>(x.data_ptr())), dtype(x.dtype()) {
    for (int d = 0; d < 4; ++d) {
      sizes[d] = x.size(d);
      steps[d] = x.stride(d) * size_of(dtype);
    }
  }
  RONDO_HD Head head(Index n, Index h) const {
    return {data + n * steps[0] + h * steps[1], dtype, sizes[2], sizes[3], steps[2], steps[3]};
  }
};

/// to[feature][i] = x(first + i, feature), for `count` rows and `depth` features.
template <class Group>
RONDO_HD void copy_turned(const Group& group, const Head& x, Index first, int count, Index feature,
                          float* to) {
  for (int i = group.thread(); i < count * depth; i += group.size())
    to[i % depth * pitch + i / depth] = x(first + i / depth, feature + i % depth);
}

/// to[i][feature] = x(first + i, feature), for `count` rows and `half` features.
template <class Group>
RONDO_HD void copy(const Group& group, const Head& x, Index first, int count, Index feature,
                   float* to) {
  for (int i = group.thread(); i < count * half; i += group.size())
    to[i / half * pitch + i % half] = x(first + i / half, feature + i % half);
}

/// sums(r, c) += Σ_k a[k][r] b[k][c]
template <int R, int C>
RONDO_HD void multiply(const float* a, const float* b, int terms, float (&sums)[R][C]) {
  for (int k = 0; k < terms; ++k, a += pitch, b += pitch) {
    struct alignas(R % 4 == 0 ? 16 : 8) Left {
      float v[R];
    };
    struct alignas(C % 4 == 0 ? 16 : 8) Right {
      float v[C];
    };
    const auto left = *reinterpret_cast<const Left*>(a);
    const auto right = *reinterpret_cast<const Right*>(b);
    for (int r = 0; r < R; ++r)
      for (int c = 0; c < C; ++c) sums[r][c] += left.v[r] * right.v[c];
  }
}

/// The thread's part of the products of rows of a and rows of b: a block has side R and side C.
template <class Group, int R, int C>
RONDO_HD void dot_rows(const Group& group, SharedTiles& memory, const Head& a, Index first_a,
                       const Head& b, Index first_b, float (&sums)[R][C]) {
  constexpr int n = side<Group>;
  const int y = group.thread() / n * R, x = group.thread() % n * C;
  float *left = memory.factors, *right = left + depth * pitch;
  for (int r = 0; r < R; ++r)
    for (int c = 0; c < C; ++c) sums[r][c] = 0;
  for (Index feature = 0; feature < a.columns; feature += depth) {
    group.sync();
    copy_turned(group, a, first_a, R * n, feature, left);
    copy_turned(group, b, first_b, C * n, feature, right);
    group.sync();
    multiply(left + y, right + x, depth, sums);
  }
}

/// The thread's part of a result: two halves of features.
template <int R, int C>
struct Result {
  float sums[2][R][C] = {};

  /// += Σ_k weights[k][r] x(first + k, feature + c) over side C k
  template <class Group>
  RONDO_HD void add_product(const Group& group, SharedTiles& memory, const Head& x, Index first,
                            int terms, Index feature) {
    constexpr int n = side<Group>;
    for (int h = 0; h < 2 && feature + h * half < x.columns; ++h) {
      group.sync();
      copy(group, x, first, terms, feature + h * half, memory.factors);
      group.sync();
      multiply(memory.weights + group.thread() / n * R, memory.factors + group.thread() % n * C,
               terms, sums[h]);
    }
  }
  /// y(first + r, feature + c) = factor(r) * the result
  template <class Group, class Factor>
  RONDO_HD void store(const Group& group, const Head& y, Index first, Index feature,
                      Factor factor) const {
    constexpr int n = side<Group>;
    const int row = group.thread() / n * R, column = group.thread() % n * C;
    for (int h = 0; h < 2; ++h)
      for (int r = 0; r < R; ++r)
        for (int c = 0; c < C; ++c)
          y.store(first + row + r, feature + h * half + column + c, sums[h][r][c] * factor(r));
  }
};

struct Attention {
  Heads q, k, v, mask;
  float scale, p, kept;  // p of dropout, and 1 / (1 - p)
  bool is_causal;
  Philox random;

  Attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionParams& params)
      : q(q),
        k(k),
        v(v),
        scale(static_cast<float>(params.scale)),
        p(static_cast<float>(params.dropout_p)),
        kept(params.dropout_p == 1 ? 1 : static_cast<float>(1 / (1 - params.dropout_p))),
        is_causal(params.is_causal),
        random(params.random) {
    if (params.mask.defined()) mask = Heads(params.mask);
  }
  RONDO_HD Index heads() const { return q.sizes[1]; }
  RONDO_HD Index queries() const { return q.sizes[2]; }
  RONDO_HD Index keys() const { return k.sizes[2]; }
  RONDO_HD Index group() const { return heads() / k.sizes[1]; }

  /// The keys that queries before `last` attend to are before this one.
  RONDO_HD Index end_of_keys(Index last) const {
    return is_causal && last < keys() ? last : keys();
  }

  /// The scores of the thread's queries and keys, given products of q and k.
  template <int R, int C>
  RONDO_HD void score(Index n, Index h, Index first_query, Index first_key,
                      float (&scores)[R][C]) const {
    for (int r = 0; r < R; ++r)
      for (int c = 0; c < C; ++c) {
        const Index query = first_query + r, key = first_key + c;
        float& s = scores[r][c];
        s *= scale;
        if (mask.data != nullptr && query < queries() && key < keys()) {
          const char* at = mask.data + n * mask.steps[0] + h * mask.steps[1] +
                           query * mask.steps[2] + key * mask.steps[3];
          if (mask.dtype != DType::boolean)
            s += load<float>(mask.dtype, at);
          else if (!*reinterpret_cast<const bool*>(at))
            s = -infinity;
        }
        if (key >= keys() || (is_causal && key > query)) s = -infinity;
      }
  }

  /// `kept` for the thread's weights that dropout keeps, 0 for the others.
  template <int R, int C>
  RONDO_HD void draw(Index n, Index h, Index first_query, Index first_key,
                     float (&keep)[R][C]) const {
    for (int r = 0; r < R; ++r) {
      const Index row = (n * heads() + h) * queries() + first_query + r;
      auto word = static_cast<std::uint64_t>(row * keys() + first_key);
      auto words = random.block(word / 4);
      for (int c = 0; c < C; ++c, ++word) {
        if (c > 0 && word % 4 == 0) words = random.block(word / 4);
        keep[r][c] = uniform_float(words[word % 4]) >= p ? kept : 0;
      }
    }
  }
};

/// Which tile of which head a block computes, and which features of its result.
struct Place {
  Index n, head, first, feature;

  RONDO_HD Place(Index block, Index heads, Index tiles, Index slices) {
    feature = block % slices * slice;
    block /= slices;
    first = block % tiles;  // of tiles
    head = block / tiles % heads;
    n = block / tiles / heads;
  }
};

RONDO_HD constexpr Index pieces(Index n, Index size) { return (n + size - 1) / size; }

struct Forward {
  Attention a;
  Heads y;
  float* lse;

  Index blocks() const { return y.sizes[0] * a.heads() * tiles() * slices(); }
  RONDO_HD Index tiles() const { return pieces(a.queries(), tile); }
  RONDO_HD Index slices() const { return pieces(y.sizes[3], slice); }

  template <class Group>
  RONDO_HD void operator()(const Group& group, Index block) const {
    constexpr int R = tile / side<Group>, C = tile / side<Group>;
    SharedTiles& memory = group.template shared<SharedTiles>();
    const Place at(block, a.heads(), tiles(), slices());
    // The last queries first: with is_causal they have the most keys.
    const Index first = (tiles() - 1 - at.first) * tile;
    const int row = group.thread() / side<Group> * R, column = group.thread() % side<Group> * C;
    const Head q = a.q.head(at.n, at.head), k = a.k.head(at.n, at.head / a.group()),
               v = a.v.head(at.n, at.head / a.group());
    const auto larger = [](float m, float n) { return m > n ? m : n; };
    const auto sum = [](float m, float n) { return m + n; };
    Result<R, C> o;
    float top[R], total[R];
    for (int r = 0; r < R; ++r) {
      top[r] = -infinity;
      total[r] = 0;
    }
    const Index end = a.end_of_keys(first + tile);
    for (Index key = 0; key < end; key += tile) {
      float p[R][C];
      dot_rows(group, memory, q, first, k, key, p);
      a.score(at.n, at.head, first + row, key + column, p);
      for (int r = 0; r < R; ++r) {
        float largest = top[r], added = 0;
        for (int c = 0; c < C; ++c) largest = larger(p[r][c], largest);
        largest = group.template reduce_neighbours<side<Group>>(largest, larger);
        const float base = largest == -infinity ? 0 : largest, factor = std::exp(top[r] - base);
        for (int c = 0; c < C; ++c) added += p[r][c] = std::exp(p[r][c] - base);
        total[r] = total[r] * factor + group.template reduce_neighbours<side<Group>>(added, sum);
        top[r] = largest;
        for (int h = 0; h < 2; ++h)
          for (int c = 0; c < C; ++c) o.sums[h][r][c] *= factor;
      }
      if (a.p > 0) {
        float keep[R][C];
        a.draw(at.n, at.head, first + row, key + column, keep);
        for (int r = 0; r < R; ++r)
          for (int c = 0; c < C; ++c) p[r][c] *= keep[r][c];
      }
      for (int c = 0; c < C; ++c)
        for (int r = 0; r < R; ++r) memory.weights[(column + c) * pitch + row + r] = p[r][c];
      o.add_product(group, memory, v, key, tile, at.feature);
    }
    o.store(group, y.head(at.n, at.head), first, at.feature,
            [&](int r) { return total[r] == 0 ? 0 : 1 / total[r]; });
    if (at.feature > 0 || column > 0) return;
    for (int r = 0; r < R && first + row + r < a.queries(); ++r)
      lse[(at.n * a.heads() + at.head) * a.queries() + first + row + r] =
          total[r] == 0 ? infinity : top[r] + std::log(total[r]);
  }
};

/// delta = Σ dy y of each query.
struct RowDots {
  Heads dy, y;
  float* delta;

  template <class Group>
  RONDO_HD void operator()(const Group& group, Index i) const {
    const Index row = i % y.sizes[2], h = i / y.sizes[2] % y.sizes[1],
                n = i / y.sizes[2] / y.sizes[1];
    const Head g = dy.head(n, h), x = y.head(n, h);
    float sum = 0;
    for (Index c = group.thread(); c < x.columns; c += group.size()) sum += g(row, c) * x(row, c);
    sum = group.reduce(sum, [](float a, float b) { return a + b; });
    if (group.thread() == 0) delta[i] = sum;
  }
};

struct Backward {
  Attention a;
  Heads dy;
  const float *lse, *delta;

  /// The thread's weights p, after dropout, and the gradients ds of its products of q and k.
  template <class Group, int R, int C>
  RONDO_HD void gradients(const Group& group, SharedTiles& memory, Index n, Index h,
                          Index first_query, Index first_key, float (&p)[R][C],
                          float (&ds)[R][C]) const {
    const Index query = first_query + group.thread() / side<Group> * R,
                key = first_key + group.thread() % side<Group> * C;
    dot_rows(group, memory, a.q.head(n, h), first_query, a.k.head(n, h / a.group()), first_key, p);
    a.score(n, h, query, key, p);
    dot_rows(group, memory, dy.head(n, h), first_query, a.v.head(n, h / a.group()), first_key, ds);
    float keep[R][C];
    if (a.p > 0) a.draw(n, h, query, key, keep);
    for (int r = 0; r < R; ++r) {
      const bool exists = query + r < a.queries();
      const Index row = (n * a.heads() + h) * a.queries() + query + r;
      const float log = exists ? lse[row] : infinity, d = exists ? delta[row] : 0;
      for (int c = 0; c < C; ++c) {
        const float weight = exists ? std::exp(p[r][c] - log) : 0,
                    factor = a.p > 0 ? keep[r][c] : 1;
        ds[r][c] = weight * (ds[r][c] * factor - d) * a.scale;
        p[r][c] = weight * factor;
      }
    }
  }
};

struct QueryGradients {
  Backward b;
  Heads dq;

  Index blocks() const { return dq.sizes[0] * dq.sizes[1] * tiles() * slices(); }
  RONDO_HD Index tiles() const { return pieces(b.a.queries(), tile); }
  RONDO_HD Index slices() const { return pieces(dq.sizes[3], slice); }

  template <class Group>
  RONDO_HD void operator()(const Group& group, Index block) const {
    constexpr int R = tile / side<Group>, C = tile / side<Group>;
    SharedTiles& memory = group.template shared<SharedTiles>();
    const Place at(block, b.a.heads(), tiles(), slices());
    const Index first = (tiles() - 1 - at.first) * tile;
    const int row = group.thread() / side<Group> * R, column = group.thread() % side<Group> * C;
    Result<R, C> sum;
    const Index end = b.a.end_of_keys(first + tile);
    for (Index key = 0; key < end; key += tile) {
      float p[R][C], ds[R][C];
      b.gradients(group, memory, at.n, at.head, first, key, p, ds);
      for (int c = 0; c < C; ++c)
        for (int r = 0; r < R; ++r) memory.weights[(column + c) * pitch + row + r] = ds[r][c];
      sum.add_product(group, memory, b.a.k.head(at.n, at.head / b.a.group()), key, tile,
                      at.feature);
    }
    sum.store(group, dq.head(at.n, at.head), first, at.feature, [](int) { return 1.0F; });
  }
};

struct KeyGradients {
  static constexpr int keys = tile / 2;  // of a tile: for more, a thread has too few registers
  Backward b;
  Heads dk, dv;

  Index blocks() const { return dk.sizes[0] * dk.sizes[1] * tiles() * slices(); }
  RONDO_HD Index tiles() const { return pieces(b.a.keys(), keys); }
  RONDO_HD Index slices() const {
    return pieces(dk.sizes[3] > dv.sizes[3] ? dk.sizes[3] : dv.sizes[3], slice);
  }

  template <class Group>
  RONDO_HD void operator()(const Group& group, Index block) const {
    constexpr int R = tile / side<Group>, C = keys / side<Group>;
    SharedTiles& memory = group.template shared<SharedTiles>();
    const Place at(block, dk.sizes[1], tiles(), slices());
    const Index first = at.first * keys;
    const int row = group.thread() / side<Group> * R, column = group.thread() % side<Group> * C;
    Result<C, half / side<Group>> of_k, of_v;
    const auto put = [&](const float(&values)[R][C]) {
      group.sync();
      for (int r = 0; r < R; ++r)
        for (int c = 0; c < C; ++c) memory.weights[(row + r) * pitch + column + c] = values[r][c];
    };
    for (Index h = at.head * b.a.group(); h < (at.head + 1) * b.a.group(); ++h)
      for (Index query = b.a.is_causal ? first / tile * tile : 0; query < b.a.queries();
           query += tile) {
        float p[R][C], ds[R][C];
        b.gradients(group, memory, at.n, h, query, first, p, ds);
        put(p);
        of_v.add_product(group, memory, b.dy.head(at.n, h), query, tile, at.feature);
        put(ds);
        of_k.add_product(group, memory, b.a.q.head(at.n, h), query, tile, at.feature);
      }
    const auto one = [](int) { return 1.0F; };
    of_k.store(group, dk.head(at.n, at.head), first, at.feature, one);
    of_v.store(group, dv.head(at.n, at.head), first, at.feature, one);
  }
};

}  // namespace

void CudaBackend::attention_kernels(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionParams& params, const Tensor& y,
                                    const Tensor& lse) {
  const Forward forward{Attention(q, k, v, params), Heads(y), lse.data_ptr<float>()};
  for_blocks(device_, forward.blocks(), forward);
}

void CudaBackend::attention_backward_kernels(const Tensor& dy, const Tensor& q, const Tensor& k,
                                             const Tensor& v, const AttentionParams& params,
                                             const Tensor& y, const Tensor& lse, const Tensor& dq,
                                             const Tensor& dk, const Tensor& dv) {
  const Tensor delta = Tensor::empty(lse.shape(), lse.options());
  for_rows(device_, lse.numel(), y.size(3), RowDots{Heads(dy), Heads(y), delta.data_ptr<float>()});
  const Backward backward{Attention(q, k, v, params), Heads(dy), lse.data_ptr<float>(),
                          delta.data_ptr<float>()};
  const QueryGradients of_queries{backward, Heads(dq)};
  for_blocks(device_, of_queries.blocks(), of_queries);
  const KeyGradients of_keys{backward, Heads(dk), Heads(dv)};
  for_blocks(device_, of_keys.blocks(), of_keys);
}

}  // namespace rondo::cuda
