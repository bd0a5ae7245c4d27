#pragma once
// Linear algebra with LAPACK, on the CPU: the functions of torch.linalg of these names. They take
// matrices of f32 or f64 in the last two dimensions, with any dimensions before them (a batch), and
// have gradients of any order. Errors: DeviceError for a tensor of a GPU, DTypeError for other
// dtypes, ShapeError for shapes that do not fit, and Error for a matrix that has no result
// (singular, not positive definite), which names its place in the batch; Error if rondo was built
// without LAPACK (RONDO_LAPACK).

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

}  // namespace rondo::linalg
