#include "tensor/cpu/packed_matmul.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "tensor/cpu/allocator.h"
#include "tensor/cpu/isa/table.h"
#include "tensor/cpu/strided.h"
#include "tensor/environment.h"
#include "tensor/error.h"

namespace rondo::cpu::packed_matmul {
namespace {

using Index = std::int64_t;

constexpr Index unit = 16;  // all sizes are multiples of it: the floats of the widest vector
// The blocking: `most_terms` terms of a sum and `most_rows` rows of y at a time. The second-level
// cache holds their part of one factor while panels of the other are read; the first-level cache
// holds one panel. Columns are packed `most_columns` at a time. If there are more rows, up to
// `most_kept` packed columns are kept for the next rows.
constexpr Index most_terms = 192, most_rows = 144, most_columns = 128, most_kept = 2048;

/// A factor of y = Σ_d left[d]ᵀ right[d]. The sum has `depth` terms. The `width` elements of term d
/// are data[d · down + i · across]; one of the two strides is 1.
struct Factor {
  const float* data;
  Index depth, width, down, across;

  /// Packs `count` elements, starting at `first`, of `terms` terms, starting at d: by rows or
  /// transposed.
  void pack(Index d, Index terms, Index first, Index count, float* into, Index group) const {
    const float* from = data + d * down + first * across;
    if (across != 1)
      return kernels().packed.pack_transposed(from, across, terms, count, into, group);
    std::array<const float*, most_terms> rows;
    for (Index i = 0; i < terms; ++i) rows[i] = from + i * down;
    kernels().packed.pack(rows.data(), terms, count, into, group);
  }
};

/// The size of one group of packed terms. One unused vector is between groups, so that they do not
/// compete for the same cache sets.
Index group() { return (most_terms + 1) * kernels().packed.lanes; }
Index packed_floats(Index width) { return width / kernels().packed.lanes * group(); }

/// A part of y (rows, columns).
struct OutputPart {
  Index top, rows, left, columns;

  /// Whether the packed columns are kept for further rows.
  bool keeps_columns() const { return rows > most_rows; }
  /// The floats that its product packs at a time.
  Index floats() const {
    return packed_floats(most_rows) +
           packed_floats(keeps_columns() ? std::min(columns, most_kept) : most_columns);
  }
};

/// The part of y = Σ leftᵀ right + bias?, with at most most_kept columns.
void multiply(const Factor& left, const Factor& right, const float* bias, float* y, Index y_stride,
              const OutputPart& part, float* scratch) {
  const PackedKernels& k = kernels().packed;
  float* const packed_left = scratch;
  float* const packed_right = scratch + packed_floats(most_rows);
  for (Index d = 0; d < left.depth; d += most_terms) {
    const Index terms = std::min(most_terms, left.depth - d);
    for (Index row = 0; row < part.rows; row += most_rows) {
      const Index rows = std::min(most_rows, part.rows - row);
      float* const out = y + (part.top + row) * y_stride + part.left;
      for (Index r = 0; bias != nullptr && d == 0 && r < rows; ++r)
        std::copy_n(bias + part.left, part.columns, out + r * y_stride);
      left.pack(d, terms, part.top + row, rows, packed_left, group());
      for (Index column = 0; column < part.columns; column += most_columns) {
        const Index columns = std::min(most_columns, part.columns - column);
        float* const packed = packed_right + (part.keeps_columns() ? packed_floats(column) : 0);
        if (row == 0) right.pack(d, terms, part.left + column, columns, packed, group());
        k.accumulate({packed_left, group()}, {packed, group()}, terms, rows, columns,
                     d == 0 && bias == nullptr, out + column, y_stride);
      }
    }
  }
}

/// Divides y (rows, columns) into parts, one for each thread, so that as little as possible is
/// packed more than once. Their borders are multiples of `unit`.
class Division {
 public:
  Division(Index rows, Index columns, Index depth) : bands_(rows / unit), strips_(columns / unit) {
    // This many products take as long as one element of other kernels.
    constexpr Index products_an_element = 16;
    const int threads = threads_for(rows * columns * depth / products_an_element);
    Index least = 0;
    for (Index down = 1; down <= std::min<Index>(threads, bands_); ++down) {
      const Index across = std::min(threads / down, strips_), idle = threads - down * across;
      const Index packed = across * rows + down * columns + idle * (rows + columns);
      if (down > 1 && packed >= least) continue;
      least = packed;
      down_ = down;
      across_ = across;
    }
  }
  int parts() const { return static_cast<int>(down_ * across_); }
  OutputPart part(int number) const {
    const Index i = number / across_, j = number % across_;
    const Index top = bands_ * i / down_, left = strips_ * j / across_;
    return {top * unit, (bands_ * (i + 1) / down_ - top) * unit, left * unit,
            (strips_ * (j + 1) / across_ - left) * unit};
  }

 private:
  Index bands_, strips_, down_ = 1, across_ = 1;
};

}  // namespace

bool enabled() {
  static const bool enabled =
      flag_from_environment("RONDO_PACKED_MATMUL")
          .value_or(std::string_view(kernels().name) == "avx2" || !has_generated_kernels());
  return enabled;
}

bool has_conflicts(const MatmulProblem& p) {
  constexpr Index copied = 512, narrow = 320;  // with more rows or columns, oneDNN also packs
  const auto conflicts = [](Index stride) { return stride % 512 == 0; };
  if (p.a_strides[1] == 1)
    return conflicts(p.c_strides[1]) || (conflicts(p.a_strides[2]) && p.n <= narrow);
  return conflicts(p.c_strides[1]) && p.m <= copied;
}

bool suits(const MatmulProblem& p) {
  constexpr Index few = 64;  // with fewer rows or columns, packing takes too long
  return enabled() && p.dtype == f32 && p.batch == 1 && p.m % unit == 0 && p.n % unit == 0 &&
         p.k % unit == 0 && p.m >= few && p.n >= few && p.y_strides[2] == 1 &&
         p.c_strides[2] == 1 && has_conflicts(p);
}

void matmul(const Tensor& a, const Tensor& c, const Tensor& bias, const Tensor& y) {
  const Index m = y.size(1), n = y.size(2), depth = a.size(2);
  require(m % unit == 0 && n % unit == 0 && depth % unit == 0 && depth > 0, "packed_matmul: sizes ",
          m, ", ", depth, ", ", n, " are not all multiples of ", unit);
  const Factor left{a.data_ptr<float>(), depth, m, a.stride(2), a.stride(1)};
  const Factor right{c.data_ptr<float>(), depth, n, c.stride(1), c.stride(2)};
  const float* b = bias.defined() ? bias.data_ptr<float>() : nullptr;
  float* const out = y.data_ptr<float>();
  const Index y_stride = y.stride(1);
  const Division division(m, n, depth);
  Index floats = 0;
  for (int i = 0; i < division.parts(); ++i) floats = std::max(floats, division.part(i).floats());
  const Scratch scratch(division.parts() * floats);
  parallel_shares(division.parts(), division.parts(), [&](int share, Index, Index) {
    OutputPart part = division.part(share);
    const Index end = part.left + part.columns;
    for (; part.left < end; part.left += most_kept) {
      part.columns = std::min(most_kept, end - part.left);
      multiply(left, right, b, out, y_stride, part, scratch.data() + share * floats);
    }
  });
}

}  // namespace rondo::cpu::packed_matmul
