// Scattering. With `add` every old element stays, so its gradient passes through; with `set` the
// old elements at the index are lost, so their gradient is 0. The gradient of what was written is
// read back from the places where it was written.

#include "autograd/ops/scatter.h"

#include "autograd/autocast.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/reduced.h"
#include "autograd/ops/shape.h"
#include "autograd/record.h"
#include "autograd/trace.h"
#include "tensor/backend.h"
#include "tensor/creation.h"
#include "tensor/record_function.h"

namespace rondo {
namespace {

using detail::as_row, detail::require_fits;

/// A copy of x, not on the tape, that a kernel may write to.
Tensor copied(const Tensor& x) {
  Tensor y = Tensor::empty_like(x);
  backend(x).copy(x, y);
  return y;
}

/// Where the result goes: to a copy, or, for an in-place op that is not recorded, to x itself.
enum class Into { copy, x };
Tensor target(Into into, const Tensor& x) { return into == Into::x ? x : copied(x); }
/// An operand, copied if writing to x would change it.
Tensor apart(Into into, const Tensor& x, const Tensor& operand) {
  return into == Into::x && operand.storage() == x.storage() ? copied(operand) : operand;
}

void require_source(const char* op, const Tensor& x, const Tensor& index, const Tensor& src) {
  require<DTypeError>(index.dtype() == i64, op, ": the index is ", index.dtype(),
                      ", not i64 or i32");
  require_one_device(op, {x, index, src});
  require<DTypeError>(src.dtype() == x.dtype(), op, ": the source is ", src.dtype(),
                      ", the tensor ", x.dtype());
}

/// The part of src that the index covers; throws the errors of operands that do not fit.
Tensor covered(const char* op, const Tensor& x, std::int64_t dim, const Tensor& index,
               const Tensor& src) {
  require_source(op, x, index, src);
  require_fits(index, x.shape(), dim, op, "the tensor");
  require_fits(index, src.shape(), -1, op, "the source");
  Tensor used = src;
  for (std::int64_t i = 0; i < src.dim(); ++i)
    if (index.size(i) != src.size(i)) used = narrow(used, i, 0, index.size(i));
  return used;
}

struct ScatterBackward final : Node {
  const char* op;
  std::int64_t dim;
  SavedTensor index;
  bool keeps;  // the old elements: the op is scatter_add
  ScatterBackward(const char* op, std::int64_t dim, const Tensor& index, bool keeps)
      : op(op), dim(dim), index(index), keeps(keeps) {}
  const char* name() const override { return op; }
  Tensors backward(const Tensors& dy) override {
    const Tensor at = index.get(*this);
    return {keeps      ? dy[0]
            : wants(0) ? scatter(dy[0], dim, at, 0)
                       : Tensor(),
            wants(1) ? gather(dy[0], dim, at) : Tensor()};
  }
  void release_saved() override { index.reset(); }
};

/// scatter and scatter_add. Other joins have no node, since their gradients need the elements.
Tensor scattered(const char* op, ScatterOp join, const Tensor& x, std::int64_t dim,
                 const Tensor& index, const Tensor& src, Into into = Into::copy) {
  if (x.dim() == 0 || index.dim() == 0 || src.dim() == 0)  // as 1-dim tensors of one element
    return reshape(scattered(op, join, as_row(x), dim, as_row(index), as_row(src), into),
                   x.shape());
  if (index.dtype() == i32) return scattered(op, join, x, dim, to(index, i64), src, into);
  dim = wrap_dim(dim, x.dim(), op);
  const Tensor used = covered(op, x, dim, index, src);
  const Tensor y = target(into, x);
  backend(x).scatter(join, y, dim, apart(into, x, index), apart(into, x, used));
  if (into == Into::x) return x;
  return record<ScatterBackward>({x, used}, y, op, dim, index, join == ScatterOp::add);
}

struct IndexScatterBackward final : Node {
  const char* op;
  std::int64_t dim;
  SavedTensor index;
  bool keeps;
  IndexScatterBackward(const char* op, std::int64_t dim, const Tensor& index, bool keeps)
      : op(op), dim(dim), index(index), keeps(keeps) {}
  const char* name() const override { return op; }
  Tensors backward(const Tensors& dy) override {
    const Tensor at = index.get(*this);
    return {keeps      ? dy[0]
            : wants(0) ? index_fill(dy[0], dim, at, 0)
                       : Tensor(),
            wants(1) ? index_select(dy[0], dim, at) : Tensor()};
  }
  void release_saved() override { index.reset(); }
};

/// index_add and index_copy.
Tensor index_scattered(const char* op, ScatterOp join, const Tensor& x, std::int64_t dim,
                       const Tensor& index, const Tensor& src, Into into = Into::copy) {
  if (x.dim() == 0)
    return reshape(index_scattered(op, join, as_row(x), dim, index, as_row(src), into), {});
  if (index.dim() == 0) {
    const Tensor one = src.dim() < x.dim() ? unsqueeze(src, wrap_dim(dim, x.dim(), op)) : src;
    return index_scattered(op, join, x, dim, as_row(index), one, into);
  }
  if (index.dtype() == i32) return index_scattered(op, join, x, dim, to(index, i64), src, into);
  dim = wrap_dim(dim, x.dim(), op);
  require_source(op, x, index, src);
  require<ShapeError>(index.dim() == 1, op, ": the index has shape ", index.shape(),
                      ", not one dimension");
  Dims sizes = x.shape();
  sizes[dim] = index.numel();
  require<ShapeError>(src.shape() == sizes, op, ": the source has shape ", src.shape(),
                      "; a tensor ", x.shape(), " with ", index.numel(),
                      " indices along dimension ", dim, " needs ", sizes);
  const Tensor y = target(into, x);
  backend(x).index_scatter(join, y, dim, apart(into, x, index), apart(into, x, src));
  if (into == Into::x) return x;
  return record<IndexScatterBackward>({x, src}, y, op, dim, index, join == ScatterOp::add);
}

/// y = x scattered with src by a kernel, not on the tape. Without include_self, x's elements at the
/// index are first replaced by the reduction's neutral element.
Tensor reduced_by(ScatterOp join, double neutral, const Tensor& x, std::int64_t dim,
                  const Tensor& index, const Tensor& src, bool include_self) {
  const NoGradGuard no_grad;
  const Tensor start = include_self ? copied(x) : scatter(x, dim, index, neutral);
  backend(x).scatter(join, start, dim, index, src);
  return start;
}

/// Extremes: the gradient of an element is shared among all that equal it.
struct ScatterExtremeBackward final : Node {
  const char* op;
  std::int64_t dim;
  bool include_self;
  SavedTensor x, index, src, y;
  ScatterExtremeBackward(const char* op, std::int64_t dim, bool include_self, const Tensor& x,
                         const Tensor& index, const Tensor& src, const Tensor& y)
      : op(op),
        dim(dim),
        include_self(include_self),
        x(x),
        index(index),
        src(src),
        y(y, SavedTensor::output) {}
  const char* name() const override { return op; }
  Tensors backward(const Tensors& dy) override {
    const Tensor at = index.get(*this), result = y.get(*this);
    auto [self_share, src_share] = no_grad([&] {
      const DType dtype = dy[0].dtype();
      Tensor self_hit = to(equal_or_both_nan(x.get(*this), result), dtype);
      if (!include_self) self_hit = scatter(self_hit, dim, at, 0);
      const Tensor src_hit = to(equal_or_both_nan(src.get(*this), gather(result, dim, at)), dtype);
      const Tensor hits = clamp_min_one(scatter_add(self_hit, dim, at, src_hit));
      return std::pair{div(self_hit, hits), div(src_hit, gather(hits, dim, at))};
    });
    return {wants(0) ? mul(dy[0], self_share) : Tensor(),
            wants(1) ? mul(gather(dy[0], dim, at), src_share) : Tensor()};
  }
  void release_saved() override {
    for (SavedTensor* saved : {&x, &index, &src, &y}) saved->reset();
  }

