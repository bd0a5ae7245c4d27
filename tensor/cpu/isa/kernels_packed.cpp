// Packed matrices (Packed in table.h) and their products, all sums in registers; compiled once for
// each instruction set. The products run at the rate at which a core can multiply and add: for each
// vector of sums one operation, while the factors come from the first-level cache.
#include <utility>

#include "tensor/cpu/isa/vec.h"

namespace rondo::cpu::isa::RONDO_ISA {
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

#if __has_builtin(__builtin_shufflevector)
/// Of two rows a and b, `step` apart in a square, the upper and the lower one after the squares of
/// `step` columns to the right of a and to the left of b have changed places.
template <int step, int... column>
inline void exchange(Vec& a, Vec& b, std::integer_sequence<int, column...>) {
  const Vec upper =
      __builtin_shufflevector(a, b, ((column & step) != 0 ? lanes + column - step : column)...);
  b = __builtin_shufflevector(a, b, ((column & step) != 0 ? lanes + column : column + step)...);
  a = upper;
}
template <int step>
inline void exchange_all(Vec* rows) {
#pragma GCC unroll 16
  for (int r = 0; r < lanes; ++r)
    if ((r & step) == 0)
      exchange<step>(rows[r], rows[r + step], std::make_integer_sequence<int, lanes>{});
  if constexpr (2 * step < lanes) exchange_all<2 * step>(rows);
}
#endif

/// A square of `lanes` rows, transposed.
inline void transpose(const float* from, Index from_stride, float* to, Index to_stride) {
#if __has_builtin(__builtin_shufflevector)
  Vec rows[lanes];
#pragma GCC unroll 16
  for (int r = 0; r < lanes; ++r) rows[r] = load(from + r * from_stride);
  exchange_all<1>(rows);
#pragma GCC unroll 16
  for (int r = 0; r < lanes; ++r) store(to + r * to_stride, rows[r]);
#else
  for (int r = 0; r < lanes; ++r)
    for (int c = 0; c < lanes; ++c) to[c * to_stride + r] = from[r * from_stride + c];
#endif
}

void pack_transposed(const float* from, Index stride, Index rows, Index channels, float* packed,
                     Index group) {
  for (Index c = 0; c < channels; c += lanes, packed += group)
    for (Index r = 0; r < rows; r += lanes)
      transpose(from + c * stride + r, stride, packed + r * lanes, lanes);
}

/// `rows` rows of `vectors` vectors of y = left · panel, or y += it. `ahead`: how many floats
/// before they are needed those of a panel that no cache holds are asked for; the weights of a
/// single image come slower from memory than they are multiplied. (Where a panel is used again at
/// once, asking costs a tenth of the time.)
template <int rows, int vectors, bool add, int ahead = 0>
inline void product(const float* left, Index left_group, Index depth, const float* panel, float* y,
                    Index y_group) {
  Vec sum[rows][vectors] = {};
  for (Index c = 0; c < depth; c += lanes, left += left_group) {
    for (int lane = 0; lane < lanes; ++lane, panel += vectors * lanes) {
      Vec right[vectors];
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) {
        right[v] = load(panel + v * lanes);
        if constexpr (ahead > 0) __builtin_prefetch(panel + v * lanes + ahead);
      }
#pragma GCC unroll 24
      for (int r = 0; r < rows; ++r) {
        const float value = left[r * lanes + lane];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; ++v) sum[r][v] += value * right[v];
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

constexpr int far = 1024;

template <int vectors, bool add>
void multiply_panels(Packed left, const float* panels, Index rows, Index depth, Index columns,
                     float* y, Index y_group) {
  constexpr int step = accumulators / vectors;
  auto* f = rows <= step ? product<step, vectors, add, far> : product<step, vectors, add>;
  for (Index k = 0; k < columns; k += vectors * lanes, panels += depth * vectors * lanes)
    for (Index r = 0; r < rows; r += step)
      f(left.data + r * lanes, left.group, depth, panels, y + k / lanes * y_group + r * lanes,
        y_group);
}

void multiply(Packed left, const float* panels, Index rows, Index depth, Index columns, bool add,
              float* y, Index y_group) {
  const bool two = columns % (2 * lanes) == 0;
  auto f = add ? (two ? multiply_panels<2, true> : multiply_panels<1, true>)
               : (two ? multiply_panels<2, false> : multiply_panels<1, false>);
  f(left, panels, rows, depth, columns, y, y_group);
}

/// `step` rows of one vector at a time, in turns while the panel is in the cache.
template <int step>
void multiply_rows(const float* left, const float* right, Index rows, Index depth,
                   const float* bias, float* y, Index y_stride) {
  float sums[step * lanes];
  for (Index first = 0; first < rows; first += step) {
    product<step, 1, false, far>(left + first * lanes, packed_few_rows * lanes, depth, right, sums,
                                 0);
    for (Index r = first; r < first + step && r < rows; ++r) {
      const Vec sum = load(sums + (r - first) * lanes);
      store(y + r * y_stride, bias != nullptr ? sum + load(bias) : sum);
    }
  }
}

void multiply_few(const float* left, const float* right, Index rows, Index depth, const float* bias,
                  float* y, Index y_stride) {
  constexpr int most = accumulators >= packed_few_rows ? packed_few_rows : 8;
  auto f = rows <= 4 ? multiply_rows<4> : rows <= 8 ? multiply_rows<8> : multiply_rows<most>;
  f(left, right, rows, depth, bias, y, y_stride);
}

/// `rows` rows of `vectors` vectors of y += leftᵀ · right. What is there is added last: as terms of
/// one long sum the many products would lose more of their last bits. `left`: where each row's
/// numbers begin; or, of rows that are in one vector, where the first's do.
template <int rows, int vectors, bool one_vector>
inline void outer(const float* const* left, const float* right, Index right_group, Index depth,
                  bool first, float* y, Index y_stride) {
  if (!first) {
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) __builtin_prefetch(y + r * y_stride, 1);
  }
  Vec sum[rows][vectors] = {};
  for (Index i = 0; i < depth * lanes; i += lanes) {
    Vec values[vectors];
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) values[v] = load(right + v * right_group + i);
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
      const float value = one_vector ? left[0][i + r] : left[r][i];
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) sum[r][v] += value * values[v];
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) {
      float* to = y + r * y_stride + v * lanes;
      store(to, first ? sum[r][v] : load(to) + sum[r][v]);
    }
}

/// With AVX2 as many rows at a time as registers hold sums of, though 8 sums would hide how long a
/// multiplication takes: while another thread of the core has the units that multiply, the next can
/// be begun (on such a Zen 3, 8 ran at half their rate, 12 at three quarters).
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
const PackedKernels packed{lanes,    pack,         unpack,    pack_transposed,
                           multiply, multiply_few, accumulate};

}  // namespace rondo::cpu::isa::RONDO_ISA
