// Indexing. Selecting elements is linear, and its transpose adds gradients at the places where the
// elements came from. Each pair (a part and its part_backward, index_select and
// index_select_backward, gather and scatter_add) is closed under differentiation.

#include "autograd/ops/indexing.h"

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/scatter.h"
#include "autograd/ops/shape.h"
#include "autograd/record.h"
#include "autograd/trace.h"
#include "tensor/backend.h"
#include "tensor/creation.h"
#include "tensor/record_function.h"

namespace rondo {
namespace {

/// Elements start, start + step, … along dim; `length` of them.
struct SlicedRange {
  static constexpr const char* backward_name = "slice_backward";
  std::int64_t dim, start, step, length;

  Tensor of(const Tensor& x) const {
    Dims sizes = x.shape(), strides = x.strides();
    sizes[dim] = length;
    if (length > 1) strides[dim] *= step;  // else a step may exceed all sizes
    const std::int64_t skipped = length > 0 ? start * x.strides()[dim] : 0;
    return x.as_view(sizes, strides, x.storage_offset() + skipped);
  }
  void attributes(AttributeVisitor& v) const {
    v.integer("dim", dim);
    v.integer("start", start);
    v.integer("step", step);
  }
};

/// Elements (i, i + offset) of dimensions a and b, as a last dimension.
struct Diagonal {
  static constexpr const char* backward_name = "diagonal_backward";
  std::int64_t offset, a, b;