 private:
  static Tensor clamp_min_one(const Tensor& n) { return maximum(n, ones_like(n)); }
};

/// y = x Π src for each element. Its derivative by one factor is y / factor. By a factor that is 0
/// it is the product of the others, which is 0 if another one is 0, too.
struct ScatterProdBackward final : Node {
  std::int64_t dim;
  bool include_self;
  SavedTensor x, index, src, y;
  ScatterProdBackward(std::int64_t dim, bool include_self, const Tensor& x, const Tensor& index,
                      const Tensor& src, const Tensor& y)
      : dim(dim),
        include_self(include_self),
        x(x),
        index(index),
        src(src),
        y(y, SavedTensor::output) {}
  const char* name() const override { return "scatter_reduce"; }
  Tensors backward(const Tensors& dy) override {
    const Tensor at = index.get(*this), result = y.get(*this), b = src.get(*this);
    const Tensor a = include_self ? x.get(*this) : scatter(x.get(*this), dim, at, 1);
    const Tensor a_zero = eq(a, 0), b_zero = eq(b, 0);
    const Tensor a_safe = masked_fill(a, a_zero, 1), b_safe = masked_fill(b, b_zero, 1);
    const Tensor several = gt(scatter_add(to(a_zero, i64), dim, at, to(b_zero, i64)), 1);
    require<AutogradError>(!GradMode::is_enabled() || !any(several).item<bool>(),
                           "scatter_reduce: the second derivative of prod is not implemented for "
                           "an element with several factors that are 0");
    const Tensor others = masked_fill(scatter_reduce(a_safe, dim, at, b_safe, "prod"), several, 0);
    Tensor da = mul(dy[0], where(a_zero, others, div(result, a_safe)));
    if (!include_self) da = scatter(da, dim, at, 0);
    return {da, mul(gather(dy[0], dim, at),
                    where(b_zero, gather(others, dim, at), div(gather(result, dim, at), b_safe)))};
  }
  void release_saved() override {
    for (SavedTensor* saved : {&x, &index, &src, &y}) saved->reset();
  }
};

}  // namespace

Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src) {
  const OpRange op("scatter");
  return scattered("scatter", ScatterOp::set, x, dim, index, src);
}

Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, Scalar value) {
  const OpRange op("scatter");
  return scatter(x, dim, index, expand(scalar(value, x.options()), index.shape()));
}

