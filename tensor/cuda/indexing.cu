// Gathering and scattering by index tensors. As on the CPU, what adds shares out among threads what
// stands still while the index runs, never the index itself: no two threads write one element, and
// the order of additions is that of the index, so the result is the same in every run.

#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/index_range.cuh"
#include "tensor/cuda/lines.cuh"
#include "tensor/functors.h"

namespace rondo::cuda {
namespace {

/// y = x[index] at each element of y; x's step along the indexed dimension is taken by hand.
template <class Word>
struct Select {
  Operands<3> operands;  // x (not moving along dim), index, y
  std::int64_t step;
  IndexRange range;
  RONDO_HD void operator()(std::int64_t i) const {
    const auto at = operands.locate(i);
    const std::int64_t index = *reinterpret_cast<const std::int64_t*>(at.at[1]);
    if (range.contains(index))
      *reinterpret_cast<Word*>(at.at[2]) = *reinterpret_cast<const Word*>(at.at[0] + index * step);
  }
};

/// y[index[i]] += x[i] for all i of one line.
template <class C>
struct AddLine {
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
      const C sum = functors::plus(load<C>(dtype, to),
                                   load<C>(lines.starts.dtypes[1], at.at[1] + i * lines.steps[1]));
      store(dtype, to, sum);
    }
  }
};

/// An index of one dimension as if it were repeated at every position of a tensor like `x`.
Tensor repeated(const Tensor& index, const Dims& sizes, std::int64_t dim) {
  Dims strides = Dims::filled(sizes.size(), 0);
  if (!sizes.empty()) strides[dim] = index.dim() == 0 ? 1 : index.strides()[0];
  return index.as_view(sizes, strides, index.storage_offset());
}

/// x as if it had one element along dim, and that for each of y's.
Tensor standing_still(const Tensor& x, const Dims& sizes, std::int64_t dim) {
  Dims strides = x.strides();
  if (!strides.empty()) strides[dim] = 0;
  return x.as_view(sizes, strides, x.storage_offset());
}

void select(int device, const char* op, const Tensor& x, std::int64_t dim, const Tensor& index,
            const Tensor& y) {
  const IndexRange range{index_note(device), op, dim, size_along(x, dim)};
  const Tensor still = standing_still(x, y.shape(), dim);
  const std::array<const Tensor*, 3> tensors = {&still, &index, &y};
  const Collapsed<3> shape(tensors);
  const Operands<3> operands(shape, tensors);
  visit_word(x.dtype(), [&]<class Word>() {
    for_each(device, shape.numel, Select<Word>{operands, bytes_along(x, dim), range});
  });
}

void add(int device, const char* op, const Tensor& y, std::int64_t dim, const Tensor& index,
         const Tensor& x) {
  const IndexRange range{index_note(device), op, dim, size_along(y, dim)};
  const Lines<3> lines(dim, {&index, &x, &y});
  visit_compute_type(x.dtype(), [&]<class C>() {
    for_each(device, lines.count,
             AddLine<C>{lines, size_along(index, dim), bytes_along(y, dim), range});
  });
}

}  // namespace

void CudaBackend::index_select(const Tensor& x, std::int64_t dim, const Tensor& index,
                               const Tensor& y) {
  select(device_, "index_select", x, dim, repeated(index, y.shape(), dim), y);
}

void CudaBackend::gather(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& y) {
  select(device_, "gather", x, dim, index, y);
}

void CudaBackend::index_add(const Tensor& y, std::int64_t dim, const Tensor& index,
                            const Tensor& x) {
  add(device_, "index_add", y, dim, repeated(index, x.shape(), dim), x);
}

void CudaBackend::scatter_add(const Tensor& y, std::int64_t dim, const Tensor& index,
                              const Tensor& x) {
  add(device_, "scatter_add", y, dim, index, x);
}

}  // namespace rondo::cuda
