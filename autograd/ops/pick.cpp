// The reductions of reduce.h that choose elements (max, argmax, sort, topk) and those that test
// (all, any). In backward, the gradient of a chosen value goes to the element that was chosen.

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/reduced.h"
#include "autograd/ops/scatter.h"
#include "autograd/record.h"
#include "autograd/trace.h"
#include "tensor/creation.h"
#include "tensor/record_function.h"

namespace rondo {

namespace {

/// The node of ops that choose elements along dim: the gradient goes to the chosen elements.
struct PickBackward final : Node {
  const char* op;
  std::int64_t dim;
  SavedTensor indices;  // with size 1 at dim if that dimension was removed
  Dims input;
  PickBackward(const char* op, std::int64_t dim, const Tensor& indices, const Dims& input)
      : op(op), dim(dim), indices(indices), input(input) {}
  const char* name() const override { return op; }
  Tensors backward(const Tensors& dy) override {
    Tensor at = indices.get(*this);
    return {scatter_add(zeros(input, dy[0].options()), dim, at, reshape(dy[0], at.shape()))};
  }
  void release_saved() override { indices.reset(); }
  void attributes(AttributeVisitor& v) override { v.integers("dims", {dim}); }
};

ValuesAndIndices extremum(const char* op, bool largest, const Tensor& x, std::int64_t dim,
                          Flag keepdim) {
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

/// The gradient is shared among all elements that equal the result, or among all NaNs if it is NaN.
struct ExtremeBackward final : Node {
  const char* op;
  SavedTensor x, y;
  Dims dims, kept;  // kept: the result's shape with size 1 for each reduced dimension
  ExtremeBackward(const char* op, const Tensor& x, const Tensor& y, const Dims& dims,
                  const Dims& kept)
      : op(op), x(x), y(y, SavedTensor::output), dims(dims), kept(kept) {}
  const char* name() const override { return op; }
  Tensors backward(const Tensors& dy) override {
    Tensor x = this->x.get(*this), y = spread(this->y.get(*this), kept, x.shape());
    Tensor share = no_grad([&] {
      const Tensor hit = to(equal_or_both_nan(x, y), promote(x.dtype(), f32));
      return to(div(hit, sum_to(hit, kept)), x.dtype());
    });
    return {mul(share, spread(dy[0], kept, x.shape()))};
  }
  void release_saved() override {
    x.reset();
    y.reset();
  }
  void attributes(AttributeVisitor& v) override {
    if (!dims.empty()) v.integers("dims", dims);
  }
};

Tensor extreme(const char* op, ReductionOp kernel, const Tensor& x, const Dims& dims,
               Flag keepdim) {
  const Reduced shape = reduced(x, dims, keepdim, op);
  require<ShapeError>(shape.length > 0, op, ": the tensor ", x.shape(), " has no elements");
  Tensor y = renamed(reduce_kept(kernel, x, shape, x.dtype()), shape.result);
  Dims wrapped;
  for (const std::int64_t dim : dims) wrapped.push_back(wrap_dim(dim, x.dim(), op));
  return record<ExtremeBackward>({x}, y, op, x, y, wrapped, shape.kept);
}

}  // namespace

ValuesAndIndices max(const Tensor& x, std::int64_t dim, Flag keepdim) {
  const OpName op("max");
  return extremum("max", true, x, dim, keepdim);
}
ValuesAndIndices min(const Tensor& x, std::int64_t dim, Flag keepdim) {
  const OpName op("min");
  return extremum("min", false, x, dim, keepdim);
}
Tensor amax(const Tensor& x, const Dims& dims, Flag keepdim) {
  const OpName op("amax");
  return extreme("amax", ReductionOp::max, x, dims, keepdim);
}
Tensor amin(const Tensor& x, const Dims& dims, Flag keepdim) {
  const OpName op("amin");
  return extreme("amin", ReductionOp::min, x, dims, keepdim);
}
Tensor max(const Tensor& x) {
  const OpName op("max");
  return extreme("max", ReductionOp::max, x, {}, false);
}
Tensor min(const Tensor& x) {
  const OpName op("min");
  return extreme("min", ReductionOp::min, x, {}, false);
}
Tensor max(const Tensor& a, const Tensor& b) {
  const OpName op("max");
  return maximum(a, b);
}
Tensor min(const Tensor& a, const Tensor& b) {
  const OpName op("min");
  return minimum(a, b);
}

Tensor argmax(const Tensor& x) {
  const OpName op("argmax");
  NoGradGuard no_grad;
  return extremum("argmax", true, reshape(x, {x.numel()}), 0, false).indices;
}
Tensor argmin(const Tensor& x) {
  const OpName op("argmin");
  NoGradGuard no_grad;
  return extremum("argmin", false, reshape(x, {x.numel()}), 0, false).indices;
}
Tensor argmax(const Tensor& x, std::int64_t dim, Flag keepdim) {
  const OpName op("argmax");
  NoGradGuard no_grad;
  return extremum("argmax", true, x, dim, keepdim).indices;
}
Tensor argmin(const Tensor& x, std::int64_t dim, Flag keepdim) {
  const OpName op("argmin");
  NoGradGuard no_grad;
  return extremum("argmin", false, x, dim, keepdim).indices;
}

Tensor all(const Tensor& x, const Dims& dims, Flag keepdim) {
  const OpName op("all");
  const Reduced shape = reduced(x, dims, keepdim, "all");
  return renamed(reduce_kept(ReductionOp::all, x, shape, boolean), shape.result);
}
Tensor any(const Tensor& x, const Dims& dims, Flag keepdim) {
  const OpName op("any");
  const Reduced shape = reduced(x, dims, keepdim, "any");
  return renamed(reduce_kept(ReductionOp::any, x, shape, boolean), shape.result);
}

ValuesAndIndices sort(const Tensor& x, std::int64_t dim, bool descending) {
  const OpName op("sort");
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
  const OpName op("topk");
  dim = wrap_dim(dim, x.dim(), "topk");
  if (x.dim() == 0) {  // as a 1-dim tensor of one element; k = 0 also returns it, as in PyTorch
    require<ShapeError>(k == 0 || k == 1, "topk: k = ", k, " of a tensor of one element");
    ValuesAndIndices y = topk(reshape(x, {1}), 1, 0, largest);
    return {reshape(y.values, {}), reshape(y.indices, {})};
  }
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
