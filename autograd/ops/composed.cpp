#include "autograd/ops/composed.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autograd/autocast.h"
#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/reduced.h"
#include "autograd/ops/search.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/subscript.h"
#include "autograd/ops/unary.h"
#include "autograd/record.h"
#include "autograd/trace.h"
#include "tensor/backend.h"
#include "tensor/creation.h"
#include "tensor/error.h"
#include "tensor/record_function.h"

namespace rondo {
namespace {

void require_vectors(const char* op, const Tensor& a, const Tensor& b) {
  require<ShapeError>(a.dim() == 1 && b.dim() == 1, op, ": expected two vectors, got ", a.shape(),
                      " and ", b.shape());
}

Tensor matmul_of(const char* op, std::int64_t a_dims, std::int64_t b_dims, const Tensor& a,
                 const Tensor& b) {
  require<ShapeError>(a.dim() == a_dims && b.dim() == b_dims, op, ": expected ", a_dims, " and ",
                      b_dims, " dimensions, got ", a.shape(), " and ", b.shape());
  return matmul(a, b);
}

/// a + beta b, without the terms that are 0 or the products that are 1.
Tensor scaled_sum(const char* op, const Tensor& product, double alpha, const Tensor& input,
                  double beta) {
  require<ShapeError>(broadcast_shapes(input.shape(), product.shape()) == product.shape(), op,
                      ": input ", input.shape(), " does not fit the product ", product.shape());
  alpha = checked_alpha(product.dtype(), alpha, op);
  require<DTypeError>(is_floating(product.dtype()) || beta == std::trunc(beta), op, ": beta is ",
                      beta, ", but tensors of ", product.dtype(), " need an integer");
  const Scalar factor =
      is_floating(product.dtype()) ? Scalar(alpha) : Scalar(static_cast<std::int64_t>(alpha));
  const Tensor scaled = alpha == 1 ? product : product * factor;
  if (beta == 0) return scaled;  // a NaN in the input is ignored, as in PyTorch
  return add(scaled, input, beta);
}

/// true on and below the diagonal of a matrix.
Tensor lower_mask(std::int64_t rows, std::int64_t columns, std::int64_t diagonal, Device device) {
  // f32 is compared faster than i64, and exact up to 2^24.
  const TensorOptions options{.dtype = rows + columns < 1 << 24 ? f32 : i64, .device = device};
  const Tensor last = arange(rows, options) + std::clamp(diagonal, -rows, columns);
  return arange(columns, options) <= last.unsqueeze(1);
}
/// The same for x's last two dimensions.
Tensor lower_mask(const char* op, const Tensor& x, std::int64_t diagonal) {
  require<ShapeError>(x.dim() >= 2, op, ": expected at least 2 dimensions, got ", x.shape());
  return lower_mask(x.size(-2), x.size(-1), diagonal, x.device());
}

}  // namespace

Tensor outer(const Tensor& a, const Tensor& b) {
  const OpRange op("outer");
  require_vectors("outer", a, b);
  return a.unsqueeze(1) * b;
}

Tensor dot(const Tensor& a, const Tensor& b) {
  const OpRange op("dot");
  require_vectors("dot", a, b);
  require<ShapeError>(a.size(0) == b.size(0), "dot: expected vectors of one length, got ",
                      a.shape(), " and ", b.shape());
  const Tensor products = a * b;
  return to(sum(products), products.dtype());
}

Tensor inner(const Tensor& a, const Tensor& b) {
  const OpRange op("inner");
  return a.dim() == 0 || b.dim() == 0 ? a * b : tensordot(a, b, {Dims{-1}, Dims{-1}});
}

Tensor cross(const Tensor& a, const Tensor& b, std::optional<std::int64_t> dim) {
  const OpRange op("cross");
  const Dims shape = broadcast_shapes(a.shape(), b.shape());
  const std::int64_t first = std::find(shape.begin(), shape.end(), 3) - shape.begin();
  require<ShapeError>(dim || first < shape.size(), "cross: no dimension of ", shape,
                      " has the size 3");
  const std::int64_t d = dim ? wrap_dim(*dim, shape.size(), "cross") : first;
  const Tensor x = expand(a, shape), y = expand(b, shape);
  require<ShapeError>(x.dim() > 0 && x.size(d) == 3, "cross: dimension ", d, " of ", shape,
                      " does not have the size 3");
  return roll(x, {-1}, {d}) * roll(y, {-2}, {d}) - roll(x, {-2}, {d}) * roll(y, {-1}, {d});
}

Tensor kron(const Tensor& a, const Tensor& b) {
  const OpRange op("kron");
  const std::int64_t rank = std::max(a.dim(), b.dim());
  Dims of_a, of_b, sizes;
  for (std::int64_t d = -rank; d < 0; ++d) {
    const std::int64_t m = -d <= a.dim() ? a.size(d) : 1, n = -d <= b.dim() ? b.size(d) : 1;
    for (const std::int64_t size : {m, std::int64_t{1}}) of_a.push_back(size);
    for (const std::int64_t size : {std::int64_t{1}, n}) of_b.push_back(size);
    sizes.push_back(m * n);
  }
  return reshape(reshape(a, of_a) * reshape(b, of_b), sizes);
}

Tensor vander(const Tensor& x, std::optional<std::int64_t> n, bool increasing) {
  const OpRange op("vander");
  require<ShapeError>(x.dim() == 1, "vander: expected a vector, got ", x.shape());
  const Tensor up = arange(n.value_or(x.size(0)), {.dtype = i64, .device = x.device()});
  return pow(unsqueeze(x, 1), increasing ? up : flip(up, {0}));
}

Tensor mm(const Tensor& a, const Tensor& b) {
  const OpName op("mm");
  return matmul_of("mm", 2, 2, a, b);
}
Tensor mv(const Tensor& a, const Tensor& b) {
  const OpName op("mv");
  return matmul_of("mv", 2, 1, a, b);
}

Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b, AddmmOptions options) {
  const OpRange op("addmm");
  require<ShapeError>(a.dim() == 2 && b.dim() == 2, "addmm: expected matrices, got ", a.shape(),
                      " and ", b.shape());
  if (const Casts cast{AutocastOp::matmul, a}) return addmm(cast(input), cast(a), cast(b), options);
  return scaled_sum("addmm", matmul(a, b), options.alpha, input, options.beta);
}

