#pragma once
// Code shared by the reductions (reduce.cpp, pick.cpp): which dimensions are reduced, and how a
// kernel's result, in which they have size 1, gets its final shape. Not for users.

#include <string_view>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "tensor/backend.h"

namespace rondo {

/// What a reduction does to a shape.
struct Reduced {
  Dims kept;            // with size 1 for each reduced dimension
  Dims result;          // without the reduced dimensions, unless keepdim
  std::int64_t length;  // elements that go into each result
};

inline Reduced reduced(const Tensor& x, const Dims& dims, Flag keepdim, const char* op) {
  Reduced out{x.shape(), {}, 1};
  Dims hit = Dims::filled(x.dim(), dims.empty() ? 1 : 0);
  for (std::int64_t dim : dims) {
    dim = wrap_dim(dim, x.dim(), op);
    if (x.dim() == 0) continue;
    require<ShapeError>(hit[dim] == 0, op, ": dimension ", dim, " appears twice in ", dims);
    hit[dim] = 1;
  }
  for (std::int64_t i = 0; i < x.dim(); ++i) {
    if (hit[i]) {
      out.length *= x.shape()[i];
      out.kept[i] = 1;
    }
    if (!hit[i] || keepdim) out.result.push_back(out.kept[i]);
  }
  return out;
}

/// A dense result y with other sizes of 1; the elements are the same.
inline Tensor renamed(const Tensor& y, const Dims& sizes) {
  return y.as_view(sizes, strides_of(sizes), y.storage_offset());
}

/// x reduced as `shape` says, in the given dtype, not recorded. Reduced dimensions keep size 1.
inline Tensor reduce_kept(ReductionOp op, const Tensor& x, const Reduced& shape, DType dtype) {
  Tensor y = Tensor::empty(shape.kept, {.dtype = dtype, .device = x.device()});
  backend(x).reduce(op, x, y);
  return y;
}

/// f32 for 16-bit floats: a sum in 16 bits may overflow (f16 ends at 65504) before a division or a
/// root makes it small again.
inline DType wide_dtype(const Tensor& x) { return size_of(x.dtype()) == 2 ? f32 : x.dtype(); }
inline Tensor widened(const Tensor& x) { return to(x, wide_dtype(x)); }

/// clamp of floats whose gradient also passes at the bounds, for ops that are composed of it.
/// Defined in unary.cpp.
Tensor clamp_with_bounds(const Tensor& x, double low, double high);

/// Integers and bools are converted to f32 for ops whose results are not integers.
inline Tensor as_float(const Tensor& x, std::string_view op) {
  x.require_defined(op, "the input");
  return is_floating(x.dtype()) ? x : to(x, f32);
}

inline void require_float(const Tensor& x, const char* op) {
  x.require_defined(op, "the input");
  require<DTypeError>(is_floating(x.dtype()), op, ": the input is ", x.dtype(), ", not a float",
                      x.dtype() == u8 ? how_to_convert(u8, u8) : "; convert it with x.to(f32)");
}

/// Where x equals y, the result of a choice. NaN matches NaN, because a NaN is always chosen.
inline Tensor equal_or_both_nan(const Tensor& x, const Tensor& y) {
  return logical_or(eq(x, y), logical_and(isnan(x), isnan(y)));
}

/// Puts the reduced dimensions back as size 1 and repeats the values over the input's shape.
inline Tensor spread(const Tensor& y, const Dims& kept, const Dims& input) {
  return expand(reshape(y, kept), input);
}

}  // namespace rondo
