// Shape: results that strides can express are views; only contiguous, flip and a reshape across
// strides copy elements (cat.cpp: tensors that are joined and split). The backward of each op is
// again one of these ops.

#include "autograd/ops/shape.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "autograd/ops/arithmetic.h"
#include "autograd/record.h"
#include "autograd/trace.h"
#include "tensor/backend.h"
#include "tensor/record_function.h"

namespace rondo {
namespace {

/// Strides that read x, in row-major order, with another shape; nullopt if only a copy can do it.
/// Walks both shapes from the front: a run of old sizes and a run of new sizes with equal products
/// describe the same elements, and the elements of the old run must be evenly spaced.
std::optional<Dims> strides_for(const Tensor& x, const Dims& sizes) {
  if (x.numel() == 0) return strides_of(sizes);
  Dims old_sizes, old_strides;  // without sizes of 1, whose strides do not matter
  for (std::int64_t i = 0; i < x.dim(); ++i) {
    if (x.shape()[i] == 1) continue;
    old_sizes.push_back(x.shape()[i]);
    old_strides.push_back(x.strides()[i]);
  }
  Dims strides = Dims::filled(sizes.size(), 1);
  std::int64_t from = 0, to = 0;
  while (from < old_sizes.size()) {
    std::int64_t from_end = from + 1, to_end = to + 1;
    std::int64_t old_product = old_sizes[from], new_product = sizes[to];
    while (old_product != new_product) {
      if (new_product < old_product) {
        new_product *= sizes[to_end++];
      } else {
        old_product *= old_sizes[from_end++];
      }
    }
    for (std::int64_t i = from; i + 1 < from_end; ++i) {
      if (old_strides[i] != old_sizes[i + 1] * old_strides[i + 1]) return std::nullopt;
    }
    std::int64_t step = old_strides[from_end - 1];
    for (std::int64_t i = to_end - 1; i >= to; --i) {
      strides[i] = step;
      step *= sizes[i];
    }
    from = from_end;
    to = to_end;
  }
  return strides;  // remaining sizes are all 1
}

/// Replaces one -1 by the size that gives the correct number of elements.
Dims infer_size(const Tensor& x, Dims sizes, const char* op) {
  CheckedSize known(1, op);
  std::int64_t unknown = -1;
  for (std::int64_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == -1) {
      require<ShapeError>(unknown < 0, op, ": only one size of ", sizes, " can be -1");
      unknown = i;
    } else {
      require<ShapeError>(sizes[i] >= 0, op, ": shape ", sizes, " has the size ", sizes[i]);
      known = known * sizes[i];
    }
  }
  if (unknown >= 0) {
    const std::int64_t n = known.value();
    require<ShapeError>(n != 0 && x.numel() % n == 0, op, ": shape ", sizes, " does not fit the ",
                        x.numel(), " elements of ", x.shape());
    sizes[unknown] = x.numel() / n;
  } else {
    require<ShapeError>(numel_of(sizes) == x.numel(), op, ": shape ", sizes, " has ",
                        numel_of(sizes), " elements, the tensor ", x.shape(), " has ", x.numel());
  }
  return sizes;
}

Dims wrap_dims(const Dims& dims, std::int64_t rank, const char* op) {
  Dims wrapped;
  for (std::int64_t dim : dims) {
    dim = wrap_dim(dim, rank, op);
    for (std::int64_t other : wrapped) {
      require<ShapeError>(dim != other, op, ": dimension ", dim, " appears twice in ", dims);
    }
    wrapped.push_back(dim);
  }
  return wrapped;
}

/// The node of every op that only changes the sizes: reshape, view, squeeze, unsqueeze.
struct ReshapeBackward final : Node {
  const char* op;
  Dims input;
  ReshapeBackward(const char* op, const Dims& input) : op(op), input(input) {}
  const char* name() const override { return op; }
  Tensors backward(const Tensors& dy) override { return {reshape(dy[0], input)}; }
};

Tensor renamed(const char* op, const Tensor& x, const Dims& sizes, const Dims& strides) {
  return record_view<ReshapeBackward>(x, x.as_view(sizes, strides, x.storage_offset()), op,
                                      x.shape());
}

/// A dense copy in the given dtype and memory format, not recorded.
Tensor copied(const Tensor& x, DType dtype, MemoryFormat format) {
  Tensor y = Tensor::empty(x.shape(), {.dtype = dtype, .device = x.device(), .format = format});
  backend(x).copy(x, y);
  return y;
}

}  // namespace