Tensor baddbmm(const Tensor& input, const Tensor& a, const Tensor& b, AddmmOptions options) {
  const OpRange op("baddbmm");
  if (const Casts cast{AutocastOp::bmm, a}) return baddbmm(cast(input), cast(a), cast(b), options);
  return scaled_sum("baddbmm", bmm(a, b), options.alpha, input, options.beta);
}

Tensor tril(const Tensor& x, std::int64_t diagonal) {
  const OpRange op("tril");
  return masked_fill(x, logical_not(lower_mask("tril", x, diagonal)), 0);
}
Tensor triu(const Tensor& x, std::int64_t diagonal) {
  const OpRange op("triu");
  return masked_fill(x, lower_mask("triu", x, diagonal - 1), 0);
}

Tensor tril_indices(std::int64_t rows, std::int64_t columns, std::int64_t offset, Device device) {
  return transpose(nonzero(lower_mask(rows, columns, offset, device)), 0, 1);
}
Tensor triu_indices(std::int64_t rows, std::int64_t columns, std::int64_t offset, Device device) {
  return transpose(nonzero(logical_not(lower_mask(rows, columns, offset - 1, device))), 0, 1);
}

Tensor diag_embed(const Tensor& x, std::int64_t offset) {
  const OpRange op("diag_embed");
  require<ShapeError>(x.dim() >= 1, "diag_embed: a tensor without dimensions has no diagonal");
  const CheckedSize zero(0, "diag_embed");
  const std::int64_t n = (zero + x.size(-1) + std::max(offset, (zero - offset).value())).value();
  Dims sizes = x.shape();
  sizes[sizes.size() - 1] = n;
  sizes.push_back(n);
  const Tensor y = zeros(sizes, x.options());
  diagonal(y, offset, -2, -1).copy_(x);
  return y;
}

Tensor diag(const Tensor& x, std::int64_t offset) {
  const OpRange op("diag");
  require<ShapeError>(x.dim() == 1 || x.dim() == 2, "diag: expected a vector or a matrix, got ",
                      x.shape());
  return x.dim() == 1 ? diag_embed(x, offset) : clone(diagonal(x, offset));
}

Tensor trace(const Tensor& x) {
  const OpRange op("trace");
  require<ShapeError>(x.dim() == 2, "trace: expected a matrix, got ", x.shape());
  return sum(diagonal(x));
}

