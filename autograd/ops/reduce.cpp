// Reductions: the kernels keep reduced dimensions as size 1; dropping them is a change of shape.
// Backwards, a sum spreads its gradient, a choice (max, sort) sends it to where the value was.

#include "autograd/ops/reduce.h"

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "autograd/record.h"
#include "tensor/backend.h"
#include "tensor/creation.h"

namespace rondo {
namespace {

/// What a reduction does to a shape.
struct Reduced {
  Dims kept;            // with size 1 where it reduces
  Dims result;          // without those, unless keepdim
  std::int64_t length;  // elements that go into each result
};

Reduced reduced(const Tensor& x, const Dims& dims, bool keepdim, const char* op) {
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

/// The other name of a dense result: the same elements, other sizes of 1.
Tensor renamed(const Tensor& y, const Dims& sizes) {
  return y.as_view(sizes, strides_of(sizes), y.storage_offset());
}

/// x reduced as `shape` says, in the given dtype, off the tape; sizes of 1 kept.
Tensor reduce_kept(ReduceOp op, const Tensor& x, const Reduced& shape, DType dtype) {
  Tensor y = Tensor::empty(shape.kept, {.dtype = dtype, .device = x.device()});
  backend(x).reduce(op, x, y);
  return y;
}

/// Sums in 16 bits overflow (f16 ends at 65504) before a division or a root could bring them back.
Tensor widened(const Tensor& x) { return size_of(x.dtype()) == 2 ? to(x, f32) : x; }

void require_float(const Tensor& x, const char* op) {
  require<DTypeError>(is_floating(x.dtype()), op, ": the input is ", x.dtype(),
                      "; convert it to a float first");
}

/// Puts the reduced dimensions back as size 1 and repeats the values over the input's shape.
Tensor spread(const Tensor& y, const Dims& kept, const Dims& input) {
  return expand(reshape(y, kept), input);
}

struct SumBackward final : Node {
  Dims kept, input;
  SumBackward(const Dims& kept, const Dims& input) : kept(kept), input(input) {}
  const char* name() const override { return "sum"; }
  Tensors backward(const Tensors& dy) override { return {spread(dy[0], kept, input)}; }
};

struct MeanBackward final : Node {
  Dims kept, input;
  std::int64_t length;
  MeanBackward(const Reduced& shape, const Dims& input)
      : kept(shape.kept), input(input), length(shape.length) {}
  const char* name() const override { return "mean"; }
  Tensors backward(const Tensors& dy) override {
    return {spread(div(dy[0], static_cast<double>(length)), kept, input)};
  }
};

}  // namespace

Tensor sum(const Tensor& x, const Dims& dims, bool keepdim) {
  Reduced shape = reduced(x, dims, keepdim, "sum");
  DType dtype = is_floating(x.dtype()) ? x.dtype() : i64;
  Tensor y = renamed(reduce_kept(ReduceOp::sum, x, shape, dtype), shape.result);
  return record<SumBackward>({x}, y, shape.kept, x.shape());
}

Tensor mean(const Tensor& x, const Dims& dims, bool keepdim) {
  require_float(x, "mean");
  Reduced shape = reduced(x, dims, keepdim, "mean");
  Tensor y = no_grad([&] {
    Tensor wide = widened(x);
    Tensor total = reduce_kept(ReduceOp::sum, wide, shape, wide.dtype());
    return to(renamed(div(total, static_cast<double>(shape.length)), shape.result), x.dtype());
  });
  return record<MeanBackward>({x}, y, shape, x.shape());
}

namespace {

/// The variance of x, which is not of 16 bits, in recording ops.
Tensor variance(const Tensor& x, const Dims& dims, std::int64_t correction, bool keepdim) {
  Tensor deviation = sub(x, mean(x, dims, true));
  const std::int64_t length = reduced(x, dims, keepdim, "var").length;
  auto degrees = static_cast<double>(std::max<std::int64_t>(length - correction, 0));
  return div(sum(square(deviation), dims, keepdim), degrees);
}

/// d sqrt(v) = dv / (2 y), and 0 where y is: a constant input has no direction to move in.
struct StdBackward final : Node {
  SavedTensor y;
  explicit StdBackward(const Tensor& y) : y(y, SavedTensor::output) {}
  const char* name() const override { return "std"; }
  Tensors backward(const Tensors& dy) override {
    Tensor y = this->y.get(*this);
    return {masked_fill(div(dy[0], mul(y, 2.0)), eq(y, 0.0), 0.0)};
  }
  void release_saved() override { y.reset(); }
};

}  // namespace

Tensor var(const Tensor& x, const Dims& dims, std::int64_t correction, bool keepdim) {
  require_float(x, "var");
  return to(variance(widened(x), dims, correction, keepdim), x.dtype());
}

Tensor std(const Tensor& x, const Dims& dims, std::int64_t correction, bool keepdim) {
  require_float(x, "std");
  Tensor squared = variance(widened(x), dims, correction, keepdim);
  Tensor y = apply_unary(UnaryOp::sqrt, squared);
  return to(record<StdBackward>({squared}, y, y), x.dtype());
}

Tensor prod(const Tensor& x) {
  if (!is_floating(x.dtype()) || x.numel() == 0) {
    Reduced shape = reduced(x, {}, false, "prod");
    DType dtype = is_floating(x.dtype()) ? x.dtype() : i64;
    return renamed(reduce_kept(ReduceOp::prod, x, shape, dtype), {});
  }
  // A tree of products of halves: its derivatives, of any order, are right where elements are zero,
  // which y / x is not.
  Tensor y = reshape(widened(x), {x.numel()});
  while (y.numel() > 1) {
    std::int64_t half = y.numel() / 2;
    Tensor pairs = mul(narrow(y, 0, 0, half), narrow(y, 0, half, half));
    y = y.numel() % 2 == 0 ? pairs : cat({pairs, narrow(y, 0, 2 * half, 1)});
  }
  return to(reshape(y, {}), x.dtype());
}

namespace {

/// d |x| = x dy / |x|, and 0 where |x| is.
struct NormBackward final : Node {
  SavedTensor x, y;
  Dims kept;
  NormBackward(const Tensor& x, const Tensor& y, const Dims& kept)
      : x(x), y(y, SavedTensor::output), kept(kept) {}
  const char* name() const override { return "norm"; }
  Tensors backward(const Tensors& dy) override {
    Tensor x = this->x.get(*this), y = this->y.get(*this);
    Tensor scale = masked_fill(div(dy[0], y), eq(y, 0.0), 0.0);
    return {mul(x, spread(scale, kept, x.shape()))};
  }
  void release_saved() override {
    x.reset();
    y.reset();
  }
};

}  // namespace

Tensor norm(const Tensor& x, const Dims& dims, bool keepdim) {
  require_float(x, "norm");
  Reduced shape = reduced(x, dims, keepdim, "norm");
  Tensor y = no_grad([&] {
    Tensor wide = widened(x);
    Tensor squares = reduce_kept(ReduceOp::sum_squares, wide, shape, wide.dtype());
    return to(renamed(sqrt(squares), shape.result), x.dtype());
  });
  return record<NormBackward>({x}, y, x, y, shape.kept);
}

namespace {

/// dx = dy exp(x - y), the softmax of x.
struct LogSumExpBackward final : Node {
  SavedTensor x, y;
  Dims kept;
  LogSumExpBackward(const Tensor& x, const Tensor& y, const Dims& kept)
      : x(x), y(y, SavedTensor::output), kept(kept) {}
  const char* name() const override { return "logsumexp"; }
  Tensors backward(const Tensors& dy) override {
    Tensor x = this->x.get(*this), y = this->y.get(*this);
    Tensor softmax = exp(sub(x, spread(y, kept, x.shape())));
    return {mul(softmax, spread(dy[0], kept, x.shape()))};
  }
  void release_saved() override {
    x.reset();
    y.reset();
  }
};

}  // namespace

Tensor logsumexp(const Tensor& x, const Dims& dims, bool keepdim) {
  require_float(x, "logsumexp");
  Reduced shape = reduced(x, dims, keepdim, "logsumexp");
  Tensor y = no_grad([&] {
    if (x.numel() == 0) return log(sum(x, dims, keepdim));
    Tensor wide = widened(x);
    Tensor top = reduce_kept(ReduceOp::max, wide, shape, wide.dtype());
    top = masked_fill(top, isinf(top), 0.0);  // inf - inf would be NaN
    Tensor total = reduce_kept(ReduceOp::sum, exp(sub(wide, top)), shape, wide.dtype());
    return to(renamed(add(log(total), top), shape.result), x.dtype());
  });
  return record<LogSumExpBackward>({x}, y, x, y, shape.kept);
}

namespace {

Tensor running_sum(const Tensor& x, std::int64_t dim, bool reverse);

/// The transpose of a running sum runs from the other end.
struct CumsumBackward final : Node {
  std::int64_t dim;
  bool reverse;
  CumsumBackward(std::int64_t dim, bool reverse) : dim(dim), reverse(reverse) {}
  const char* name() const override { return "cumsum"; }
  Tensors backward(const Tensors& dy) override { return {running_sum(dy[0], dim, !reverse)}; }
};

Tensor running_sum(const Tensor& x, std::int64_t dim, bool reverse) {
  Tensor y = Tensor::empty_like(x);
  backend(x).cumsum(x, dim, reverse, y);
  return record<CumsumBackward>({x}, y, dim, reverse);
}

}  // namespace

Tensor cumsum(const Tensor& x, std::int64_t dim) {
  dim = wrap_dim(dim, x.dim(), "cumsum");
  if (x.dim() == 0) return reshape(cumsum(reshape(x, {1}), 0), {});
  return running_sum(is_floating(x.dtype()) ? x : to(x, i64), dim, false);
}

namespace {

/// Of the ops that pick elements along dim: the gradient goes back to where they were.
struct PickBackward final : Node {
  const char* op;
  std::int64_t dim;
  SavedTensor indices;  // with size 1 at dim where that dimension was dropped
  Dims input;
  PickBackward(const char* op, std::int64_t dim, const Tensor& indices, const Dims& input)
      : op(op), dim(dim), indices(indices), input(input) {}
  const char* name() const override { return op; }
  Tensors backward(const Tensors& dy) override {
    Tensor at = indices.get(*this);
    return {scatter_add(zeros(input, dy[0].options()), dim, at, reshape(dy[0], at.shape()))};
  }
  void release_saved() override { indices.reset(); }
};

ValuesAndIndices extremum(const char* op, bool largest, const Tensor& x, std::int64_t dim,
                          bool keepdim) {
  dim = wrap_dim(dim, x.dim(), op);
  if (x.dim() == 0) {
    ValuesAndIndices y = extremum(op, largest, reshape(x, {1}), 0, false);
    return y;
  }
  require<ShapeError>(x.size(dim) > 0, op, ": dimension ", dim, " of shape ", x.shape(),
                      " has no elements");
  Reduced shape = reduced(x, {dim}, keepdim, op);
  Tensor values = Tensor::empty(shape.kept, x.options());
  Tensor indices = Tensor::empty(shape.kept, {.dtype = i64, .device = x.device()});
  backend(x).extremum(largest, x, dim, values, indices);
  Tensor y = record<PickBackward>({x}, renamed(values, shape.result), op, dim, indices, x.shape());
  return {y, renamed(indices, shape.result)};
}

/// The gradient is shared among all elements that equal the result.
struct ExtremumOfAllBackward final : Node {
  const char* op;
  SavedTensor x, y;
  ExtremumOfAllBackward(const char* op, const Tensor& x, const Tensor& y)
      : op(op), x(x), y(y, SavedTensor::output) {}
  const char* name() const override { return op; }
  Tensors backward(const Tensors& dy) override {
    Tensor x = this->x.get(*this), y = this->y.get(*this);
    Tensor share = no_grad([&] {
      Tensor hit = to(eq(x, expand(y, x.shape())), x.dtype());
      return div(hit, sum(to(hit, promote(x.dtype(), f32))));
    });
    return {mul(share, expand(dy[0], x.shape()))};
  }
  void release_saved() override {
    x.reset();
    y.reset();
  }
};

Tensor extremum_of_all(const char* op, ReduceOp kernel, const Tensor& x) {
  require<ShapeError>(x.numel() > 0, op, ": the tensor ", x.shape(), " has no elements");
  Tensor y = renamed(reduce_kept(kernel, x, reduced(x, {}, false, op), x.dtype()), {});
  return record<ExtremumOfAllBackward>({x}, y, op, x, y);
}

}  // namespace

ValuesAndIndices max(const Tensor& x, std::int64_t dim, bool keepdim) {
  return extremum("max", true, x, dim, keepdim);
}
ValuesAndIndices min(const Tensor& x, std::int64_t dim, bool keepdim) {
  return extremum("min", false, x, dim, keepdim);
}
Tensor max(const Tensor& x) { return extremum_of_all("max", ReduceOp::max, x); }
Tensor min(const Tensor& x) { return extremum_of_all("min", ReduceOp::min, x); }

Tensor argmax(const Tensor& x, std::int64_t dim, bool keepdim) {
  NoGradGuard no_grad;
  return extremum("argmax", true, x, dim, keepdim).indices;
}
Tensor argmin(const Tensor& x, std::int64_t dim, bool keepdim) {
  NoGradGuard no_grad;
  return extremum("argmin", false, x, dim, keepdim).indices;
}

Tensor all(const Tensor& x) {
  return renamed(reduce_kept(ReduceOp::all, x, reduced(x, {}, false, "all"), boolean), {});
}
Tensor any(const Tensor& x) {
  return renamed(reduce_kept(ReduceOp::any, x, reduced(x, {}, false, "any"), boolean), {});
}

ValuesAndIndices sort(const Tensor& x, std::int64_t dim, bool descending) {
  dim = wrap_dim(dim, x.dim(), "sort");
  if (x.dim() == 0) {
    ValuesAndIndices y = sort(reshape(x, {1}), 0, descending);
    return {reshape(y.values, {}), reshape(y.indices, {})};
  }
  Tensor values = Tensor::empty(x.shape(), x.options());
  Tensor indices = Tensor::empty(x.shape(), {.dtype = i64, .device = x.device()});
  backend(x).sort(x, dim, descending, values, indices);
  return {record<PickBackward>({x}, values, "sort", dim, indices, x.shape()), indices};
}

ValuesAndIndices topk(const Tensor& x, std::int64_t k, std::int64_t dim, bool largest) {
  require<ShapeError>(x.dim() > 0, "topk: the tensor has no dimensions");
  dim = wrap_dim(dim, x.dim(), "topk");
  require<ShapeError>(k >= 0 && k <= x.size(dim), "topk: k = ", k, " is not within dimension ", dim,
                      " of shape ", x.shape());
  Dims sizes = x.shape();
  sizes[dim] = k;
  Tensor values = Tensor::empty(sizes, x.options());
  Tensor indices = Tensor::empty(sizes, {.dtype = i64, .device = x.device()});
  backend(x).topk(x, dim, largest, values, indices);
  return {record<PickBackward>({x}, values, "topk", dim, indices, x.shape()), indices};
}

}  // namespace rondo