  Tensor of(const Tensor& x) const {
    const std::int64_t below = std::max<std::int64_t>(-offset, 0),
                       right = std::max<std::int64_t>(offset, 0);
    const std::int64_t n =
        std::max<std::int64_t>(0, std::min(x.size(a) - below, x.size(b) - right));
    Dims sizes, strides;
    for (std::int64_t d = 0; d < x.dim(); ++d) {
      if (d == a || d == b) continue;
      sizes.push_back(x.size(d));
      strides.push_back(x.stride(d));
    }
    sizes.push_back(n);
    strides.push_back(x.stride(a) + x.stride(b));
    const std::int64_t skipped = n > 0 ? below * x.stride(a) + right * x.stride(b) : 0;
    return x.as_view(sizes, strides, x.storage_offset() + skipped);
  }
  void attributes(AttributeVisitor& v) const {
    v.integer("offset", offset);
    v.integer("dim1", a);
    v.integer("dim2", b);
  }
};

template <class Part>
Tensor part_of(const char* op, const Tensor& x, const Part& part);

/// Its derivative is the part again.
template <class Part>
struct PartBackwardBackward final : Node {
  Part part;
  explicit PartBackwardBackward(const Part& part) : part(part) {}
  const char* name() const override { return Part::backward_name; }
  Tensors backward(const Tensors& dy) override { return {part_of("slice", dy[0], part)}; }
};

/// Zeros of shape `sizes` with dy where the part was.
template <class Part>
Tensor part_backward(const Tensor& dy, const Dims& sizes, const Part& part) {
  Tensor dx = zeros(sizes, dy.options());
  backend(dy).copy(dy, part.of(dx));
  return record<PartBackwardBackward<Part>>({dy}, dx, part);
}

template <class Part>
struct PartBackward final : Node {
  const char* op;
  Dims input;
  Part part;
  PartBackward(const char* op, const Dims& input, const Part& part)
      : op(op), input(input), part(part) {}
  const char* name() const override { return op; }
  Tensors backward(const Tensors& dy) override { return {part_backward(dy[0], input, part)}; }
  void attributes(AttributeVisitor& v) override { part.attributes(v); }
};

/// The elements that `part` chooses, as a view.
template <class Part>
Tensor part_of(const char* op, const Tensor& x, const Part& part) {
  return record_view<PartBackward<Part>>(x, part.of(x), op, x.shape(), part);
}

void require_index(const Tensor& index, const char* op) {
  require<DTypeError>(index.dtype() == i64, op, ": the index is ", index.dtype(),
                      ", not i64 or i32");
}

}  // namespace

Tensor select(const Tensor& x, std::int64_t dim, std::int64_t index) {
  const OpName op("select");
  require<ShapeError>(x.dim() > 0, "select: a tensor without dimensions has nothing to select");
  dim = wrap_dim(dim, x.dim(), "select");
  std::int64_t n = x.size(dim), i = index < 0 ? index + n : index;
  // x[{5}] and index_put_ select, too.
  require<ShapeError>(n > 0, OpName::called("select"), ": dimension ", dim, " of shape ", x.shape(),
                      " is empty");
  require<ShapeError>(i >= 0 && i < n, OpName::called("select"), ": index ", index,
                      " is out of range for dimension ", dim, " of shape ", x.shape(),
                      " (valid: ", -n, " to ", n - 1, ")");
  return squeeze(part_of("select", x, SlicedRange{dim, i, 1, 1}), dim);
}

Tensor narrow(const Tensor& x, std::int64_t dim, std::int64_t start, std::int64_t length) {
  const OpName op("narrow");
  require<ShapeError>(x.dim() > 0, "narrow: a tensor without dimensions cannot be narrowed");
  dim = wrap_dim(dim, x.dim(), "narrow");
  std::int64_t n = x.size(dim), from = start < 0 ? start + n : start;
  require<ShapeError>(from >= 0 && length >= 0 && from <= n && length <= n - from, "narrow: start ",
                      start, " and length ", length, " do not fit dimension ", dim, " of shape ",
                      x.shape());
  return part_of("narrow", x, SlicedRange{dim, from, 1, length});
}

Tensor slice(const Tensor& x, std::int64_t dim, std::int64_t start, std::int64_t end,
             std::int64_t step) {
  const OpName op("slice");
  require<ShapeError>(x.dim() > 0, "slice: a tensor without dimensions cannot be sliced");
  require<ShapeError>(step > 0, OpName::called("slice"), ": step ", step, " is not positive");
  dim = wrap_dim(dim, x.dim(), "slice");
  std::int64_t n = x.size(dim);
  auto clamped = [n](std::int64_t i) {
    return std::clamp<std::int64_t>(i < 0 ? i + n : i, 0, n);  // positions past the end become the
                                                               // end
  };
  std::int64_t from = clamped(start), length = std::max<std::int64_t>(clamped(end) - from, 0);
  return part_of("slice", x, SlicedRange{dim, from, step, length / step + (length % step != 0)});
}

Tensor diagonal(const Tensor& x, std::int64_t offset, std::int64_t dim1, std::int64_t dim2) {
  const OpName op("diagonal");
  require<ShapeError>(x.dim() >= 2, "diagonal: expected at least 2 dimensions, got ", x.shape());
  const std::int64_t a = wrap_dim(dim1, x.dim(), "diagonal"),
                     b = wrap_dim(dim2, x.dim(), "diagonal");
  require<ShapeError>(a != b, "diagonal: the dimensions ", dim1, " and ", dim2, " are the same");
  return part_of("diagonal", x, Diagonal{offset, a, b});
}

namespace {

struct IndexAddBackward final : Node {
  std::int64_t dim;
  SavedTensor index;
  IndexAddBackward(std::int64_t dim, const Tensor& index) : dim(dim), index(index) {}
  const char* name() const override { return "index_select_backward"; }
  Tensors backward(const Tensors& dy) override {
    return {index_select(dy[0], dim, index.get(*this))};
  }
  void release_saved() override { index.reset(); }
};

/// Zeros of shape `sizes`, with row i of dy added to row index[i].
Tensor index_select_backward(const Tensor& dy, std::int64_t dim, const Tensor& index,
                             const Dims& sizes) {
  Tensor dx = zeros(sizes, dy.options());
  backend(dy).index_scatter(ScatterOp::add, dx, dim, index, dy);
  return record<IndexAddBackward>({dy}, dx, dim, index);
}

struct IndexSelectBackward final : Node {
  std::int64_t dim;
  SavedTensor index;
  Dims input;
  IndexSelectBackward(std::int64_t dim, const Tensor& index, const Dims& input)
      : dim(dim), index(index), input(input) {}
  const char* name() const override { return "index_select"; }
  Tensors backward(const Tensors& dy) override {
    return {index_select_backward(dy[0], dim, index.get(*this), input)};
  }
  void release_saved() override { index.reset(); }
  void attributes(AttributeVisitor& v) override {
    v.integer("dim", dim);
    v.tensor("index", index.get(*this));
  }
};

}  // namespace

Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index) {
  const OpRange op("index_select");
  if (x.dim() == 0) {  // as a 1-dim tensor of one element
    require<ShapeError>(index.numel() == 1, "index_select: the tensor has no dimensions, so the ",
                        "index must have one value, not the shape ", index.shape());
    return reshape(index_select(reshape(x, {1}), dim, index), {});
  }
  if (index.dim() == 0) return index_select(x, dim, reshape(index, {1}));
  if (index.dtype() == i32) return index_select(x, dim, to(index, i64));
  dim = wrap_dim(dim, x.dim(), "index_select");
  require_index(index, "index_select");
  require_one_device("index_select", {x, index});
  require<ShapeError>(index.dim() == 1, "index_select: the index has shape ", index.shape(),
                      ", not one dimension");
  Dims sizes = x.shape();
  sizes[dim] = index.numel();
  Tensor y = Tensor::empty(sizes, x.options());
  backend(x).index_select(x, dim, index, y);
  return record<IndexSelectBackward>({x}, y, dim, index, x.shape());
}

