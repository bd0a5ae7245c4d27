// Gather and scatter with index tensors. As on the CPU, no two threads write the same element, and
// writes happen in the order of the index, so the result is bit-identical in every run. If each
// line has its own index, one thread processes each line. If all lines share one index (an
// embedding's gradient: few columns, thousands of tokens), or if there are a few long lines, each
// index is first sorted stably. Then one thread joins, for one line, all elements with the same
// destination.

#include <bit>

#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/index_range.cuh"
#include "tensor/cuda/lines.cuh"
#include "tensor/cuda/sort_keys.h"
#include "tensor/functors.h"
#include "tensor/scratch.h"

namespace rondo::cuda {
namespace {

/// y = x[index] for each element of y. The step of x along the indexed dimension is added
/// explicitly.
template <class Word>
struct Select {
  Operands<3> operands;  // x (stride 0 along dim), index, y
  std::int64_t step;
  IndexRange range;
  RONDO_HD void operator()(std::int64_t i) const {
    const auto at = operands.locate(i);
    const std::int64_t index = *reinterpret_cast<const std::int64_t*>(at.at[1]);
    if (range.contains(index))
      *reinterpret_cast<Word*>(at.at[2]) = *reinterpret_cast<const Word*>(at.at[0] + index * step);
  }
};

/// The keys of an index for sorting, and their positions. Invalid entries become the last key.
struct MakeIndexKeys {
  const std::int64_t* index;
  std::int64_t stride;
  IndexRange range;
  std::uint32_t* keys;
  std::int32_t* places;
  RONDO_HD void operator()(std::int64_t i) const {
    const std::int64_t entry = index[i * stride];
    keys[i] = static_cast<std::uint32_t>(range.contains(entry) ? entry : range.size);
    places[i] = static_cast<std::int32_t>(i);
  }
};

/// For a sorted index: y[sorted[k]] = op(y[sorted[k]], x[order[k]]) for all k with the same value,
/// in one line. Neighbouring threads process neighbouring lines. Computed in C and rounded once.
template <class C>
struct JoinRun {
  ScatterOp op;
  Lines<2> lines;  // x, y
  const std::uint32_t* sorted;
  const std::int32_t* order;
  std::int64_t length, size;  // of the index, and of y along dim
  Divisor by_count;           // divides by the number of lines
  RONDO_HD void operator()(std::int64_t i) const {
    std::int64_t k = by_count.divide(i);
    const std::int64_t line = i - k * lines.count;
    const std::uint32_t index = sorted[k];
    if (index == size || (k > 0 && sorted[k - 1] == index)) return;  // invalid, or another thread's
    const auto at = lines.starts.locate(line);
    char* to = at.at[1] + index * lines.steps[1];
    C joined = load<C>(lines.starts.dtypes[1], to);
    for (; k < length && sorted[k] == index; ++k)
      joined = functors::scatter(
          op, joined, load<C>(lines.starts.dtypes[0], at.at[0] + order[k] * lines.steps[0]));
    store(lines.starts.dtypes[1], to, joined);
  }
};

/// y[index[i]] = op(y[index[i]], x[i]) for all i of one line.
template <class C>
struct JoinLine {
  ScatterOp op;
  Lines<3> lines;  // index, x, y
  std::int64_t length, y_step;
  IndexRange range;
  RONDO_HD void operator()(std::int64_t line) const {
    const auto at = lines.starts.locate(line);
    const DType dtype = lines.starts.dtypes[2];
    for (std::int64_t i = 0; i < length; ++i) {
      const std::int64_t index =
          *reinterpret_cast<const std::int64_t*>(at.at[0] + i * lines.steps[0]);
      if (!range.contains(index)) continue;
      char* to = at.at[2] + index * y_step;
      const C value = load<C>(lines.starts.dtypes[1], at.at[1] + i * lines.steps[1]);
      store(dtype, to, functors::scatter(op, load<C>(dtype, to), value));
    }
  }
};

/// A 1-dim index, seen as if it were repeated at every position of a tensor with `sizes`.
Tensor repeated(const Tensor& index, const Dims& sizes, std::int64_t dim) {
  Dims strides = Dims::filled(sizes.size(), 0);
  if (!sizes.empty()) strides[dim] = index.dim() == 0 ? 1 : index.strides()[0];
  return index.as_view(sizes, strides, index.storage_offset());
}

/// x with stride 0 along dim: its first element there is repeated for each of y's.
Tensor standing_still(const Tensor& x, const Dims& sizes, std::int64_t dim) {
  Dims strides = x.strides();
  if (!strides.empty()) strides[dim] = 0;
  return x.as_view(sizes, strides, x.storage_offset());
}

/// Element i of x along d, as a dimension of size 1.
Tensor at(const Tensor& x, std::int64_t d, std::int64_t i) {
  Dims sizes = x.shape();
  sizes[d] = 1;
  return x.as_view(sizes, x.strides(), x.storage_offset() + i * x.stride(d));
}

void select(int device, const char* op, const Tensor& x, std::int64_t dim, const Tensor& index,
            const Tensor& y) {
  const IndexRange range{index_note(device), called_op(op), dim, size_along(x, dim)};
  const Tensor still = standing_still(x, y.shape(), dim);
  const std::array<const Tensor*, 3> tensors = {&still, &index, &y};
  const Collapsed<3> shape(tensors);
  const Operands<3> operands(shape, tensors);
  visit_word(x.dtype(), [&]<class Word>() {
    for_each(device, shape.numel, Select<Word>{operands, bytes_along(x, dim), range});
  });
}

}  // namespace

void CudaBackend::do_index_select(const Tensor& x, std::int64_t dim, const Tensor& index,
                                  const Tensor& y) {
  select(device_, "index_select", x, dim, repeated(index, y.shape(), dim), y);
}

void CudaBackend::do_gather(const Tensor& x, std::int64_t dim, const Tensor& index,
                            const Tensor& y) {
  select(device_, "gather", x, dim, index, y);
}

void CudaBackend::do_index_scatter(ScatterOp op, const Tensor& y, std::int64_t dim,
                                   const Tensor& index, const Tensor& x) {
  if (x.numel() == 0) return;
  const std::int64_t n = index.numel(), size = size_along(y, dim);
  const char* name = op == ScatterOp::add ? "index_add" : "index_scatter";
  require<ShapeError>(n <= 0x7fffffff && size < 0xffffffff, name, ": an index of ", n,
                      " entries into a dimension of ", size,
                      "; on a GPU there may be 2^31 - 1 entries, and 2^32 - 2 elements");
  const auto scratch = [&] { return Tensor::empty({n}, {.dtype = i32, .device = y.device()}); };
  const Tensor memory[] = {scratch(), scratch(), scratch(), scratch()};
  auto* keys = static_cast<std::uint32_t*>(memory[0].data_ptr());
  auto* sorted = static_cast<std::uint32_t*>(memory[1].data_ptr());
  auto* places = static_cast<std::int32_t*>(memory[2].data_ptr());
  auto* order = static_cast<std::int32_t*>(memory[3].data_ptr());
  for_each(
      device_, n,
      MakeIndexKeys{index.data_ptr<std::int64_t>(), index.dim() == 0 ? 1 : index.stride(0),
                    IndexRange{index_note(device_), called_op(name), dim, size}, keys, places});
  const int bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(size)));
  sort_segments<std::uint32_t>(device_, {.keys = keys,
                                         .sorted_keys = sorted,
                                         .places = places,
                                         .sorted_places = order,
                                         .segments = 1,
                                         .length = n,
                                         .bits = bits});
  const Lines<2> lines(dim, {&x, &y});
  visit_compute_type(y.dtype(), [&]<class C>() {
    for_each(device_, lines.count * n,
             JoinRun<C>{op, lines, sorted, order, n, size, Divisor(lines.count)});
  });
}

