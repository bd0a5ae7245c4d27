// Functions that use the decompositions: pseudoinverses, least squares, norms, powers.

#include "autograd/ops/composed.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "autograd/autocast.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/reduced.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "autograd/record.h"
#include "extras/linalg/linalg.h"
#include "tensor/creation.h"
#include "tensor/record_function.h"

namespace rondo::linalg {
namespace {

void require_square(const char* op, const Tensor& a) {
  require_float(a, op);
  require<ShapeError>(a.dim() >= 2 && a.size(-1) == a.size(-2), op,
                      ": expected square matrices (…, n, n), got ", a.shape());
}

Tensor identity_like(const Tensor& a) {
  return expand(eye(a.size(-1), -1, a.options()), a.shape());
}

/// Which of the singular values s of a are not 0. a (…, m, n) has elements.
Tensor counts(const Tensor& a, const Tensor& s, const ToleranceOptions& options) {
  const auto spacing = a.dtype() == f32 ? double{std::numeric_limits<float>::epsilon()}
                                        : std::numeric_limits<double>::epsilon();
  const auto longest = static_cast<double>(std::max(a.size(-1), a.size(-2)));
  const double rtol = options.rtol.value_or(options.atol.value_or(0) > 0 ? 0 : longest * spacing);
  return gt(s, clamp_min(amax(s, {-1}, true) * rtol, options.atol.value_or(0)));
}

/// With P the pseudoinverse and G its gradient:
///
///   dA = (I - A P) Gᵀ P Pᵀ + Pᵀ P Gᵀ (I - P A) - Pᵀ G Pᵀ
///
/// (Golub and Pereyra, 1973).
struct PinvBackward final : Node {
  SavedTensor a, y;
  PinvBackward(const Tensor& a, const Tensor& y) : a(a), y(y, SavedTensor::output) {}
  const char* name() const override { return "linalg::pinv"; }
  Tensors backward(const Tensors& dy) override {
    const Tensor matrix = a.get(*this), p = y.get(*this), pt = p.mT(), gt = dy[0].mT();
    const Tensor left = matmul(gt, matmul(p, pt)), right = matmul(matmul(pt, p), gt);
    return {left - matmul(matrix, matmul(p, left)) + right - matmul(matmul(right, p), matrix) -
            matmul(matmul(pt, dy[0]), pt)};
  }
  void release_saved() override {
    a.reset();
    y.reset();
  }
};

}  // namespace

Tensor eigvalsh(const Tensor& a) { return eigh(a).values; }
Tensor svdvals(const Tensor& a) { return svd(a).s; }

Tensor pinv(const Tensor& a, const ToleranceOptions& options) {
  const OpRange op("linalg::pinv");
  const NoAutocast off;
  const Tensor y = no_grad([&] {
    const auto [u, s, vh] = svd(a);
    if (a.numel() == 0) return zeros_like(a.mT());
    const Tensor inverse = where(counts(a, s, options), reciprocal(s), 0.0);
    return matmul(vh.mT() * unsqueeze(inverse, -2), u.mT());
  });
  return record<PinvBackward>({a}, y, a, y);
}

Tensor matrix_rank(const Tensor& a, const ToleranceOptions& options) {
  const OpRange op("linalg::matrix_rank");
  const NoGradGuard no_grad;
  const Tensor s = svd(a).s;
  return sum(a.numel() == 0 ? zeros_like(s).to(i64) : to(counts(a, s, options), i64), {-1});
}

LeastSquares lstsq(const Tensor& a, const Tensor& b) {
  const OpRange op("linalg::lstsq");
  const NoAutocast off;
  if (b.dim() == a.dim() - 1) {  // one vector each
    const auto [solution, residuals, rank] = lstsq(a, unsqueeze(b, -1));
    return {squeeze(solution, -1), squeeze(residuals, -1), rank};
  }
  require<ShapeError>(a.dim() >= 2 && b.dim() >= 2 && a.size(-2) == b.size(-2),
                      "linalg::lstsq: A has shape ", a.shape(), "; B of shape ", b.shape(),
                      " must have as many rows");
  const Tensor x = matmul(pinv(a), b);
  return {x, sum(square(matmul(a, x) - b), {-2}), matrix_rank(a)};
}

Tensor solve_triangular(const Tensor& a, const Tensor& b, TriangularOptions options) {
  const OpRange op("linalg::solve_triangular");
  require_square("linalg::solve_triangular", a);
  const std::int64_t inner = options.unitriangular ? 1 : 0;
  const Tensor triangle = options.upper ? triu(a, inner) : tril(a, -inner);
  return solve(options.unitriangular ? triangle + identity_like(a) : triangle, b);
}

Tensor matrix_power(const Tensor& a, std::int64_t n) {
  const OpRange op("linalg::matrix_power");
  require_square("linalg::matrix_power", a);
  const NoAutocast off;
  if (n < 0) return matrix_power(inv(a), -n);
  Tensor y = n % 2 == 1 ? a : identity_like(a);
  for (Tensor power = a; (n /= 2) > 0;) {
    power = matmul(power, power);
    if (n % 2 == 1) y = matmul(y, power);
  }
  return detail::as_result(y, a);
}

Tensor matrix_exp(const Tensor& a) {
  const OpRange op("linalg::matrix_exp");
  require_square("linalg::matrix_exp", a);
  const NoAutocast off;
  if (a.numel() == 0) return clone(a);
  // exp(A) = exp(A / 2^s)^(2^s), with a norm of at most 1/2, where 14 terms of the series are exact
  // to rounding. Each matrix of a batch has its s. In f64, because the squares multiply errors.
  const Tensor wide = to(a, f64);
  const Tensor squarings = no_grad([&] {
    const Tensor size = amax(sum(abs(wide), {-2}, true), {-1}, true);
    require(isfinite(size).all().item<bool>(), "linalg::matrix_exp: a matrix is not finite");
    return clamp_min(ceil(log2(clamp_min(size, 0.25))) + 1, 0);
  });
  const Tensor x = wide * exp2(-squarings), identity = identity_like(x);
  Tensor y = identity;
  for (int k = 14; k > 0; --k) y = identity + matmul(x, y) / k;
  const double most = max(squarings).item<double>();
  for (int k = 0; k < most; ++k) y = where(squarings > k, matmul(y, y), y);
  return to(y, a.dtype());
}

Tensor vector_norm(const Tensor& x, double ord, const Dims& dims, Flag keepdim) {
  if (ord > 0) return rondo::vector_norm(x, ord, dims, keepdim);
  require_float(x, "linalg::vector_norm");
  if (ord == 0) return to(sum(ne(x, 0), dims, keepdim), x.dtype());
  if (std::isinf(ord)) return amin(abs(x), dims, keepdim);
  require(!std::isnan(ord), "linalg::vector_norm: ord is NaN");
  return pow(sum(pow(abs(x), ord), dims, keepdim), 1 / ord);
}

namespace {

/// A matrix norm over the last two dimensions, without them.
Tensor norm_of_matrix(const Tensor& a, double ord) {
  const double size = std::abs(ord);
  require(size == 1 || size == 2 || std::isinf(size), "linalg::matrix_norm: ord is ", ord,
          "; there are ±1, ±2, ±infinity, \"fro\" and \"nuc\"");
  const Tensor parts = size == 2 ? svdvals(a) : sum(abs(a), {size == 1 ? -2 : -1});
  return ord > 0 ? amax(parts, {-1}) : amin(parts, {-1});
}
Tensor norm_of_matrix(const Tensor& a, std::string_view ord) {
  if (ord == "fro") return rondo::norm(a, {-2, -1});
  require(ord == "nuc", "linalg::matrix_norm: ord is \"", std::string(ord),
          "\"; there are \"fro\", \"nuc\" and numbers");
  return sum(svdvals(a), {-1});
}

/// The same over any two dimensions.
template <class Ord>
Tensor norm_over(const Tensor& a, Ord ord, const Dims& dims, Flag keepdim) {
  require_float(a, "linalg::matrix_norm");
  require<ShapeError>(a.dim() >= 2 && dims.size() == 2,
                      "linalg::matrix_norm: expected two dimensions of matrices, got ", dims,
                      " of ", a.shape());
  const std::int64_t row = wrap_dim(dims[0], a.dim(), "linalg::matrix_norm"),
                     column = wrap_dim(dims[1], a.dim(), "linalg::matrix_norm");
  require<ShapeError>(row != column, "linalg::matrix_norm: the dimensions ", dims, " are the same");
  Dims order, kept = a.shape();
  for (std::int64_t d = 0; d < a.dim(); ++d)
    if (d != row && d != column) order.push_back(d);
  for (const std::int64_t d : {row, column}) {
    order.push_back(d);
    kept[d] = 1;
  }
  const Tensor y = norm_of_matrix(permute(a, order), ord);
  return keepdim ? reshape(y, kept) : y;
}

}  // namespace

Tensor matrix_norm(const Tensor& a, std::string_view ord, const Dims& dims, Flag keepdim) {
  return norm_over(a, ord, dims, keepdim);
}
Tensor matrix_norm(const Tensor& a, double ord, const Dims& dims, Flag keepdim) {
  return norm_over(a, ord, dims, keepdim);
}

Tensor norm(const Tensor& x) { return rondo::norm(x); }
Tensor norm(const Tensor& x, std::string_view ord, const Dims& dims, Flag keepdim) {
  return matrix_norm(x, ord, dims.empty() ? Dims{-2, -1} : dims, keepdim);
}
Tensor norm(const Tensor& x, double ord, const Dims& dims, Flag keepdim) {
  const std::int64_t count = dims.empty() ? x.dim() : dims.size();
  require<ShapeError>(count == 1 || count == 2, "linalg::norm: expected 1 or 2 dimensions, got ",
                      count);
  if (count == 1) return linalg::vector_norm(x, ord, dims, keepdim);
  return matrix_norm(x, ord, dims.empty() ? Dims{-2, -1} : dims, keepdim);
}

Tensor cond(const Tensor& a, double ord) {
  const OpRange op("linalg::cond");
  if (std::abs(ord) != 2) return matrix_norm(a, ord) * matrix_norm(inv(a), ord);
  const Tensor s = svdvals(a);
  return ord > 0 ? amax(s, {-1}) / amin(s, {-1}) : amin(s, {-1}) / amax(s, {-1});
}
Tensor cond(const Tensor& a, std::string_view ord) {
  return matrix_norm(a, ord) * matrix_norm(inv(a), ord);
}

}  // namespace rondo::linalg
