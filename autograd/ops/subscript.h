#pragma once
// Indexing as in Python: x[{...}] reads, x.index_put_({...}, value) writes.
//
//   Python               rondo
//   x[0], x[-1]          x[0], x[-1]
//   x[1:3, ::2]          x[{Slice(1, 3), Slice(None, None, 2)}]
//   x[..., None, 0]      x[{Ellipsis, None, 0}]
//   x[mask]              x[mask]                          (boolean: the elements where it is true)
//   x[rows, :, columns]  x[{rows, Slice(), columns}]      (i64)
//   x[mask] = 0          x.index_put_({mask}, 0)
//   x[rows] += y         x.index_put_({rows}, y, true)    (torch: accumulate=True)
//
// Before C++23, x[0, 1] without the inner braces would be x[1]: the comma discards what is before
// it. So compilers that know that warning treat it as an error after this header.
//
// Numbers, slices, None and Ellipsis give a view. With an index tensor the result is a copy, so
// that x[mask].fill_(0) changes the copy and not x, as in PyTorch: write with index_put_. Index
// tensors broadcast together. Their dimensions are in the place of the first one if they are
// neighbours, else in front. A boolean mask counts as one i64 index for each of its dimensions
// (nonzero), which waits for the device. Index tensors may also be i32. An index tensor without
// dimensions counts as a number. Negative indices count from the end. Throws ShapeError for an
// index out of range, too many indices, and shapes that do not broadcast; DTypeError for index
// tensors of other dtypes; Error for a step that is not positive or a second Ellipsis. Agrees with
// torch's indexing, except that u8 tensors are not masks.

#include <concepts>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "tensor/tensor.h"

#if !defined(__cpp_multidimensional_subscript)
#if defined(__clang__)
#if __has_warning("-Wdeprecated-comma-subscript")
#pragma clang diagnostic error "-Wdeprecated-comma-subscript"
#endif
#elif defined(__GNUC__)
#pragma GCC diagnostic error "-Wcomma-subscript"
#endif
#endif

namespace rondo {

/// As an index: a new dimension of size 1. As a bound of a Slice: no bound.
struct NoneType {
  operator std::optional<std::int64_t>() const { return {}; }
};
inline constexpr NoneType None;
/// As many full slices as are needed.
struct EllipsisType {};
inline constexpr EllipsisType Ellipsis;

/// start:stop:step of one dimension; Slice() is all of it. Bounds past the end become the end.
struct Slice {
  explicit Slice(std::optional<std::int64_t> start = {}, std::optional<std::int64_t> stop = {},
                 std::optional<std::int64_t> step = {})
      : start(start), stop(stop), step(step) {}
  std::optional<std::int64_t> start, stop, step;
};

/// One entry of an index.
class TensorIndex {
 public:
  template <std::integral T>
  TensorIndex(T position) : value(static_cast<std::int64_t>(position)) {}
  TensorIndex(bool) = delete;  // torch inserts a dimension; use None
  TensorIndex(Slice slice) : value(slice) {}
  TensorIndex(NoneType none) : value(none) {}
  TensorIndex(EllipsisType ellipsis) : value(ellipsis) {}
  TensorIndex(const Tensor& index) : value(index) {}

  std::variant<std::int64_t, Slice, NoneType, EllipsisType, Tensor> value;
};

/// x[where]; also Tensor::index and Tensor::operator[].
Tensor index(const Tensor& x, const std::vector<TensorIndex>& where);
/// A copy of x with x[where] = value, or += if `accumulate`; value is broadcast to x[where] and
/// must have x's dtype. If an index repeats, the last value stays, or all are added.
Tensor index_put(const Tensor& x, const std::vector<TensorIndex>& where, const Tensor& value,
                 bool accumulate = false);

/// The positions of the elements that are not 0, in row-major order: i64 (n, dimensions). Waits for
/// the device.
Tensor nonzero(const Tensor& x);
/// The same as one vector of positions for each dimension (torch: where(condition)).
Tensors where(const Tensor& condition);
/// The elements where mask (boolean, broadcast with x) is true, in row-major order: (n).
Tensor masked_select(const Tensor& x, const Tensor& mask);
/// x with the first elements of source where mask (boolean, broadcast to x) is true, in row-major
/// order. Throws ShapeError if source has too few elements. Waits for the device.
Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source);
/// gather with sizes that broadcast in the other dimensions; without dim, of both as vectors.
Tensor take_along_dim(const Tensor& x, const Tensor& index, std::optional<std::int64_t> dim = {});
/// The elements at positions of the flattened x, with the shape of index.
Tensor take(const Tensor& x, const Tensor& index);

}  // namespace rondo