Tensor scatter_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src) {
  const OpRange op("scatter_add");
  if (const Casts cast{AutocastOp::scatter_add, x, src})
    return scatter_add(cast(x), dim, index, cast(src));
  return scattered("scatter_add", ScatterOp::add, x, dim, index, src);
}

Tensor scatter_reduce(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src,
                      std::string_view reduce, ScatterReduceOptions options) {
  const OpRange op("scatter_reduce");
  constexpr const char* name = "scatter_reduce";
  const bool self = options.include_self;
  if (index.dtype() == i32) return scatter_reduce(x, dim, to(index, i64), src, reduce, options);
  if (reduce == "sum" || reduce == "mean") {
    const Tensor start = self ? x : scatter(x, dim, index, 0);
    const Tensor total = scatter_add(start, dim, index, src);
    if (reduce == "sum") return total;
    const Tensor count = no_grad([&] {
      const Tensor each = ones(index.shape(), x.options());
      const Tensor first = ones_like(x);
      return scatter_add(self ? first : scatter(first, dim, index, 0), dim, index, each);
    });
    return is_floating(x.dtype()) ? div(total, count) : floor_divide(total, count);
  }
  require(reduce == "prod" || reduce == "amax" || reduce == "amin", name, ": reduce = \"",
          std::string(reduce), "\"; there are sum, prod, mean, amax and amin");
  if (x.dim() == 0 || index.dim() == 0 || src.dim() == 0)  // as 1-dim tensors of one element
    return reshape(scatter_reduce(as_row(x), dim, as_row(index), as_row(src), reduce, options),
                   x.shape());
  dim = wrap_dim(dim, x.dim(), name);
  const Tensor used = covered(name, x, dim, index, src);
  if (reduce == "prod") {
    const Tensor y = reduced_by(ScatterOp::prod, 1, x, dim, index, used, self);
    return record<ScatterProdBackward>({x, used}, y, dim, self, x, index, used, y);
  }
  // Without x's own element, the first one that is scattered replaces it.
  const ScatterOp join = reduce == "amax" ? ScatterOp::max : ScatterOp::min;
  const Tensor start =
      no_grad([&] { return self ? x : scattered(name, ScatterOp::set, x, dim, index, used); });
  const Tensor y = reduced_by(join, 0, start, dim, index, used, true);
  return record<ScatterExtremeBackward>({x, used}, y, name, dim, self, x, index, used, y);
}