Tensors meshgrid(const Tensors& xs, std::string_view indexing) {
  const OpRange op("meshgrid");
  require(indexing == "ij" || indexing == "xy", "meshgrid: indexing = \"", std::string(indexing),
          "\"; expected ij or xy");
  require(!xs.empty(), "meshgrid: no tensors");
  const auto rank = static_cast<std::int64_t>(xs.size());
  const bool swapped = indexing == "xy" && rank >= 2;
  const auto place = [&](std::int64_t i) { return swapped && i < 2 ? 1 - i : i; };
  Dims sizes = Dims::filled(rank, 1);
  for (std::int64_t i = 0; i < rank; ++i) {
    const Tensor& x = xs[static_cast<std::size_t>(i)];
    require_one_device("meshgrid", {xs[0], x});
    require<ShapeError>(x.dim() <= 1, "meshgrid: expected vectors, got ", x.shape());
    sizes[place(i)] = x.numel();
  }
  Tensors out;
  for (std::int64_t i = 0; i < rank; ++i) {
    Dims line = Dims::filled(rank, 1);
    line[place(i)] = sizes[place(i)];
    out.push_back(expand(reshape(xs[static_cast<std::size_t>(i)], line), sizes));
  }
  return out;
}

Tensor tile(const Tensor& x, const Dims& repeats) {
  const OpRange op("tile");
  Dims all = repeats;
  while (all.size() < x.dim()) all.insert(0, 1);
  return x.repeat(all);
}

Tensor repeat_interleave(const Tensor& x, std::int64_t repeats, std::optional<std::int64_t> dim) {
  const OpRange op("repeat_interleave");
  require(repeats >= 0, "repeat_interleave: ", repeats, " repeats; expected 0 or more");
  if (!dim) return repeat_interleave(reshape(x, {x.numel()}), repeats, 0);
  require<ShapeError>(x.dim() > 0,
                      "repeat_interleave: a tensor without dimensions has no dimension ", *dim);
  const std::int64_t d = wrap_dim(*dim, x.dim(), "repeat_interleave");
  Dims sizes = x.shape(), spread = x.shape();
  require<ShapeError>(
      repeats == 0 || sizes[d] <= std::numeric_limits<std::int64_t>::max() / repeats,
      "repeat_interleave: ", repeats, " repeats of ", sizes[d], " elements are too many");
  sizes[d] *= repeats;
  spread.insert(d + 1, repeats);
  return detail::as_result(reshape(expand(unsqueeze(x, d + 1), spread), sizes), x);
}

Tensor repeat_interleave(const Tensor& x, const Tensor& repeats, std::optional<std::int64_t> dim) {
  const OpRange op("repeat_interleave");
  if (!dim) return repeat_interleave(reshape(x, {x.numel()}), repeats, 0);
  const std::int64_t d = wrap_dim(*dim, x.dim(), "repeat_interleave");
  require<DTypeError>(repeats.dtype() == i64 || repeats.dtype() == i32,
                      "repeat_interleave: the repeats are ", repeats.dtype(), ", not i64 or i32");
  if (repeats.numel() == 1) return repeat_interleave(x, repeats.item<std::int64_t>(), d);
  require<ShapeError>(repeats.dim() == 1 && repeats.numel() == x.size(d),
                      "repeat_interleave: repeats of shape ", repeats.shape(),
                      " do not fit dimension ", d, " of ", x.shape());
  if (repeats.numel() == 0) return clone(x);
  require(min(repeats).item<std::int64_t>() >= 0, "repeat_interleave: a repeat is negative");
  // Output i comes from the first slice whose repeats, summed up to it, exceed i.
  const Tensor ends = cumsum(to(repeats, i64), 0);
  const auto total = ends[-1].item<std::int64_t>();
  // A sum that overflows wraps to a negative number first.
  require(min(ends).item<std::int64_t>() >= 0,
          "repeat_interleave: the repeats add up to 2^63 or more");
  const Tensor outputs = arange(total, {.dtype = i64, .device = x.device()});
  return index_select(x, d, searchsorted(ends, outputs, {.right = true}));
}

