// The functions of shape.h that are composed of other ops.

#include <algorithm>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/composed.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/shape.h"
#include "tensor/creation.h"
#include "tensor/record_function.h"

namespace rondo {
namespace {

Tensors each(const Tensors& xs, Tensor (*f)(const Tensor&)) {
  Tensors ys;
  for (const Tensor& x : xs) ys.push_back(f(x));
  return ys;
}

}  // namespace

Tensors tensor_split(const Tensor& x, std::int64_t sections, std::int64_t dim) {
  const OpName op("tensor_split");
  require<ShapeError>(x.dim() > 0, "tensor_split: a tensor without dimensions cannot be split");
  require<ShapeError>(sections > 0, "tensor_split: ", sections,
                      " sections is not a positive number");
  const std::int64_t n = x.size(dim);
  std::vector<std::int64_t> sizes;
  for (std::int64_t i = 0; i < sections; ++i)
    sizes.push_back(n / sections + (i < n % sections ? 1 : 0));
  return split(x, sizes, dim);
}

Tensors tensor_split(const Tensor& x, const std::vector<std::int64_t>& indices, std::int64_t dim) {
  const OpName op("tensor_split");
  require<ShapeError>(x.dim() > 0, "tensor_split: a tensor without dimensions cannot be split");
  const std::int64_t n = x.size(dim);
  Tensors parts;
  std::int64_t start = 0;
  for (const std::int64_t index : indices) {
    parts.push_back(slice(x, dim, start, index));
    start = index;
  }
  parts.push_back(slice(x, dim, start, n));
  return parts;
}

Tensor unfold(const Tensor& x, std::int64_t dim, std::int64_t size, std::int64_t step) {
  const OpRange op("unfold");
  dim = wrap_dim(dim, x.dim(), "unfold");
  require<ShapeError>(x.dim() > 0 && size >= 0 && size <= x.size(dim) && step > 0,
                      "unfold: windows of ", size, " elements, ", step,
                      " apart, do not fit dimension ", dim, " of ", x.shape());
  const TensorOptions options{.dtype = i64, .device = x.device()};
  const Tensor starts = arange(0, x.size(dim) - size + 1, step, options);
  const Tensor places = starts.unsqueeze(1) + arange(size, options);
  const Tensor all = index_select(x, dim, reshape(places, {places.numel()}));
  return movedim(unflatten(all, dim, places.shape()), dim + 1, -1);
}

Tensor swapaxes(const Tensor& x, std::int64_t a, std::int64_t b) {
  const OpName op("swapaxes");
  return transpose(x, a, b);
}

Tensor broadcast_to(const Tensor& x, const Dims& sizes) {
  const OpName op("broadcast_to");
  return expand(x, sizes);
}

Tensors broadcast_tensors(const Tensors& xs) {
  const OpName op("broadcast_tensors");
  Dims sizes;
  for (const Tensor& x : xs) sizes = broadcast_shapes(sizes, x.shape());
  Tensors ys;
  for (const Tensor& x : xs) ys.push_back(expand(x, sizes));
  return ys;
}

Tensor atleast_1d(const Tensor& x) {
  const OpName op("atleast_1d");
  return x.dim() == 0 ? reshape(x, {1}) : x;
}
Tensor atleast_2d(const Tensor& x) {
  const OpName op("atleast_2d");
  return x.dim() >= 2 ? x : unsqueeze(atleast_1d(x), 0);
}
Tensor atleast_3d(const Tensor& x) {
  const OpName op("atleast_3d");
  return x.dim() >= 3 ? x : unsqueeze(atleast_2d(x), -1);
}

Tensor hstack(const Tensors& xs) {
  const OpRange op("hstack");
  require<ShapeError>(!xs.empty(), "hstack: the list of tensors is empty");
  return cat(each(xs, atleast_1d), xs[0].dim() <= 1 ? 0 : 1);
}
Tensor vstack(const Tensors& xs) {
  const OpRange op("vstack");
  return cat(each(xs, atleast_2d), 0);
}
Tensor dstack(const Tensors& xs) {
  const OpRange op("dstack");
  return cat(each(xs, atleast_3d), 2);
}
Tensor column_stack(const Tensors& xs) {
  const OpRange op("column_stack");
  return hstack(each(xs, [](const Tensor& x) {
    return x.dim() <= 1 ? reshape(x, {x.numel(), 1}) : x;
  }));
}

Tensor fliplr(const Tensor& x) {
  const OpRange op("fliplr");
  require<ShapeError>(x.dim() >= 2, "fliplr: expected at least 2 dimensions, got ", x.shape());
  return flip(x, {1});
}
Tensor flipud(const Tensor& x) {
  const OpRange op("flipud");
  require<ShapeError>(x.dim() >= 1, "flipud: a tensor without dimensions has no order");
  return flip(x, {0});
}

Tensor rot90(const Tensor& x, std::int64_t k, const Dims& dims) {
  const OpRange op("rot90");
  require<ShapeError>(dims.size() == 2, "rot90: expected two dimensions, got ", dims);
  const std::int64_t a = wrap_dim(dims[0], x.dim(), "rot90"),
                     b = wrap_dim(dims[1], x.dim(), "rot90");
  require<ShapeError>(a != b, "rot90: the dimensions ", dims[0], " and ", dims[1], " are the same");
  switch ((k % 4 + 4) % 4) {
    case 1:
      return transpose(flip(x, {b}), a, b);
    case 2:
      return flip(x, {a, b});
    case 3:
      return transpose(flip(x, {a}), a, b);
    default:
      return clone(x);
  }
}

Tensor block_diag(const Tensors& xs) {
  const OpRange op("block_diag");
  std::int64_t columns = 0, before = 0;
  for (const Tensor& x : xs) {
    require<ShapeError>(x.dim() <= 2, "block_diag: expected matrices, got ", x.shape());
    columns += atleast_2d(x).size(1);
  }
  Tensors rows;
  for (const Tensor& x : each(xs, atleast_2d)) {
    const std::int64_t after = columns - before - x.size(1);
    rows.push_back(cat(
        {zeros({x.size(0), before}, x.options()), x, zeros({x.size(0), after}, x.options())}, 1));
    before += x.size(1);
  }
  return cat(rows, 0);
}

Tensor cartesian_prod(const Tensors& xs) {
  const OpRange op("cartesian_prod");
  if (xs.size() == 1) return xs[0];
  Tensors columns;
  for (const Tensor& x : meshgrid(xs)) columns.push_back(reshape(x, {x.numel()}));
  return stack(columns, 1);
}

}  // namespace rondo