void CudaBackend::do_scatter(ScatterOp op, const Tensor& joined, std::int64_t dim,
                             const Tensor& index, const Tensor& x) {
  // With fewer threads than a warp has, and long walks, sorting is cheaper. Not measured on a GPU.
  constexpr std::int64_t few_lines = 32, long_line = 2048;
  const std::int64_t length = size_along(index, dim);
  if (length >= long_line && index.numel() <= few_lines * length) {
    Tensor line = joined;
    for (std::int64_t d = 0; d < index.dim(); ++d) {
      if (d == dim) continue;
      if (index.size(d) > 1) {
        for (std::int64_t i = 0; i < index.size(d); ++i)
          do_scatter(op, at(joined, d, i), dim, at(index, d, i), at(x, d, i));
        return;
      }
      line = at(line, d, 0);
    }
    return do_index_scatter(
        op, line, dim, index.as_view({length}, {index.stride(dim)}, index.storage_offset()), x);
  }
  // 16-bit floats are summed in f32 and rounded once, as on the CPU.
  const bool narrow = functors::scatters_wide(op, joined.dtype());
  const Tensor y = narrow ? as_f32(joined) : joined;
  const IndexRange range{index_note(device_),
                         called_op(op == ScatterOp::add ? "scatter_add" : "scatter"), dim,
                         size_along(y, dim)};
  const Lines<3> lines(dim, {&index, &x, &y});
  visit_compute_type(x.dtype(), [&]<class C>() {
    for_each(device_, lines.count,
             JoinLine<C>{op, lines, size_along(index, dim), bytes_along(y, dim), range});
  });
  if (narrow) do_copy(y, joined);
}

namespace {

/// Element i of y (outer, rows, inner) from x (outer, columns, inner).
template <class T>
struct SparseProduct {
  const std::int64_t *offset, *index;
  const T *weight, *x;
  T* y;
  std::int64_t columns;
  Divisor inner, rows;
  RONDO_HD void operator()(std::int64_t i) const {
    const std::int64_t line = inner.divide(i), k = i - line * inner.value();
    const std::int64_t outer = rows.divide(line), row = line - outer * rows.value();
    const T* from = x + outer * columns * inner.value() + k;
    T sum = 0;
    for (std::int64_t j = offset[row]; j < offset[row + 1]; ++j)
      sum += weight[j] * from[index[j] * inner.value()];
    y[i] = sum;
  }
};

}  // namespace

void CudaBackend::do_sparse_product(const CompressedRows& matrix, const Tensor& x,
                                    const Tensor& y) {
  visit_float_compute(x.dtype(), "sparse_product", [&]<class T>() {
    for_each(device_, y.numel(),
             SparseProduct<T>{matrix.offset.data_ptr<std::int64_t>(),
                              matrix.index.data_ptr<std::int64_t>(), matrix.weight.data_ptr<T>(),
                              x.data_ptr<T>(), y.data_ptr<T>(), x.size(1), Divisor(x.size(2)),
                              Divisor(matrix.rows())});
  });
}

}  // namespace rondo::cuda
