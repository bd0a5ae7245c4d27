// Indexing takes two steps. First, numbers, slices, None and Ellipsis make a view of x. Then the
// index tensors, if there are any, become one index of rows: the indexed dimensions of the view
// move to the front and are merged, and an element's row is its position in them,
//
//   row = (i0 · size1 + i1) · size2 + …
//
// So reading is an index_select, and writing an index_copy or index_add, of rows.

#include "autograd/ops/subscript.h"

#include <algorithm>
#include <utility>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/scatter.h"
#include "autograd/ops/shape.h"
#include "autograd/record.h"
#include "tensor/backend.h"
#include "tensor/creation.h"
#include "tensor/index_error.h"
#include "tensor/record_function.h"

namespace rondo {
namespace {

/// The positions in row-major order where mask is true: i64 (n).
Tensor true_positions(const Tensor& mask) {
  const NoGradGuard no_grad;
  const auto count = sum(mask).item<std::int64_t>();
  const Tensor places = Tensor::empty({count}, {.dtype = i64, .device = mask.device()});
  backend(mask).true_places(contiguous(mask), places);
  return places;
}

/// A view of x, and the index tensors of its dimensions: i64, or undefined.
struct Parsed {
  Tensor view;
  Tensors index;
};

void parse_tensor(const char* op, const Tensor& given, Parsed& out) {
  const std::int64_t dim = static_cast<std::int64_t>(out.index.size());
  if (given.dtype() == i32) return parse_tensor(op, to(given, i64), out);
  require_one_device(op, {out.view, given});
  if (given.dtype() == i64) {
    const std::int64_t n = out.view.size(dim);
    const NoGradGuard no_grad;
    const Tensor bad = logical_or(lt(given, -n), ge(given, n));
    // On a GPU the host does not wait for the check: the bad index is moved past the last row,
    // where the kernel finds it.
    if (out.view.device().is_cpu() && any(bad).item<bool>())
      throw ShapeError(index_error(OpName::called(op),
                                   masked_select(given, bad)[0].item<std::int64_t>(), dim, n, -n));
    const Tensor wrapped = where(lt(given, 0), add(given, n), given);
    out.index.push_back(out.view.device().is_cpu() ? wrapped
                                                   : where(bad, out.view.numel() + 1, wrapped));
    return;
  }
  require<DTypeError>(given.dtype() == boolean, op, ": an index tensor is ", given.dtype(),
                      "; expected i64 or i32 (positions), or bool (a mask)");
  for (std::int64_t d = 0; d < given.dim(); ++d)
    require<ShapeError>(given.size(d) == out.view.size(dim + d), op, ": a mask of shape ",
                        given.shape(), " does not fit dimensions from ", dim, " of shape ",
                        out.view.shape());
  const Tensor positions = nonzero(given);
  for (std::int64_t d = 0; d < given.dim(); ++d) out.index.push_back(select(positions, 1, d));
}

Parsed parse(const char* op, const Tensor& x, const std::vector<TensorIndex>& where) {
  std::int64_t used = 0;  // dimensions of x
  bool has_ellipsis = false;
  for (const TensorIndex& entry : where) {
    if (const auto* tensor = std::get_if<Tensor>(&entry.value))
      used += tensor->dtype() == boolean ? tensor->dim() : 1;
    else if (std::holds_alternative<EllipsisType>(entry.value))
      require(!std::exchange(has_ellipsis, true), op, ": an index has at most one Ellipsis");
    else
      used += std::holds_alternative<NoneType>(entry.value) ? 0 : 1;
  }
  require<ShapeError>(used <= x.dim(), op, ": ", used, " indices are too many for shape ",
                      x.shape());
  Parsed out{x, {}};
  for (const TensorIndex& entry : where) {
    const auto dim = static_cast<std::int64_t>(out.index.size());
    if (const auto* position = std::get_if<std::int64_t>(&entry.value)) {
      out.view = select(out.view, dim, *position);
    } else if (const auto* slice = std::get_if<Slice>(&entry.value)) {
      const std::int64_t n = out.view.size(dim);
      out.view = rondo::slice(out.view, dim, slice->start.value_or(0), slice->stop.value_or(n),
                              slice->step.value_or(1));
      out.index.emplace_back();
    } else if (std::holds_alternative<NoneType>(entry.value)) {
      out.view = unsqueeze(out.view, dim);
      out.index.emplace_back();
    } else if (std::holds_alternative<EllipsisType>(entry.value)) {
      out.index.resize(out.index.size() + static_cast<std::size_t>(x.dim() - used));
    } else if (const Tensor& number = std::get<Tensor>(entry.value);
               (number.dtype() == i64 || number.dtype() == i32) && number.dim() == 0) {
      out.view = select(out.view, dim, number.item<std::int64_t>());
    } else if (const Tensor& tensor = number;
               tensor.dtype() == boolean && tensor.dim() == 0) {  // all or nothing
      out.view = unsqueeze(out.view, dim);
      parse_tensor(op, reshape(tensor, {1}), out);
    } else {
      parse_tensor(op, tensor, out);
    }
  }
  out.index.resize(static_cast<std::size_t>(out.view.dim()));
  return out;
}

/// The rows of a view that its index tensors pick.
class PickedRows {
 public:
  explicit PickedRows(const Parsed& parsed) {
    const Dims& sizes = parsed.view.shape();
    Dims kept;
    std::int64_t last = -1;
    bool neighbours = true;
    for (std::int64_t d = 0; d < sizes.size(); ++d) {
      const Tensor& index = parsed.index[static_cast<std::size_t>(d)];
      if (!index.defined()) {
        kept.push_back(d);
        rest_.push_back(sizes[d]);
        continue;
      }
      if (last < 0) place_ = d;
      neighbours = neighbours && (last < 0 || last == d - 1);
      last = d;
      order_.push_back(d);
      picked_ = broadcast_shapes(picked_, index.shape());
      rows_ = rows_.defined() ? add(mul(rows_, sizes[d]), index) : index;
    }
    if (!neighbours) place_ = 0;
    for (std::int64_t d : kept) order_.push_back(d);
    rows_ = reshape(rows_, {rows_.numel()});
  }