namespace detail {

void require_fits(const Tensor& index, const Dims& sizes, std::int64_t dim, const char* op,
                  const char* whose) {
  bool fits = index.dim() == sizes.size();
  for (std::int64_t i = 0; fits && i < sizes.size(); ++i) {
    fits = i == dim || index.size(i) <= sizes[i];
  }
  require<ShapeError>(fits, op, ": index ", index.shape(), " does not fit ", whose, " ", sizes,
                      " apart from dimension ", dim);
}

}  // namespace detail

using detail::as_row, detail::require_fits;

namespace {

struct GatherBackward final : Node {
  std::int64_t dim;
  SavedTensor index;
  Dims input;
  GatherBackward(std::int64_t dim, const Tensor& index, const Dims& input)
      : dim(dim), index(index), input(input) {}
  const char* name() const override { return "gather"; }
  Tensors backward(const Tensors& dy) override {
    return {scatter_add(zeros(input, dy[0].options()), dim, index.get(*this), dy[0])};
  }
  void release_saved() override { index.reset(); }
  void attributes(AttributeVisitor& v) override {
    v.integer("dim", dim);
    v.tensor("index", index.get(*this));
  }
};

}  // namespace

Tensor gather(const Tensor& x, std::int64_t dim, const Tensor& index) {
  const OpRange op("gather");
  if (x.dim() == 0 || index.dim() == 0) {  // as 1-dim tensors of one element
    return reshape(gather(as_row(x), dim, as_row(index)), index.shape());
  }
  if (index.dtype() == i32) return gather(x, dim, to(index, i64));
  dim = wrap_dim(dim, x.dim(), "gather");
  require_index(index, "gather");
  require_one_device("gather", {x, index});
  require_fits(index, x.shape(), dim, "gather", "the tensor");
  Tensor y = Tensor::empty(index.shape(), x.options());
  backend(x).gather(x, dim, index, y);
  return record<GatherBackward>({x}, y, dim, index, x.shape());
}

namespace {
struct MaskedFillBackward final : Node {
  SavedTensor mask;
  Dims input;
  double value;
  MaskedFillBackward(const Tensor& mask, const Dims& input, double value)
      : mask(mask), input(input), value(value) {}
  const char* name() const override { return "masked_fill"; }
  Tensors backward(const Tensors& dy) override {
    return {sum_to(masked_fill(dy[0], mask.get(*this), 0.0), input)};
  }
  void release_saved() override { mask.reset(); }
  void attributes(AttributeVisitor& v) override {
    v.tensor("mask", mask.get(*this));
    v.real("value", value);
  }
};
}  // namespace

Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value) {
  const OpRange op("masked_fill");
  require<DTypeError>(mask.dtype() == boolean, "masked_fill: the mask is ", mask.dtype(),
                      ", not bool");
  Dims sizes = broadcast_shapes(x.shape(), mask.shape());
  Tensor y = sizes == x.shape() ? Tensor::empty_like(x) : Tensor::empty(sizes, x.options());
  backend(x).where(mask.broadcast_view(sizes), scalar(value, x.options()).broadcast_view(sizes),
                   x.broadcast_view(sizes), y);
  return record<MaskedFillBackward>({x}, y, mask, x.shape(), value.to<double>());
}

