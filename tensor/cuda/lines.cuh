#pragma once
// Lines<N>: what N tensors have along one dimension, at every position of the others. Their shapes
// are equal but for that dimension.

#include "tensor/cuda/launch.cuh"
#include "tensor/cuda/strided.cuh"

namespace rondo::cuda {

/// x with one element along `dim` (the first), or as the 0-dim tensor that it is.
inline Tensor without_length(const Tensor& x, std::int64_t dim) {
  if (x.dim() == 0) return x;
  Dims sizes = x.shape();
  sizes[dim] = 1;
  return x.as_view(sizes, x.strides(), x.storage_offset());
}
inline std::int64_t size_along(const Tensor& x, std::int64_t dim) {
  return x.dim() == 0 ? 1 : x.shape()[dim];
}
inline std::int64_t bytes_along(const Tensor& x, std::int64_t dim) {
  return (x.dim() == 0 ? 1 : x.strides()[dim]) * size_of(x.dtype());
}

/// Calls body(group, line) for each line. A line whose elements lie side by side is shared out
/// among the threads of a block; of many lines whose elements lie apart (the classes of a pixel,
/// planes outermost) each thread takes one, since neighbouring lines are what lies side by side
/// there.
template <class Body>
void for_lines(int device, std::int64_t lines, std::int64_t length, bool side_by_side,
               const Body& body) {
  constexpr std::int64_t enough_lines = 8192;
  if (side_by_side || lines < enough_lines) return for_rows(device, lines, length, body);
  for_each(device, lines, [=] RONDO_HD(std::int64_t line) { body(LoneThread{}, line); });
}

template <std::size_t N>
struct Lines {
  std::int64_t count = 0;  // of lines
  std::int64_t steps[N];   // bytes from one element of a line to the next
  Operands<N> starts;      // element i: the first of line i

  /// Whether the elements of the first tensor's lines lie side by side.
  bool side_by_side() const { return steps[0] == size_of(starts.dtypes[0]); }

  Lines(std::int64_t dim, const std::array<const Tensor*, N>& tensors)
      : Lines(dim, tensors, first_of(dim, tensors)) {}

 private:
  Lines(std::int64_t dim, const std::array<const Tensor*, N>& tensors,
        const std::array<Tensor, N>& first)
      : starts(Collapsed<N>(pointers(first)), pointers(first)) {
    count = first[0].numel();
    for (std::size_t k = 0; k < N; ++k) steps[k] = bytes_along(*tensors[k], dim);
  }
  static std::array<Tensor, N> first_of(std::int64_t dim,
                                        const std::array<const Tensor*, N>& tensors) {
    std::array<Tensor, N> first;
    const Dims sizes = without_length(*tensors[0], dim).shape();
    // As large as the first of them: an index may be smaller than what it points into.
    for (std::size_t k = 0; k < N; ++k)
      first[k] = tensors[k]->as_view(sizes, tensors[k]->strides(), tensors[k]->storage_offset());
    return first;
  }
  static std::array<const Tensor*, N> pointers(const std::array<Tensor, N>& tensors) {
    std::array<const Tensor*, N> p;
    for (std::size_t k = 0; k < N; ++k) p[k] = &tensors[k];
    return p;
  }
};

}  // namespace rondo::cuda
