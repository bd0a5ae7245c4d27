// cat, stack, split, unbind, chunk (autograd/ops/shape.h). cat copies elements; the parts of split,
// unbind and chunk are views. The backward of one joins what the other cuts.

#include <algorithm>
#include <string_view>

#include "autograd/ops/indexing.h"
#include "autograd/ops/shape.h"
#include "autograd/record.h"
#include "autograd/trace.h"
#include "tensor/backend.h"
#include "tensor/creation.h"
#include "tensor/record_function.h"

namespace rondo {

namespace {
struct CatBackward final : Node {
  std::int64_t dim;
  std::vector<std::int64_t> lengths;
  std::vector<Dims> shapes;
  CatBackward(std::int64_t dim, std::vector<std::int64_t> lengths, std::vector<Dims> shapes)
      : dim(dim), lengths(std::move(lengths)), shapes(std::move(shapes)) {}
  const char* name() const override { return "cat"; }
  Tensors backward(const Tensors& dy) override {
    Tensors dx(edges.size());
    std::int64_t start = 0;
    for (std::size_t i = 0; i < dx.size(); start += lengths[i++]) {
      if (!wants(i)) continue;
      dx[i] = lengths[i] > 0 ? narrow(dy[0], dim, start, lengths[i])
                             : zeros(shapes[i], dy[0].options());
    }
    return dx;
  }
  void attributes(AttributeVisitor& v) override { v.integer("dim", dim); }
};
}  // namespace

Tensor cat(const Tensors& xs, std::int64_t dim) {
  const OpRange op("cat");
  require<ShapeError>(!xs.empty(), "cat: the list of tensors is empty");
  auto skipped = [](const Tensor& x) { return x.shape() == Dims{0}; };
  const auto found = std::ranges::find_if_not(xs, skipped);
  const Tensor& first = found == xs.end() ? xs[0] : *found;
  require<ShapeError>(first.dim() > 0, "cat: a tensor without dimensions cannot be joined");
  dim = wrap_dim(dim, first.dim(), "cat");
  Dims sizes = first.shape();
  TensorOptions options = first.options();
  options.format = first.suggested_format();
  std::vector<std::int64_t> lengths;
  sizes[dim] = 0;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    options.dtype = promote(*options.dtype, xs[i].dtype());
    if (skipped(xs[i])) {
      lengths.push_back(0);
      continue;
    }
    Dims rest = xs[i].shape();
    if (rest.size() == sizes.size()) rest[dim] = sizes[dim];
    require<ShapeError>(rest == sizes, "cat: tensor ", i, " of shape ", xs[i].shape(),
                        " does not join with ", first.shape(), " along dimension ", dim);
    require<DeviceError>(xs[i].device() == first.device(), "cat: tensor ", i, " is on ",
                         xs[i].device(), ", the first on ", first.device());
    lengths.push_back(xs[i].size(dim));
    sizes[dim] = (CheckedSize(sizes[dim], "cat") + lengths.back()).value();
  }
  Tensor y = Tensor::empty(sizes, options);
  std::int64_t start = 0;
  for (std::size_t i = 0; i < xs.size(); start += lengths[i++]) {
    if (lengths[i] == 0) continue;
    backend(y).copy(xs[i], y.as_view(xs[i].shape(), y.strides(), start * y.stride(dim)));
  }
  std::vector<Dims> shapes;
  for (const Tensor& x : xs) shapes.push_back(x.shape());
  return record_all<CatBackward>(xs, {y}, dim, lengths, shapes)[0];
}

Tensor stack(const Tensors& xs, std::int64_t dim) {
  const OpRange op("stack");
  require<ShapeError>(!xs.empty(), "stack: the list of tensors is empty");
  dim = wrap_dim(dim, xs[0].dim() + 1, "stack");
  Tensors rows;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    require<ShapeError>(xs[i].shape() == xs[0].shape(), "stack: tensor ", i, " has the shape ",
                        xs[i].shape(), ", the first ", xs[0].shape());
    rows.push_back(unsqueeze(xs[i], dim));
  }
  return cat(rows, dim);
}

