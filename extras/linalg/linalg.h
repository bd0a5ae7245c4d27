#pragma once
// Linear algebra with LAPACK, on the CPU: the functions of torch.linalg of these names. They take
// matrices of f32 or f64 in the last two dimensions, with any dimensions before them (a batch), and
// have gradients of any order. Errors: DeviceError for a tensor of a GPU, DTypeError for other
// dtypes, ShapeError for shapes that do not fit, and Error for a matrix that has no result
// (singular, not positive definite), which names its place in the batch; Error if rondo was built
// without LAPACK (RONDO_LAPACK).

#include <optional>
#include <string_view>

#include "tensor/tensor.h"

namespace rondo::linalg {

/// X with A X = B: A (…, n, n), B (…, n, k) or one vector (…, n). Batch dimensions broadcast.
Tensor solve(const Tensor& a, const Tensor& b);
/// A⁻¹. solve(a, b) is faster and more exact than inv(a) · b.
Tensor inv(const Tensor& a);
/// The determinant (…).
Tensor det(const Tensor& a);

struct SignAndLog {
  Tensor sign, logabsdet;
};
/// det = sign · exp(logabsdet), which neither overflows nor underflows. A singular matrix has sign
/// 0 and -inf.
SignAndLog slogdet(const Tensor& a);

/// The lower triangular L with A = L Lᵀ, of a symmetric positive definite A; only its lower
/// triangle is read.
Tensor cholesky(const Tensor& a);

struct QR {
  Tensor q, r;
};
/// A = Q R: A (…, m, n), Q (…, m, k) with orthonormal columns, R (…, k, n) upper triangular, k =
/// min(m, n).
QR qr(const Tensor& a);

struct Eigen {
  Tensor values, vectors;
};
/// A = V diag(λ) Vᵀ of a symmetric A, λ ascending; only its lower triangle is read. The gradient of
/// V is finite only if the eigenvalues are distinct, and V's signs must not matter to the result.
Eigen eigh(const Tensor& a);

struct SVD {
  Tensor u, s, vh;
};
/// A = U diag(s) Vᵀ: A (…, m, n), U (…, m, k), s (…, k) descending, Vᵀ (…, k, n), k = min(m, n).
/// The gradients of U and Vᵀ are finite only if the singular values are distinct.
SVD svd(const Tensor& a);

// The following are composed of these and of other ops (composed.cpp).

/// The values of eigh and of svd alone.
Tensor eigvalsh(const Tensor& a);
Tensor svdvals(const Tensor& a);

struct ToleranceOptions {
  /// A singular value counts as 0 if it is at most max(atol, rtol · the largest one). rtol, if
  /// neither is given, is max(m, n) times the spacing of the dtype at 1.
  std::optional<double> atol = {}, rtol = {};
};
/// The pseudoinverse (…, n, m) of A (…, m, n), by its singular values. The rank must not change
/// where its gradient is taken.
Tensor pinv(const Tensor& a, const ToleranceOptions& options = {});
/// The number of singular values that are not 0: i64 (…), without a gradient.
Tensor matrix_rank(const Tensor& a, const ToleranceOptions& options = {});

struct LeastSquares {
  Tensor solution, residuals, rank;
};
/// The X of the smallest norm that minimises ‖A X - B‖: A (…, m, n), B (…, m, k) or one vector (…,
/// m) each. residuals (…, k) is that minimum, squared.
LeastSquares lstsq(const Tensor& a, const Tensor& b);

struct TriangularOptions {
  bool upper = true;
  bool unitriangular = false;  // the diagonal counts as ones
};
/// solve with the upper (lower) triangle of A.
Tensor solve_triangular(const Tensor& a, const Tensor& b, TriangularOptions options);

/// A · A · … · A, n factors; A⁻¹ for a negative n.
Tensor matrix_power(const Tensor& a, std::int64_t n);
/// I + A + A² / 2! + …, on any device. Waits for the device.
Tensor matrix_exp(const Tensor& a);

/// (Σ |x|^ord)^(1 / ord) over `dims` (none: all); ord may be ±infinity, the largest or smallest
/// |x|, and 0, the number of elements that are not 0.
Tensor vector_norm(const Tensor& x, double ord = 2, const Dims& dims = {}, Flag keepdim = false);
/// "fro", the root of the sum of squares, or "nuc", the sum of the singular values; or a number:
/// the largest (smallest, if negative) singular value for ±2, sum of a column for ±1, sum of a row
/// for ±infinity, of absolute values.
Tensor matrix_norm(const Tensor& a, std::string_view ord = "fro", const Dims& dims = {-2, -1},
                   Flag keepdim = false);
Tensor matrix_norm(const Tensor& a, double ord, const Dims& dims = {-2, -1}, Flag keepdim = false);
/// The root of the sum of squares of all elements; matrix_norm over two dimensions, or of a matrix;
/// vector_norm over one, or of a vector.
Tensor norm(const Tensor& x);
Tensor norm(const Tensor& x, std::string_view ord, const Dims& dims = {}, Flag keepdim = false);
Tensor norm(const Tensor& x, double ord, const Dims& dims = {}, Flag keepdim = false);
/// The condition number ‖A‖ ‖A⁻¹‖ in a matrix norm; infinite for a singular A and ±2, else Error.
Tensor cond(const Tensor& a, double ord = 2);
Tensor cond(const Tensor& a, std::string_view ord);

}  // namespace rondo::linalg
