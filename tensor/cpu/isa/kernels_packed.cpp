// Packed matrices (Packed in table.h) and their products, with all sums in registers; compiled once
// for each instruction set. The products run at the rate at which a core can multiply and add: one
// operation for each vector of sums, while the factors come from the first-level cache.
#include <algorithm>

#include "tensor/cpu/isa/transpose.h"

namespace rondo::cpu::isa::RONDO_ISA_SET {
namespace {

void pack(const float* const* rows, Index count, Index channels, float* packed, Index group) {
  for (Index r = 0; r < count; ++r, packed += lanes) {
    float* to = packed;
    if (const float* from = rows[r]) {
      for (Index c = 0; c < channels; c += lanes, to += group) store(to, load(from + c));
    } else {
      for (Index c = 0; c < channels; c += lanes, to += group) store(to, Vec{});
    }
  }
}

void unpack(Packed packed, Index count, Index channels, const float* bias, float* const* rows) {
  for (Index r = 0; r < count; ++r) {
    const float* from = packed.data + r * lanes;
    for (Index c = 0; c < channels; c += lanes, from += packed.group) {
      const Vec value = load(from);
      store(rows[r] + c, bias != nullptr ? value + load(bias + c) : value);
    }
  }
}

void pack_transposed(const float* from, Index stride, Index rows, Index channels, float* packed,
                     Index group) {
  for (Index c = 0; c < channels; c += lanes, packed += group)
    for (Index r = 0; r < rows; r += lanes)
      transpose(from + c * stride + r, stride, packed + r * lanes, lanes);
}

/// Data to prefetch, because memory delivers it more slowly than it is multiplied: `count` floats
/// while each vector of terms is multiplied. From one vector of terms to the next, `next` advances
/// by a panel's vector of terms.
struct Ahead {
  const float* next;
  Index count;
};

/// `rows` rows of `vectors` vectors of y = left · panel, or y += left · panel. `asks` prefetches;
/// set it if the panel is not used again at once (otherwise prefetching would cost a tenth of the
/// time).
template <int rows, int vectors, bool add, bool asks = false>
inline void product(const float* left, Index left_group, Index depth, const float* panel, float* y,
                    Index y_group, Ahead ahead = {}) {
  constexpr Index line = 16;
  Vec sum[rows][vectors] = {};
  for (Index c = 0; c < depth; c += lanes, left += left_group) {
    if constexpr (asks) {
      for (Index i = 0; i < ahead.count; i += line) __builtin_prefetch(ahead.next + i, 0, 2);
      ahead.next += vectors * lanes * lanes;
    }
#pragma GCC unroll 1  // unrolling eight lanes spills registers: 2 % slower with AVX2
    for (int lane = 0; lane < lanes; ++lane, panel += vectors * lanes) {
      Vec right[vectors];
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) right[v] = load(panel + v * lanes);
#pragma GCC unroll 24
      for (int r = 0; r < rows; ++r) {
        const float value = left[r * lanes + lane];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; ++v) sum[r][v] = multiply_add(value, right[v], sum[r][v]);
      }
    }
  }
#pragma GCC unroll 24
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) {
      float* to = y + v * y_group + r * lanes;
      store(to, add ? load(to) + sum[r][v] : sum[r][v]);
    }
}

/// The floats to prefetch for `vectors` vectors while one vector of terms is multiplied.
template <int vectors>
constexpr Index panel_floats = Index{vectors} * lanes* lanes;
constexpr Index far = 1024;

// With AVX-512 the sums of 16 rows stay in registers while a panel is read. With fewer registers, a
// piece of a panel is used for several groups of rows in turn. Meanwhile each group prefetches its
// share of the next piece.
constexpr int few_vectors = lanes == 16 ? 1 : 2,
              few_step = lanes == 16 ? 16 : std::min(accumulators / 2, 8);
constexpr int few_rows = lanes == 16 ? 16 : 64, few_terms = lanes == 16 ? 1 << 30 : 256;

/// The product of at most few_step rows. Rows beyond them, up to the next available size, are
/// computed as well.
template <bool add>
void few_product(const float* left, Index left_group, Index rows, Index depth, const float* panel,
                 float* y, Index y_group, Ahead ahead) {
  constexpr int some = lanes == 16 ? 8 : 4, least = some / 2;
  auto f = rows <= least  ? product<least, few_vectors, add, true>
           : rows <= some ? product<some, few_vectors, add, true>
                          : product<few_step, few_vectors, add, true>;
  f(left, left_group, depth, panel, y, y_group, ahead);
}