namespace {

/// The node of split and unbind: joins the gradients of the parts, with zeros for parts that have
/// none.
struct PartsBackward final : Node {
  const char* op;
  std::int64_t dim;
  PartsBackward(const char* op, std::int64_t dim) : op(op), dim(dim) {}
  const char* name() const override { return op; }
  Tensors backward(const Tensors& dy) override {
    Tensors parts = dy;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const OutputMeta& part = outputs[i];
      if (!parts[i].defined())
        parts[i] = zeros(part.shape, {.dtype = part.dtype, .device = part.device});
    }
    return {op == std::string_view("unbind") ? stack(parts, dim) : cat(parts, dim)};
  }
  void attributes(AttributeVisitor& v) override { v.integer("dim", dim); }
};

}  // namespace

Tensors split(const Tensor& x, std::int64_t size, std::int64_t dim) {
  const OpName op("split");
  require<ShapeError>(x.dim() > 0, "split: a tensor without dimensions cannot be split");
  const std::int64_t n = x.size(wrap_dim(dim, x.dim(), "split"));
  require<ShapeError>(size > 0 || (size == 0 && n == 0), "split: size ", size, " is not positive");
  if (n == 0) return {narrow(x, dim, 0, 0)};
  std::vector<std::int64_t> sizes;
  for (std::int64_t start = 0; start < n; start += size) sizes.push_back(std::min(size, n - start));
  return split(x, sizes, dim);
}

Tensors split(const Tensor& x, const std::vector<std::int64_t>& sizes, std::int64_t dim) {
  const OpName op("split");
  require<ShapeError>(x.dim() > 0, "split: a tensor without dimensions cannot be split");
  dim = wrap_dim(dim, x.dim(), "split");
  Tensors parts;
  Dims shape = x.shape();
  std::int64_t start = 0;
  for (const std::int64_t size : sizes) {
    require<ShapeError>(size >= 0 && size <= x.size(dim) - start, "split: size ", size,
                        " does not fit the remaining ", x.size(dim) - start,
                        " elements of dimension ", dim, " of ", x.shape());
    shape[dim] = size;
    parts.push_back(x.as_view(shape, x.strides(), x.storage_offset() + start * x.stride(dim)));
    start += size;
  }
  require<ShapeError>(start == x.size(dim), "split: the sizes add up to ", start, ", dimension ",
                      dim, " of ", x.shape(), " has ", x.size(dim));
  return record_views<PartsBackward>(x, parts, "split", dim);
}

Tensors unbind(const Tensor& x, std::int64_t dim) {
  const OpName op("unbind");
  require<ShapeError>(x.dim() > 0, "unbind: a tensor without dimensions has no slices");
  dim = wrap_dim(dim, x.dim(), "unbind");
  Dims sizes, strides;
  for (std::int64_t i = 0; i < x.dim(); ++i) {
    if (i == dim) continue;
    sizes.push_back(x.size(i));
    strides.push_back(x.stride(i));
  }
  Tensors parts;
  for (std::int64_t i = 0; i < x.size(dim); ++i)
    parts.push_back(x.as_view(sizes, strides, x.storage_offset() + i * x.stride(dim)));
  return record_views<PartsBackward>(x, parts, "unbind", dim);
}

Tensors chunk(const Tensor& x, std::int64_t chunks, std::int64_t dim) {
  const OpName op("chunk");
  require<ShapeError>(x.dim() > 0, "chunk: a tensor without dimensions cannot be split");
  require<ShapeError>(chunks > 0, "chunk: ", chunks, " chunks is not a positive number");
  dim = wrap_dim(dim, x.dim(), "chunk");
  const std::int64_t n = x.size(dim);
  if (n > 0) return split(x, n / chunks + (n % chunks != 0), dim);
  Tensors parts;  // the requested number of parts, all empty
  for (std::int64_t i = 0; i < chunks; ++i) parts.push_back(x.alias());
  return record_views<PartsBackward>(x, parts, "split", dim);
}

}  // namespace rondo