Tensor reshape(const Tensor& x, const Dims& shape) {
  const OpName op("reshape");
  Dims sizes = infer_size(x, shape, "reshape");
  if (auto strides = strides_for(x, sizes)) return renamed("reshape", x, sizes, *strides);
  Tensor dense = copied(x, x.dtype(), MemoryFormat::contiguous);
  Tensor y = dense.as_view(sizes, strides_of(sizes), 0);
  return record<ReshapeBackward>({x}, y, "reshape", x.shape());
}

Tensor view(const Tensor& x, const Dims& shape) {
  const OpName op("view");
  Dims sizes = infer_size(x, shape, "view");
  auto strides = strides_for(x, sizes);
  require<ShapeError>(strides.has_value(), "view: shape ", sizes,
                      " cannot be laid over a tensor of shape ", x.shape(), " and strides ",
                      x.strides(), " without a copy; use reshape");
  return renamed("view", x, sizes, *strides);
}

Tensor flatten(const Tensor& x, std::int64_t start_dim, std::int64_t end_dim) {
  const OpName op("flatten");
  if (x.dim() == 0) return reshape(x, {1});
  std::int64_t start = wrap_dim(start_dim, x.dim(), "flatten");
  std::int64_t end = wrap_dim(end_dim, x.dim(), "flatten");
  require<ShapeError>(start <= end, "flatten: start_dim ", start_dim, " comes after end_dim ",
                      end_dim, " in a tensor of ", x.dim(), " dimensions");
  Dims sizes(x.shape().begin(), x.shape().begin() + start);
  sizes.push_back(numel_of(Dims(x.shape().begin() + start, x.shape().begin() + end + 1)));
  for (std::int64_t i = end + 1; i < x.dim(); ++i) sizes.push_back(x.shape()[i]);
  return reshape(x, sizes);
}

Tensor squeeze(const Tensor& x, std::int64_t dim) {
  const OpName op("squeeze");
  dim = wrap_dim(dim, x.dim(), "squeeze");
  Dims sizes = x.shape(), strides = x.strides();
  if (x.dim() > 0 && sizes[dim] == 1) {
    sizes.erase(dim);
    strides.erase(dim);
  }
  return renamed("squeeze", x, sizes, strides);
}
Tensor squeeze(const Tensor& x) {
  const OpName op("squeeze");
  Dims sizes;
  for (const std::int64_t size : x.shape()) {
    if (size != 1) sizes.push_back(size);
  }
  return view(x, sizes);
}

Tensor unsqueeze(const Tensor& x, std::int64_t dim) {
  const OpName op("unsqueeze");
  dim = wrap_dim(dim, x.dim() + 1, "unsqueeze");
  Dims sizes = x.shape(), strides = x.strides();
  std::int64_t stride = dim < x.dim() ? sizes[dim] * strides[dim] : 1;
  sizes.insert(dim, 1);
  strides.insert(dim, stride);
  return renamed("unsqueeze", x, sizes, strides);
}

namespace {
struct ExpandBackward final : Node {
  Dims input;
  explicit ExpandBackward(const Dims& input) : input(input) {}
  const char* name() const override { return "expand"; }
  Tensors backward(const Tensors& dy) override { return {sum_to(dy[0], input)}; }
};
}  // namespace

Tensor expand(const Tensor& x, const Dims& shape) {
  const OpName op("expand");
  Dims sizes = shape;
  std::int64_t added = sizes.size() - x.dim();
  const char* const called = OpName::called("expand");  // index_put_ and others expand, too
  require<ShapeError>(added >= 0, called, ": shape ", shape, " has fewer dimensions than ",
                      x.shape());
  for (std::int64_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == -1) {
      require<ShapeError>(i >= added, "expand: -1 is not allowed for the new dimension ", i, " of ",
                          shape);
      sizes[i] = x.shape()[i - added];
    }
    std::int64_t old = i < added ? 1 : x.shape()[i - added];
    require<ShapeError>(sizes[i] >= 0 && (old == 1 || old == sizes[i]), called, ": shape ",
                        x.shape(), " does not expand to ", shape, ": size ", old, " at dimension ",
                        i);
  }
  numel_of(sizes);  // throws if the number of elements does not fit
  return record_view<ExpandBackward>(x, x.broadcast_view(sizes), x.shape());
}

namespace {
struct PermuteBackward final : Node {
  Dims order;
  explicit PermuteBackward(const Dims& order) : order(order) {}
  const char* name() const override { return "permute"; }
  Tensors backward(const Tensors& dy) override {
    Dims inverse = order;
    for (std::int64_t i = 0; i < order.size(); ++i) inverse[order[i]] = i;
    return {permute(dy[0], inverse)};
  }
  void attributes(AttributeVisitor& v) override { v.integers("order", order); }
};
}  // namespace

