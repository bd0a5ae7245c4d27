#include "autograd/ops/scan.h"

#include "autograd/grad_mode.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/composed.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/reduced.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "tensor/creation.h"
#include "tensor/record_function.h"

namespace rondo {
namespace {

/// After the pass with step s, element i joins the 2s elements that end at i.
template <class Join>
Tensor scan(Tensor y, std::int64_t dim, const Join& join) {
  const std::int64_t n = y.size(dim);
  for (std::int64_t step = 1; step < n; step *= 2) {
    const Tensor joined = join(narrow(y, dim, 0, n - step), narrow(y, dim, step, n - step));
    y = cat({narrow(y, dim, 0, step), joined}, dim);
  }
  return y;
}

/// The index of the extreme of x[0] … x[i] for each i.
Tensor extreme_so_far(const char* op, bool largest, const Tensor& x, std::int64_t dim) {
  dim = wrap_dim(dim, x.dim(), op);
  if (x.dim() == 0) return zeros({}, {.dtype = i64, .device = x.device()});
  const NoGradGuard no_grad;
  Dims line = Dims::filled(x.dim(), 1);
  line[dim] = x.size(dim);
  const Tensor places = arange(x.size(dim), {.dtype = i64, .device = x.device()});
  // The scan carries indices; the elements are read back to be compared.
  return scan(expand(reshape(places, line), x.shape()), dim,
              [&](const Tensor& before, const Tensor& here) {
                const Tensor a = gather(x, dim, before), b = gather(x, dim, here);
                const Tensor wins = largest ? ge(b, a) : le(b, a);
                return where(logical_or(wins, isnan(b)), here, before);
              });
}

}  // namespace

Tensor cumprod(const Tensor& x, std::int64_t dim) {
  const OpRange op("cumprod");
  dim = wrap_dim(dim, x.dim(), "cumprod");
  if (x.dim() == 0) return is_floating(x.dtype()) ? reshape(x, {}) : to(x, i64);
  if (!is_floating(x.dtype()))
    return scan(to(x, i64), dim, [](const Tensor& a, const Tensor& b) { return mul(a, b); });
  const Tensor y =
      scan(to(x, f64), dim, [](const Tensor& a, const Tensor& b) { return mul(a, b); });
  return to(y, x.dtype());
}

Tensor logcumsumexp(const Tensor& x, std::int64_t dim) {
  const OpRange op("logcumsumexp");
  require_float(x, "logcumsumexp");
  dim = wrap_dim(dim, x.dim(), "logcumsumexp");
  if (x.dim() == 0) return reshape(x, {});
  const Tensor y =
      scan(widened(x), dim, [](const Tensor& a, const Tensor& b) { return logaddexp(a, b); });
  return to(y, x.dtype());
}

ValuesAndIndices cummax(const Tensor& x, std::int64_t dim) {
  const OpRange op("cummax");
  const Tensor indices = extreme_so_far("cummax", true, x, dim);
  return {gather(x, dim, indices), indices};
}

ValuesAndIndices cummin(const Tensor& x, std::int64_t dim) {
  const OpRange op("cummin");
  const Tensor indices = extreme_so_far("cummin", false, x, dim);
  return {gather(x, dim, indices), indices};
}

}  // namespace rondo
