// A copy row by row would touch one cache line for each element, and the next row would touch the
// same lines again. By then the caches hold few of them, because in common shapes their addresses
// are a power of two apart. So the copy moves tiles through a buffer, with as many rows as a cache
// line has elements: each line is read once and written once, as a whole.

#include "tensor/cpu/transpose.h"

#include <cstring>

#include "tensor/cpu/lines.h"

namespace rondo::cpu {
namespace {

constexpr std::int64_t line_bytes = 64;
constexpr std::int64_t rows_per_task = 1024;

/// The dimension along which x is contiguous, if it differs from y's and both are long enough for
/// tiles; otherwise 0.
std::size_t other_dimension(const Collapsed<2>& shape, std::int64_t width) {
  constexpr std::int64_t least = 8;
  const auto [x_step, y_step] = shape.steps[0];
  if (y_step != width || x_step == width || x_step == 0 || shape.sizes[0] < least) return 0;
  for (std::size_t d = 1; d < shape.dims; ++d)
    if (shape.steps[d][0] == width && shape.sizes[d] >= least) return d;
  return 0;
}

/// `rows` rows of `columns` words at x become `columns` rows of `rows` words at y. Steps are in
/// bytes.
template <class Word>
void transpose_tile(const char* x, std::int64_t x_step, char* y, std::int64_t y_step,
                    std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t tile = line_bytes / sizeof(Word);
  Word in[tile][tile];
  const auto row_bytes = static_cast<std::size_t>(columns) * sizeof(Word);
  for (std::int64_t r = 0; r < rows; ++r) std::memcpy(in[r], x + r * x_step, row_bytes);
  const auto column_bytes = static_cast<std::size_t>(rows) * sizeof(Word);
  for (std::int64_t c = 0; c < columns; ++c) {
    Word out[tile];
    for (std::int64_t r = 0; r < rows; ++r) out[r] = in[r][c];
    std::memcpy(y + c * y_step, out, column_bytes);
  }
}

template <class Word>
void transpose(const Collapsed<2>& shape, std::size_t other) {
  constexpr std::int64_t tile = line_bytes / sizeof(Word);
  const std::int64_t rows = shape.sizes[0], columns = shape.sizes[other];
  const std::int64_t x_step = shape.steps[0][0], y_step = shape.steps[other][1];
  // The outer loops: all other dimensions, strips of one tile's columns, and blocks of rows.
  Dims outer;
  std::array<Dims, 2> steps;
  for (std::size_t d = shape.dims - 1; d > 0; --d) {
    if (d == other) continue;
    outer.push_back(shape.sizes[d]);
    for (std::size_t k = 0; k < 2; ++k) steps[k].push_back(shape.steps[d][k]);
  }
  const std::int64_t blocks = (rows + rows_per_task - 1) / rows_per_task,
                     strips = (columns + tile - 1) / tile;
  const std::int64_t tasks = blocks * strips;  // for each position of the outer dimensions
  parallel_for(numel_of(outer) * tasks, shape.numel, [&](std::int64_t begin, std::int64_t end) {
    Walker<2> walker(outer, steps);
    walker.seek(begin / tasks);
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t c = task / blocks % strips * tile, width = std::min(tile, columns - c);
      const char* x = shape.data[0] + walker.offsets()[0] + c * std::int64_t{sizeof(Word)};
      char* y = shape.data[1] + walker.offsets()[1] + c * y_step;
      std::int64_t r = task % blocks * rows_per_task;
      const std::int64_t last = std::min(rows, r + rows_per_task);
      if (width == tile)  // a size known to the compiler
        for (; r + tile <= last; r += tile)
          transpose_tile<Word>(x + r * x_step, x_step, y + r * std::int64_t{sizeof(Word)}, y_step,
                               tile, tile);
      for (; r < last; r += tile)
        transpose_tile<Word>(x + r * x_step, x_step, y + r * std::int64_t{sizeof(Word)}, y_step,
                             std::min(tile, last - r), width);
      if (task % tasks + 1 == tasks) walker.next();
    }
  });
}

}  // namespace

bool copy_transposed(const Tensor& x, const Tensor& y) {
  if (x.dtype() != y.dtype()) return false;
  const Collapsed<2> shape({&x, &y});
  const std::size_t other = other_dimension(shape, size_of(x.dtype()));
  if (other == 0) return false;
  visit_word(x.dtype(), [&]<class Word>() { transpose<Word>(shape, other); });
  return true;
}

}  // namespace rondo::cpu