  const Tensor& index() const { return rows_; }
  /// The view with its indexed dimensions merged in front: (positions, rest).
  Tensor as_rows(const Tensor& view) const {
    Dims sizes = rest_;
    std::int64_t positions = 1;
    for (std::int64_t d = 0; d < order_.size() - rest_.size(); ++d)
      positions *= view.size(order_[d]);
    sizes.insert(0, positions);
    return reshape(permute(view, order_), sizes);
  }
  /// The inverse of as_rows.
  Tensor as_view(const Tensor& rows, const Dims& shape) const {
    Dims permuted, back = Dims::filled(order_.size(), 0);
    for (std::int64_t d = 0; d < order_.size(); ++d) {
      permuted.push_back(shape[order_[d]]);
      back[order_[d]] = d;
    }
    return permute(reshape(rows, permuted), back);
  }
  /// The shape of the result: the picked dimensions are in the place of the indices.
  Dims result_shape() const {
    Dims shape = rest_;
    for (std::int64_t d = 0; d < picked_.size(); ++d) shape.insert(place_ + d, picked_[d]);
    return shape;
  }
  /// Picked rows (n, rest) as the result, and values of the result's shape as rows.
  Tensor as_result(const Tensor& rows) const {
    Dims sizes = picked_, order;
    for (std::int64_t size : rest_) sizes.push_back(size);
    for (std::int64_t d = 0; d < place_; ++d) order.push_back(picked_.size() + d);
    for (std::int64_t d = 0; d < picked_.size(); ++d) order.push_back(d);
    for (std::int64_t d = place_; d < rest_.size(); ++d) order.push_back(picked_.size() + d);
    return permute(reshape(rows, sizes), order);
  }
  Tensor from_result(const Tensor& values) const {
    Dims sizes = rest_, order;
    sizes.insert(0, rows_.numel());
    for (std::int64_t d = 0; d < picked_.size(); ++d) order.push_back(place_ + d);
    for (std::int64_t d = 0; d < place_; ++d) order.push_back(d);
    for (std::int64_t d = place_; d < rest_.size(); ++d) order.push_back(picked_.size() + d);
    return reshape(permute(values, order), sizes);
  }