Tensor index_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src,
                 IndexAddOptions options) {
  const OpRange op("index_add");
  checked_alpha(x.dtype(), options.alpha, "index_add");
  const bool is_whole = !is_floating(src.dtype());
  const Tensor terms = options.alpha == 1 ? src
                       : is_whole         ? mul(src, static_cast<std::int64_t>(options.alpha))
                                          : mul(src, options.alpha);
  return index_scattered("index_add", ScatterOp::add, x, dim, index, terms);
}

Tensor index_copy(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src) {
  const OpRange op("index_copy");
  return index_scattered("index_copy", ScatterOp::set, x, dim, index, src);
}

namespace {

/// The value as the source of index_copy.
Tensor slices_of(const Tensor& x, std::int64_t dim, const Tensor& index, Scalar value) {
  Dims sizes = as_row(x).shape();
  sizes[wrap_dim(dim, x.dim(), "index_fill")] = index.numel();
  return expand(scalar(value, x.options()), sizes);
}

Tensor index_filled(const Tensor& x, std::int64_t dim, const Tensor& index, Scalar value,
                    Into into) {
  return reshape(index_scattered("index_fill", ScatterOp::set, as_row(x), dim, as_row(index),
                                 slices_of(x, dim, index, value), into),
                 x.shape());
}

/// The in-place op that f computes: f(Into::x) writes to x itself if nothing is recorded, else the
/// recorded f(Into::copy) is copied.
template <class F>
const Tensor& in_place(const char* op, const Tensor& x, const Tensor& src, const F& f) {
  const OpName name(op);
  check_in_place(x, op, src);
  require_distinct_elements(x, op);
  const Tensor both[] = {x, src};
  if (any_requires_grad(both)) return x.copy_(f(Into::copy));
  f(Into::x);
  x.bump_version();
  return x;
}

}  // namespace

Tensor index_fill(const Tensor& x, std::int64_t dim, const Tensor& index, Scalar value) {
  const OpRange op("index_fill");
  return index_filled(x, dim, index, value, Into::copy);
}

const Tensor& Tensor::scatter_(std::int64_t dim, const Tensor& index, const Tensor& src) const {
  return in_place("scatter_", *this, src, [&](Into into) {
    return scattered("scatter", ScatterOp::set, *this, dim, index, src, into);
  });
}
const Tensor& Tensor::scatter_(std::int64_t dim, const Tensor& index, Scalar value) const {
  const OpName op("scatter_");
  return scatter_(dim, index, rondo::expand(scalar(value, options()), index.shape()));
}
const Tensor& Tensor::scatter_add_(std::int64_t dim, const Tensor& index, const Tensor& src) const {
  return in_place("scatter_add_", *this, src, [&](Into into) {
    return scattered("scatter_add", ScatterOp::add, *this, dim, index, src, into);
  });
}
const Tensor& Tensor::index_add_(std::int64_t dim, const Tensor& index, const Tensor& src) const {
  return in_place("index_add_", *this, src, [&](Into into) {
    return index_scattered("index_add", ScatterOp::add, *this, dim, index, src, into);
  });
}
const Tensor& Tensor::index_copy_(std::int64_t dim, const Tensor& index, const Tensor& src) const {
  return in_place("index_copy_", *this, src, [&](Into into) {
    return index_scattered("index_copy", ScatterOp::set, *this, dim, index, src, into);
  });
}
const Tensor& Tensor::index_fill_(std::int64_t dim, const Tensor& index, Scalar value) const {
  return in_place("index_fill_", *this, {},
                  [&](Into into) { return index_filled(*this, dim, index, value, into); });
}

}  // namespace rondo