Tensor movedim(const Tensor& x, const Dims& source, const Dims& destination) {
  const OpName op("movedim");
  require<ShapeError>(source.size() == destination.size(), "movedim: ", source.size(),
                      " dimensions cannot be moved to ", destination.size(), " places");
  if (x.dim() == 0) {  // it has a dimension 0 and a dimension -1, as in all of these functions
    for (const Dims& dims : {source, destination})
      for (const std::int64_t dim : dims) wrap_dim(dim, 0, "movedim");
    return reshape(x, {});
  }
  Dims order = Dims::filled(x.dim(), -1), is_moved = Dims::filled(x.dim(), 0);
  for (std::int64_t i = 0; i < source.size(); ++i) {
    const std::int64_t from = wrap_dim(source[i], x.dim(), "movedim"),
                       to = wrap_dim(destination[i], x.dim(), "movedim");
    require<ShapeError>(is_moved[from] == 0 && order[to] == -1,
                        "movedim: a dimension occurs twice in ", source, " or ", destination);
    is_moved[from] = 1;
    order[to] = from;
  }
  std::int64_t next = 0;
  for (std::int64_t& dim : order) {
    if (dim != -1) continue;
    while (is_moved[next] == 1) ++next;
    dim = next++;
  }
  return permute(x, order);
}

Tensor unflatten(const Tensor& x, std::int64_t dim, const Dims& sizes) {
  const OpName op("unflatten");
  const std::int64_t at = wrap_dim(dim, x.dim(), "unflatten");
  require<ShapeError>(!sizes.empty(), "unflatten: no sizes for dimension ", dim, " of ", x.shape());
  std::int64_t product = 1, unknown = 0;
  for (const std::int64_t size : sizes) {
    if (size == -1) {
      ++unknown;
    } else {
      product *= size;
    }
  }
  const bool fits = unknown == 0 ? product == x.size(at)
                                 : unknown == 1 && product > 0 && x.size(at) % product == 0;
  require<ShapeError>(fits, "unflatten: dimension ", dim, " of ", x.shape(),
                      " cannot be split into ", sizes);
  Dims shape(x.shape().begin(), x.shape().begin() + at);
  for (const std::int64_t size : sizes) shape.push_back(size == -1 ? x.size(at) / product : size);
  for (std::int64_t d = at + 1; d < x.dim(); ++d) shape.push_back(x.size(d));
  return view(x, shape);
}

namespace {

Tensor rolled(const Tensor& x, std::int64_t shift, std::int64_t dim);

struct RollBackward final : Node {
  std::int64_t shift, dim;
  RollBackward(std::int64_t shift, std::int64_t dim) : shift(shift), dim(dim) {}
  const char* name() const override { return "roll"; }
  Tensors backward(const Tensors& dy) override {
    return {rolled(dy[0], dy[0].size(dim) - shift, dim)};
  }
};

/// 0 < shift < x.size(dim).
Tensor rolled(const Tensor& x, std::int64_t shift, std::int64_t dim) {
  const std::int64_t rest = x.size(dim) - shift;
  if (TraceMode::is_enabled())
    return cat({narrow(x, dim, rest, shift), narrow(x, dim, 0, rest)}, dim);
  const Tensor y = no_grad([&] {
    const Tensor y = Tensor::empty(x.shape(), x.options());
    backend(y).copy(narrow(x, dim, rest, shift), narrow(y, dim, 0, shift));
    backend(y).copy(narrow(x, dim, 0, rest), narrow(y, dim, shift, rest));
    return y;
  });
  return record<RollBackward>({x}, y, shift, dim);
}

}  // namespace

Tensor roll(const Tensor& x, const Dims& shifts, const Dims& dims) {
  const OpRange op("roll");
  if (dims.empty() && shifts.size() == 1) return roll(flatten(x), shifts, {0}).reshape(x.shape());
  require<ShapeError>(shifts.size() == dims.size(), "roll: ", shifts.size(), " shifts for ",
                      dims.size(),
                      " dimensions; give one dimension for each shift, or one shift alone");
  Tensor y = x;
  for (std::int64_t i = 0; i < dims.size(); ++i) {
    const std::int64_t dim = wrap_dim(dims[i], x.dim(), "roll"), n = x.size(dim);
    if (n == 0) continue;
    const std::int64_t shift = (shifts[i] % n + n) % n;
    if (shift != 0) y = rolled(y, shift, dim);
  }
  return y.impl_ptr() == x.impl_ptr() ? clone(x) : y;
}