Tensor permute(const Tensor& x, const Dims& dims) {
  const OpName op("permute");
  require<ShapeError>(dims.size() == x.dim(), "permute: order ", dims, " names ", dims.size(),
                      " dimensions, the tensor ", x.shape(), " has ", x.dim());
  Dims order = wrap_dims(dims, x.dim(), "permute"), sizes, strides;
  for (std::int64_t dim : order) {
    sizes.push_back(x.shape()[dim]);
    strides.push_back(x.strides()[dim]);
  }
  return record_view<PermuteBackward>(x, x.as_view(sizes, strides, x.storage_offset()), order);
}

Tensor transpose(const Tensor& x, std::int64_t a, std::int64_t b) {
  const OpName op("transpose");
  a = wrap_dim(a, x.dim(), "transpose");
  b = wrap_dim(b, x.dim(), "transpose");
  Dims order;
  for (std::int64_t i = 0; i < x.dim(); ++i) order.push_back(i == a ? b : i == b ? a : i);
  return permute(x, order);
}

namespace {
struct FlipBackward final : Node {
  Dims dims;
  explicit FlipBackward(const Dims& dims) : dims(dims) {}
  const char* name() const override { return "flip"; }
  Tensors backward(const Tensors& dy) override { return {flip(dy[0], dims)}; }
  void attributes(AttributeVisitor& v) override { v.integers("dims", dims); }
};
}  // namespace

Tensor flip(const Tensor& x, const Dims& dims) {
  const OpRange op("flip");
  Dims flipped = wrap_dims(dims, x.dim(), "flip");
  // Copies into y read backwards. Inside a kernel strides may be negative, although no op returns
  // such a tensor.
  Tensor y = Tensor::empty_like(x);
  Dims strides = y.strides();
  std::int64_t offset = 0;
  if (x.numel() > 0 && x.dim() > 0) {
    for (std::int64_t dim : flipped) {
      offset += (y.shape()[dim] - 1) * strides[dim];
      strides[dim] = -strides[dim];
    }
  }
  backend(x).copy(x, y.as_view(y.shape(), strides, offset));
  return record<FlipBackward>({x}, y, flipped);
}

namespace {
/// The node of ops that copy elements one to one.
struct CopyBackward final : Node {
  const char* op;
  explicit CopyBackward(const char* op) : op(op) {}
  const char* name() const override { return op; }
  Tensors backward(const Tensors& dy) override { return {dy[0]}; }
};

struct ToDTypeBackward final : Node {
  DType from;
  explicit ToDTypeBackward(DType from) : from(from) {}
  const char* name() const override { return "to(dtype)"; }
  Tensors backward(const Tensors& dy) override { return {to(dy[0], from)}; }
};

struct ToDeviceBackward final : Node {
  Device from;
  explicit ToDeviceBackward(Device from) : from(from) {}
  const char* name() const override { return "to(device)"; }
  Tensors backward(const Tensors& dy) override { return {to(dy[0], from)}; }
};
}  // namespace

Tensor contiguous(const Tensor& x, MemoryFormat format) {
  const OpName op("contiguous");
  require<ShapeError>(
      format != MemoryFormat::channels_last || x.dim() == 4,
      "contiguous: channels_last is a layout of 4 dimensions, the tensor has shape ", x.shape());
  if (x.is_contiguous(format)) return x;
  return record<CopyBackward>({x}, copied(x, x.dtype(), format), "contiguous");
}

Tensor clone(const Tensor& x) {
  const OpName op("clone");
  return record<CopyBackward>({x}, copied(x, x.dtype(), x.suggested_format()), "clone");
}

Tensor detail::as_result(const Tensor& y, const Tensor& x) {
  return y.storage() == x.storage() || repeats_elements(y.shape(), y.strides()) ? clone(y) : y;
}

Tensor to(const Tensor& x, DType dtype) {
  const OpName op("to");
  if (x.dtype() == dtype) return x;
  Tensor y = copied(x, dtype, x.suggested_format());
  return is_floating(dtype) ? record<ToDTypeBackward>({x}, y, x.dtype()) : y;
}

Tensor to(const Tensor& x, Device device) {
  const OpName op("to");
  if (x.device() == device) return x;
  Tensor y = Tensor::empty(x.shape(),
                           {.dtype = x.dtype(), .device = device, .format = x.suggested_format()});
  // The GPU's backend can access both memories.
  backend(device.is_cpu() ? x.device() : device).copy(x, y);
  return record<ToDeviceBackward>({x}, y, x.device());
}

}  // namespace rondo