 private:
  Dims order_;              // of the view's dimensions: the indexed ones first
  Dims picked_, rest_;      // the broadcast shape of the indices, and the other sizes
  std::int64_t place_ = 0;  // of the picked dimensions in the result
  Tensor rows_;             // i64 (n)
};

bool has_tensor(const Parsed& parsed) {
  return std::any_of(parsed.index.begin(), parsed.index.end(),
                     [](const Tensor& index) { return index.defined(); });
}

Tensor broadcast_value(const char* op, const Tensor& x, const Tensor& value, const Dims& sizes) {
  require_one_device(op, {x, value});
  require<DTypeError>(value.dtype() == x.dtype(), op, ": the value is ", value.dtype(),
                      ", the tensor ", x.dtype());
  Tensor fitting = value;  // leading dimensions of size 1 are dropped, as in PyTorch
  while (fitting.dim() > sizes.size() && fitting.size(0) == 1) fitting = select(fitting, 0, 0);
  return expand(fitting, sizes);
}

}  // namespace

Tensor index(const Tensor& x, const std::vector<TensorIndex>& where) {
  const OpRange op("index");
  const Parsed parsed = parse("index", x, where);
  if (!has_tensor(parsed)) return parsed.view.is_same(x) ? reshape(x, x.shape()) : parsed.view;
  const PickedRows rows(parsed);
  return rows.as_result(index_select(rows.as_rows(parsed.view), 0, rows.index()));
}

Tensor index_put(const Tensor& x, const std::vector<TensorIndex>& where, const Tensor& value,
                 bool accumulate) {
  const OpRange op("index_put");
  const Tensor y = clone(x);
  y.index_put_(where, value, accumulate);
  return y;
}

Tensor Tensor::index(const std::vector<TensorIndex>& where) const {
  return rondo::index(*this, where);
}
Tensor Tensor::operator[](std::initializer_list<TensorIndex> where) const {
  return rondo::index(*this, where);
}
Tensor Tensor::operator[](const TensorIndex& where) const { return rondo::index(*this, {where}); }

const Tensor& Tensor::index_put_(const std::vector<TensorIndex>& where, const Tensor& value,
                                 bool accumulate) const {
  constexpr const char* name = "index_put_";
  const OpRange op(name);
  check_in_place(*this, name, value);
  require_distinct_elements(*this, name);
  const Parsed parsed = parse(name, *this, where);
  if (!has_tensor(parsed)) {
    const Tensor values = broadcast_value(name, *this, value, parsed.view.shape());
    accumulate ? parsed.view.add_(values) : parsed.view.copy_(values);
    return *this;
  }
  const PickedRows rows(parsed);
  const Tensor values = rows.from_result(broadcast_value(name, *this, value, rows.result_shape()));
  const Tensor before = rows.as_rows(parsed.view);
  const Tensor both[] = {*this, value};
  if (!any_requires_grad(both) && before.storage() == storage()) {  // written where it is
    const Tensor apart = values.storage() == storage() ? rondo::clone(values) : values;
    backend(*this).index_scatter(accumulate ? ScatterOp::add : ScatterOp::set, before, 0,
                                 rows.index(), apart);
    bump_version();
    return *this;
  }
  const Tensor after = accumulate ? rondo::index_add(before, 0, rows.index(), values)
                                  : rondo::index_copy(before, 0, rows.index(), values);
  parsed.view.copy_(rows.as_view(after, parsed.view.shape()));
  return *this;
}

const Tensor& Tensor::index_put_(const std::vector<TensorIndex>& where, Scalar value,
                                 bool accumulate) const {
  const OpName op("index_put_");
  value.check_fits(dtype());
  return index_put_(where, scalar(value, options()), accumulate);
}

Tensor nonzero(const Tensor& x) {
  x.require_defined("nonzero", "the input");
  const OpName op("nonzero");
  const NoGradGuard no_grad;
  Tensor rest = true_positions(x.dtype() == boolean ? x : ne(x, 0));
  Tensors columns(static_cast<std::size_t>(x.dim()));
  if (x.dim() == 0) return zeros({rest.numel(), 0}, rest.options());
  for (std::int64_t d = x.dim() - 1; d > 0; --d) {
    const std::int64_t n = std::max<std::int64_t>(x.size(d), 1);
    const Tensor above = floor_divide(rest, n);
    columns[static_cast<std::size_t>(d)] = rest - above * n;
    rest = above;
  }
  columns[0] = rest;
  return stack(columns, 1);
}

Tensor masked_select(const Tensor& x, const Tensor& mask) {
  const OpRange op("masked_select");
  require<DTypeError>(mask.dtype() == boolean, "masked_select: the mask is ", mask.dtype(),
                      ", not bool");
  require_one_device("masked_select", {x, mask});
  const Dims sizes = broadcast_shapes(x.shape(), mask.shape());
  const Tensor all = expand(x, sizes);
  return index_select(reshape(all, {all.numel()}), 0, true_positions(expand(mask, sizes)));
}

Tensors where(const Tensor& condition) {
  const OpName op("where");
  return unbind(nonzero(condition), 1);
}

Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source) {
  const OpRange op("masked_scatter");
  require<DTypeError>(mask.dtype() == boolean, "masked_scatter: the mask is ", mask.dtype(),
                      ", not bool");
  require_one_device("masked_scatter", {x, mask, source});
  const Tensor places = true_positions(expand(mask, x.shape()));
  require<ShapeError>(places.numel() <= source.numel(), "masked_scatter: the mask is true for ",
                      places.numel(), " elements, but the source ", source.shape(), " has ",
                      source.numel());
  const Tensor used = narrow(reshape(source, {source.numel()}), 0, 0, places.numel());
  return reshape(index_copy(reshape(x, {x.numel()}), 0, places, used), x.shape());
}

Tensor take(const Tensor& x, const Tensor& index) {
  const OpRange op("take");
  const Tensor at = reshape(index, {index.numel()});
  return reshape(rondo::index(reshape(x, {x.numel()}), {at}), index.shape());
}

Tensor take_along_dim(const Tensor& x, const Tensor& index, std::optional<std::int64_t> along) {
  const OpRange op("take_along_dim");
  if (!along) return gather(reshape(x, {x.numel()}), 0, reshape(index, {index.numel()}));
  require<ShapeError>(x.dim() == index.dim(), "take_along_dim: the tensor has shape ", x.shape(),
                      " and the index ", index.shape(), "; expected equal numbers of dimensions");
  const std::int64_t dim = wrap_dim(*along, x.dim(), "take_along_dim");
  Dims x_others = x.shape(), index_others = index.shape();
  x_others[dim] = index_others[dim] = 1;
  Dims x_sizes = broadcast_shapes(x_others, index_others), index_sizes = x_sizes;
  x_sizes[dim] = x.size(dim);
  index_sizes[dim] = index.size(dim);
  return gather(expand(x, x_sizes), dim, expand(index, index_sizes));
}

}  // namespace rondo