const Tensor& Tensor::masked_fill_(const Tensor& mask, Scalar value) const {
  const OpRange op("masked_fill_");
  check_in_place(*this, "masked_fill_");
  require_distinct_elements(*this, "masked_fill_");
  if (any_requires_grad({this, 1}) || mask.storage() == storage())
    return copy_(rondo::masked_fill(*this, mask, value));
  require<DTypeError>(mask.dtype() == boolean, "masked_fill_: the mask is ", mask.dtype(),
                      ", not bool");
  require_one_device("masked_fill_", {*this, mask});
  backend(*this).where(mask.broadcast_view(shape()),
                       scalar(value, options()).broadcast_view(shape()), *this, *this);
  bump_version();
  return *this;
}

namespace {
struct EmbeddingBackward final : Node {
  SavedTensor index;
  Dims weight;
  std::optional<std::int64_t> padding_idx;
  EmbeddingBackward(const Tensor& index, const Dims& weight,
                    std::optional<std::int64_t> padding_idx)
      : index(index), weight(weight), padding_idx(padding_idx) {}
  const char* name() const override { return "embedding"; }
  Tensors backward(const Tensors& dy) override {
    Tensor rows = reshape(index.get(*this), {-1});
    Tensor d = reshape(dy[0], {rows.numel(), weight[1]});
    if (padding_idx) d = masked_fill(d, unsqueeze(eq(rows, *padding_idx), 1), 0.0);
    return {index_select_backward(d, 0, rows, weight)};
  }
  void release_saved() override { index.reset(); }
  void attributes(AttributeVisitor& v) override {
    const Dims& y = outputs[0].shape;  // the shape of index, and the row width
    v.tensor("index", reshape(index.get(*this), Dims(y.begin(), y.end() - 1)));
  }
};
}  // namespace

Tensor embedding(const Tensor& weight, const Tensor& index,
                 std::optional<std::int64_t> padding_idx) {
  const OpRange op("embedding");
  require<ShapeError>(weight.dim() == 2, "embedding: the weight has shape ", weight.shape(),
                      ", not (rows, width)");
  if (index.dtype() == i32) return embedding(weight, to(index, i64), padding_idx);
  require_index(index, "embedding");
  if (padding_idx) {
    std::int64_t rows = weight.size(0), row = *padding_idx;
    require<ShapeError>(row >= -rows && row < rows, "embedding: padding_idx ", row,
                        " is not a row of ", weight.shape());
    padding_idx = row < 0 ? row + rows : row;
  }
  Tensor rows = no_grad([&] { return reshape(index, {index.numel()}); });
  Tensor y = Tensor::empty({index.numel(), weight.size(1)}, weight.options());
  backend(weight).index_select(weight, 0, rows, y);
  Dims sizes = index.shape();
  sizes.push_back(weight.size(1));
  return record<EmbeddingBackward>({weight}, y.as_view(sizes, strides_of(sizes), 0), rows,
                                   weight.shape(), padding_idx);
}

Tensor one_hot(const Tensor& index, std::int64_t classes) {
  const OpRange op("one_hot");
  if (index.dtype() == i32) return one_hot(to(index, i64), classes);
  require_index(index, "one_hot");
  require<ShapeError>(classes > 0, "one_hot: ", classes, " classes is not a positive number");
  Dims sizes = index.shape();
  sizes.push_back(classes);
  Tensor y = zeros(sizes, index.options());
  Tensor at = no_grad([&] { return unsqueeze(index, -1); });
  backend(y).scatter(ScatterOp::add, y, index.dim(), at, ones(at.shape(), y.options()));
  return y;
}

}  // namespace rondo
