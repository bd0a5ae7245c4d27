// The steps of attention for one tile of scores (AttentionKernels in table.h); compiled once for
// each instruction set. Queries are the lanes of vectors: so the maximum and the sum over a query's
// keys are vertical operations, and one product with sums in registers serves all matrices.
#include <cmath>

#include "tensor/cpu/isa/transpose.h"
#include "tensor/cpu/isa/vector_math.h"

namespace rondo::cpu::isa::RONDO_ISA_SET {
namespace {

/// The vectors of columns whose sums are in registers together, and the queries of a block.
constexpr int most_vectors = accumulators == 12 ? 3 : accumulators == 8 ? 2 : 4;
constexpr Index block = 16 * (lanes == 16 ? 4 : 3);

/// sum += the products of the terms of two words.
template <int terms>
inline Vec add_products(float left, Vec right, Vec sum) {
#if defined(__AVX512BF16__)
  if constexpr (terms == 2)
    return (Vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_ps(left), (__m512bh)right);
#endif
  return multiply_add(left, right, sum);
}

/// `rows` rows of `vectors` vectors of multiply.
template <int terms, int rows, int vectors>
inline void product(LeftFactor left, const float* right, Index right_stride, Index depth,
                    float scale, const float* factor, float* y, Index y_stride) {
  Vec sum[rows][vectors] = {};
  for (Index d = 0; d < depth; ++d, left.data += left.term, right += right_stride) {
    Vec values[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) values[v] = load(right + v * lanes);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      const float value = left.data[r * left.row];
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v)
        sum[r][v] = add_products<terms>(value, values[v], sum[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      float* to = y + r * y_stride + v * lanes;
      const Vec all = sum[r][v] * scale;
      store(to, factor != nullptr ? multiply_add(load(to), load(factor + v * lanes), all) : all);
    }
}

template <int terms, int vectors>
void multiply_columns(LeftFactor left, const float* right, Index right_stride, Index rows,
                      Index depth, float scale, const float* factor, float* y, Index y_stride) {
  constexpr int step = 8 * vectors <= accumulators ? 8 : 4;
  for (Index r = 0; r < rows; r += step)
    product<terms, step, vectors>({left.data + r * left.row, left.row, left.term}, right,
                                  right_stride, depth, scale, factor, y + r * y_stride, y_stride);
}

template <int terms>
void multiply(LeftFactor left, const float* right, Index right_stride, Index rows, Index depth,
              Index columns, float scale, const float* factor, float* y, Index y_stride) {
  for (Index c = 0; c < columns;) {
    const Index vectors = (columns - c) / lanes;
    const int some = vectors < most_vectors ? static_cast<int>(vectors) : most_vectors;
    constexpr int third = most_vectors < 3 ? 2 : 3;
    auto* const f = some == 1   ? multiply_columns<terms, 1>
                    : some == 2 ? multiply_columns<terms, 2>
                    : some == 3 ? multiply_columns<terms, third>
                                : multiply_columns<terms, most_vectors>;
    f(left, right + c, right_stride, rows, depth, scale, factor != nullptr ? factor + c : nullptr,
      y + c, y_stride);
    c += some * lanes;
  }
}

/// f(q) for all queries, in vectors.
template <class F>
inline void in_blocks(Index queries, F f) {
  for (Index first = 0; first < queries; first += math_block)
#pragma omp simd
    for (Index q = first; q < first + math_block; ++q) f(q);
}

void softmax(float* scores, Index keys, Index queries, float* top, float* sum, float* factor) {
  float shift[block];
  for (Index q = 0; q < queries; q += lanes) {
    Vec most = load(top + q);
    for (Index k = 0; k < keys; ++k) {
      const Vec s = load(scores + k * block + q);
      most = s > most ? s : most;
    }
    const Vec none = Vec{} - __builtin_inff();
    store(shift + q, most == none ? Vec{} : most);  // exp(-inf - 0) is 0, exp(-inf + inf) is not
    store(factor + q, load(top + q) - load(shift + q));
    store(top + q, most);
  }
  in_blocks(queries, [&](Index q) { factor[q] = exp_or_0(factor[q]); });
  for (Index k = 0; k < keys; ++k) {
    float* s = scores + k * block;
    in_blocks(queries, [&](Index q) { s[q] = exp_or_0(s[q] - shift[q]); });
  }
  for (Index q = 0; q < queries; q += lanes) {
    Vec all = {};
    for (Index k = 0; k < keys; ++k) all += load(scores + k * block + q);
    store(sum + q, multiply_add(load(sum + q), load(factor + q), all));
  }
}

template <bool drops>
void gradient_of(float* scores, float* dp, Index keys, Index queries, const float* lse,
                 const float* delta, const float* keep) {
  for (Index k = 0; k < keys; ++k) {
    float *s = scores + k * block, *d = dp + k * block;
    const float* kept = drops ? keep + k * block : nullptr;
    in_blocks(queries, [&](Index q) {
      const float p = exp_or_0(s[q] - lse[q]);
      d[q] = p * ((drops ? d[q] * kept[q] : d[q]) - delta[q]);
      s[q] = drops ? p * kept[q] : p;
    });
  }
}

void gradient(float* scores, float* dp, Index keys, Index queries, const float* lse,
              const float* delta, const float* keep) {
  (keep != nullptr ? gradient_of<true> : gradient_of<false>)(scores, dp, keys, queries, lse, delta,
                                                             keep);
}

void transpose_all(const float* from, Index from_stride, Index rows, Index columns, float* to,
                   Index to_stride) {
  for (Index r = 0; r < rows; r += lanes)
    for (Index c = 0; c < columns; c += lanes)
      transpose(from + r * from_stride + c, from_stride, to + c * to_stride + r, to_stride);
}

#if defined(__AVX512BF16__)
void pack(const float* from, Index from_stride, Index rows, Index columns, float* along,
          float* down) {
  for (Index r = 0; r < rows; r += 2)
    for (Index c = 0; c < columns; c += lanes) {
      HalfBits rounded[2];  // of both rows
      for (int i = 0; i < 2; ++i) {
        const Vec row = load(from + (r + i) * from_stride + c);
        rounded[i] = (HalfBits)_mm512_cvtneps_pbh((__m512)row);
        if (along != nullptr)
          __builtin_memcpy(along + ((r + i) * columns + c) / 2, &rounded[i], sizeof rounded[i]);
      }
      if (down == nullptr) continue;
      const Bits upper = __builtin_convertvector(rounded[0], Bits);
      const Bits words = upper | __builtin_convertvector(rounded[1], Bits) << 16;
      store(down + r / 2 * columns + c, (Vec)words);
    }
}
#endif

}  // namespace

extern const AttentionKernels attention, attention_bf16;
const AttentionKernels attention{block, 1, nullptr, multiply<1>, softmax, gradient, transpose_all};
#if defined(__AVX512BF16__)
const AttentionKernels attention_bf16{block,   2,        pack,         multiply<2>,
                                      softmax, gradient, transpose_all};
#else
const AttentionKernels attention_bf16{};
#endif

}  // namespace rondo::cpu::isa::RONDO_ISA_SET