Tensor clip(const Tensor& x, Scalar low, Scalar high) {
  const OpName op("clip");
  return clamp(x, low, high);
}
Tensor clamp(const Tensor& x, Scalar low) { return clamp_min(x, low); }
Tensor clamp_min(const Tensor& x, Scalar low) {
  const OpRange op("clamp_min");
  if (is_floating(x.dtype()) || low.dtype() == f64)
    return clamp(x, low, std::numeric_limits<double>::infinity());
  return clamp(x, low, std::numeric_limits<std::int64_t>::max());
}
Tensor clamp_max(const Tensor& x, Scalar high) {
  const OpRange op("clamp_max");
  if (is_floating(x.dtype()) || high.dtype() == f64)
    return clamp(x, -std::numeric_limits<double>::infinity(), high);
  return clamp(x, std::numeric_limits<std::int64_t>::min(), high);
}

Tensor bilinear(const Tensor& a, const Tensor& b, const Tensor& w, const Tensor& bias) {
  const OpRange op("bilinear");
  require<ShapeError>(a.dim() >= 1 && a.dim() == b.dim() && w.dim() == 3 &&
                          a.size(-1) == w.size(1) && b.size(-1) == w.size(2),
                      "bilinear: inputs ", a.shape(), " and ", b.shape(), " do not fit weight ",
                      w.shape());
  const Tensor y = einsum("...i,kij,...j->...k", {a, w, b});
  return bias.defined() ? y + bias : y;
}

Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight) {
  const OpRange op("lerp");
  return where(weight < 0.5, a + (b - a) * weight, b - (b - a) * (1 - weight));
}

Tensor isclose(const Tensor& a, const Tensor& b, const CloseOptions& options) {
  const OpName op("isclose");
  require(options.rtol >= 0 && options.atol >= 0, "isclose: rtol ", options.rtol, " and atol ",
          options.atol, " must not be negative");
  const Tensor x = to(a, f64).detach(), y = to(b, f64).detach();
  Tensor distance = abs(x - y), same = x == y;
  if (!is_floating(a.dtype()) && !is_floating(b.dtype())) {  // f64 would round them beyond 2^53
    const Tensor n = to(a, i64), m = to(b, i64), d = to(maximum(n, m) - minimum(n, m), f64);
    distance = where(d < 0, d + 0x1p64, d);  // a difference above 2^63 has wrapped around
    same = n == m;
  }
  // Infinities are close to themselves alone: their difference is infinite or NaN.
  Tensor close =
      logical_or(same, logical_and(isfinite(y), distance <= abs(y) * options.rtol + options.atol));
  if (options.equal_nan) close = logical_or(close, logical_and(isnan(x), isnan(y)));
  return close;
}

bool allclose(const Tensor& a, const Tensor& b, const CloseOptions& options) {
  const OpName op("allclose");
  return all(isclose(a, b, options)).item<bool>();
}

bool equal(const Tensor& a, const Tensor& b) {
  const OpName op("equal");
  return a.shape() == b.shape() && all(a == b).item<bool>();
}

Tensor normalize(const Tensor& x, const NormalizeOptions& options) {
  const OpRange op("normalize");
  const Tensor wide = widened(x);  // the default of eps is 0 in f16
  const Tensor length = vector_norm(wide, options.p, {options.dim}, true);
  return to(wide / maximum(length, full_like(length, options.eps)), x.dtype());
}

Tensor cosine_similarity(const Tensor& a, const Tensor& b, const CosineSimilarityOptions& options) {
  const OpRange op("cosine_similarity");
  const Dims shape = broadcast_shapes(a.shape(), b.shape());
  const Tensor x = expand(a, shape), y = expand(b, shape);
  return sum(normalize(x, {.dim = options.dim, .eps = options.eps}) *
                 normalize(y, {.dim = options.dim, .eps = options.eps}),
             {options.dim});
}

VarMean var_mean(const Tensor& x, const Dims& dims, std::int64_t correction, Flag keepdim) {
  const OpName op("var_mean");
  return {var(x, dims, correction, keepdim), mean(x, dims, keepdim)};
}

Tensor argsort(const Tensor& x, std::int64_t dim, bool descending) {
  const OpName op("argsort");
  return sort(x.detach(), dim, descending).indices;
}

}  // namespace rondo
