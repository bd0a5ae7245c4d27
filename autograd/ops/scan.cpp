#include "autograd/ops/scan.h"

#include "autograd/grad_mode.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/composed.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/reduced.h"
#include "autograd/ops/shape.h"
#include "autograd/record.h"
#include "autograd/trace.h"
#include "tensor/backend.h"
#include "tensor/creation.h"
#include "tensor/record_function.h"

namespace rondo {
namespace {

/// Scans by log2 n element-wise passes, which have gradients of any order and can be traced. After
/// the pass with step s, element i joins the 2s elements that end at i.
template <class Join>
Tensor scan(Tensor y, std::int64_t dim, const Join& join) {
  const std::int64_t n = y.size(dim);
  for (std::int64_t step = 1; step < n; step *= 2) {
    const Tensor joined = join(narrow(y, dim, 0, n - step), narrow(y, dim, step, n - step));
    y = cat({narrow(y, dim, 0, step), joined}, dim);
  }
  return y;
}

/// y[i] = x[0] … x[i] for floats.
Tensor products(const Tensor& x, std::int64_t dim) {
  const Tensor y =
      scan(to(x, f64), dim, [](const Tensor& a, const Tensor& b) { return mul(a, b); });
  return to(y, x.dtype());
}

/// The products by the kernel, not recorded.
Tensor scanned(const Tensor& x, std::int64_t dim) {
  Tensor y = Tensor::empty_like(x);
  backend(x).scan(ScanOp::prod, x, dim, false, y);
  return y;
}

/// The gradient of a product, as Backend::cumprod_backward has it, by passes of ops: element j
/// joins the functions s -> factor s + term of the 2s elements that begin at j.
Tensor cumprod_gradient(const Tensor& dy, const Tensor& x, std::int64_t dim) {
  const std::int64_t n = x.size(dim);
  if (n == 0) return dy;
  const Tensor wide = to(x, f64), one = ones_like(narrow(wide, dim, 0, 1));
  Tensor factor = cat({narrow(wide, dim, 1, n - 1), one}, dim), term = to(dy, f64);
  for (std::int64_t step = 1; step < n; step *= 2) {
    const auto head = [&](const Tensor& t) { return narrow(t, dim, 0, n - step); };
    const auto tail = [&](const Tensor& t) { return narrow(t, dim, step, n - step); };
    const auto rest = [&](const Tensor& t) { return narrow(t, dim, n - step, step); };
    term = cat({head(term) + head(factor) * tail(term), rest(term)}, dim);
    factor = cat({head(factor) * tail(factor), rest(factor)}, dim);
  }
  const Tensor before = cat({one, narrow(cumprod(wide, dim), dim, 0, n - 1)}, dim);
  return to(before * term, x.dtype());
}

struct CumprodBackward final : Node {
  SavedTensor x;
  std::int64_t dim;
  CumprodBackward(const Tensor& x, std::int64_t dim) : x(x), dim(dim) {}
  const char* name() const override { return "cumprod"; }
  Tensors backward(const Tensors& dy) override {
    const Tensor x = this->x.get(*this);
    if (GradMode::is_enabled()) return {cumprod_gradient(dy[0], x, dim)};
    Tensor dx = Tensor::empty_like(x);
    backend(x).cumprod_backward(dy[0], x, dim, dx);
    return {dx};
  }
  void release_saved() override { x.reset(); }
  void attributes(AttributeVisitor& v) override { v.integer("dim", dim); }
};

/// The place of the extreme of x[0] … x[i] for each i.
Tensor extreme_so_far(const char* name, ScanOp op, const Tensor& x, std::int64_t dim) {
  dim = wrap_dim(dim, x.dim(), name);
  if (x.dim() == 0) return zeros({}, {.dtype = i64, .device = x.device()});
  const Tensor places = Tensor::empty(x.shape(), {.dtype = i64, .device = x.device()});
  backend(x).scan(op, x, dim, false, places);
  return places;
}

}  // namespace

Tensor cumprod(const Tensor& x, std::int64_t dim) {
  const OpRange op("cumprod");
  dim = wrap_dim(dim, x.dim(), "cumprod");
  if (x.dim() == 0) return is_floating(x.dtype()) ? clone(x) : detail::as_result(to(x, i64), x);
  if (!is_floating(x.dtype())) return scanned(to(x, i64), dim);
  if (TraceMode::is_enabled()) return products(x, dim);
  return record<CumprodBackward>({x}, scanned(x, dim), x, dim);
}

Tensor logcumsumexp(const Tensor& x, std::int64_t dim) {
  const OpRange op("logcumsumexp");
  require_float(x, "logcumsumexp");
  dim = wrap_dim(dim, x.dim(), "logcumsumexp");
  if (x.dim() == 0) return clone(x);
  const Tensor y =
      scan(widened(x), dim, [](const Tensor& a, const Tensor& b) { return logaddexp(a, b); });
  return detail::as_result(to(y, x.dtype()), x);
}

ValuesAndIndices cummax(const Tensor& x, std::int64_t dim) {
  const OpRange op("cummax");
  const Tensor indices = extreme_so_far("cummax", ScanOp::max, x, dim);
  return {gather(x, dim, indices), indices};
}

ValuesAndIndices cummin(const Tensor& x, std::int64_t dim) {
  const OpRange op("cummin");
  const Tensor indices = extreme_so_far("cummin", ScanOp::min, x, dim);
  return {gather(x, dim, indices), indices};
}

}  // namespace rondo