void multiply_few(Packed left, const float* right, Index rows, Index depth, bool add, float* y,
                  Index y_group, const float* next) {
  constexpr Index vector = panel_floats<few_vectors>, line = 16;
  const Index passes = (rows + few_step - 1) / few_step;
  auto* f = add ? few_product<true> : few_product<false>;
  for (Index pass = 0; pass < passes; ++pass) {
    const Index row = pass * few_step;
    const Index from = vector * pass / passes / line * line,
                to = vector * (pass + 1) / passes / line * line;
    f(left.data + row * lanes, left.group, rows - row, depth, right, y + row * lanes, y_group,
      {next + from, to - from});
  }
}

template <int vectors, bool add>
void multiply_panels(Packed left, const float* panels, Index rows, Index depth, Index columns,
                     float* y, Index y_group) {
  constexpr int step = accumulators / vectors;
  constexpr Index memory_bound = 24;  // rows; for more, reading the panel is faster
  auto* f = rows <= step ? product<step, vectors, add, true> : product<step, vectors, add>;
  for (Index k = 0; k < columns; k += vectors * lanes, panels += depth * vectors * lanes) {
    float* const out = y + k / lanes * y_group;
    if (vectors == few_vectors && rows <= memory_bound) {
      multiply_few(left, panels, rows, depth, add, out, y_group, panels + depth * vectors * lanes);
      continue;
    }
    for (Index r = 0; r < rows; r += step)
      f(left.data + r * lanes, left.group, depth, panels, out + r * lanes, y_group,
        {panels + far, panel_floats<vectors>});
  }
}

void multiply(Packed left, const float* panels, Index rows, Index depth, Index columns, bool add,
              float* y, Index y_group) {
  const bool two = columns % (2 * lanes) == 0;
  auto f = add ? (two ? multiply_panels<2, true> : multiply_panels<1, true>)
               : (two ? multiply_panels<2, false> : multiply_panels<1, false>);
  f(left, panels, rows, depth, columns, y, y_group);
}

/// `rows` rows of `vectors` vectors of y += leftᵀ · right. The old value of y is added last: as
/// terms of one long sum, many small products would lose more of their last bits. `left` points to
/// each row's elements; for rows within one vector, only to the first row's.
template <int rows, int vectors, bool one_vector>
inline void outer(const float* const* left, const float* right, Index right_group, Index depth,
                  bool first, float* y, Index y_stride) {
  if (!first) {
#pragma GCC unroll 24
    for (int r = 0; r < rows; ++r) __builtin_prefetch(y + r * y_stride, 1);
  }
  Vec sum[rows][vectors] = {};
  for (Index i = 0; i < depth * lanes; i += lanes) {
    Vec values[vectors];
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) values[v] = load(right + v * right_group + i);
#pragma GCC unroll 24
    for (int r = 0; r < rows; ++r) {
      const float value = one_vector ? left[0][i + r] : left[r][i];
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) sum[r][v] = multiply_add(value, values[v], sum[r][v]);
    }
  }
#pragma GCC unroll 24
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) {
      float* to = y + r * y_stride + v * lanes;
      store(to, first ? sum[r][v] : load(to) + sum[r][v]);
    }
}

/// With AVX2, as many rows at a time as registers hold sums, although 8 sums would hide the latency
/// of a multiplication. While another thread of the core uses the multiplication units, this thread
/// can start its next multiplications (on such a Zen 3, 8 sums ran at half their rate, 12 at three
/// quarters).
template <int vectors>
void accumulate_panels(Packed left, Packed right, Index depth, Index rows, Index columns,
                       bool first, float* y, Index y_stride) {
  constexpr int step = (lanes == 16 ? 16 : accumulators) / vectors;
  const float* from[step];
  for (Index k = 0; k < columns; k += vectors * lanes) {
    const float* panel = right.data + k / lanes * right.group;
    for (Index c = 0; c < rows;) {
      const int some = rows - c >= step ? step : rows - c >= 4 ? 4 : 2;
      for (int r = 0; r < some; ++r)
        from[r] = left.data + (c + r) / lanes * left.group + (c + r) % lanes;
      auto* f = some == step ? outer<step, vectors, lanes % step == 0>
                : some == 4  ? outer<4, vectors, false>
                             : outer<2, vectors, false>;
      f(from, panel, right.group, depth, first, y + c * y_stride + k, y_stride);
      c += some;
    }
  }
}

void accumulate(Packed left, Packed right, Index depth, Index rows, Index columns, bool first,
                float* y, Index y_stride) {
  auto f = columns % (2 * lanes) == 0 ? accumulate_panels<2> : accumulate_panels<1>;
  f(left, right, depth, rows, columns, first, y, y_stride);
}

}  // namespace

extern const PackedKernels packed;
const PackedKernels packed{lanes,  few_rows,        few_vectors* lanes, few_terms,    pack,
                           unpack, pack_transposed, multiply,           multiply_few, accumulate};

}  // namespace rondo::cpu::isa::RONDO_ISA_SET
