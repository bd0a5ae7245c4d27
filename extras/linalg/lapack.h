#pragma once
// LAPACK's routines for batches of matrices in memory: dense, row-major (count, rows, columns), f32
// or f64, overwritten in place. They are not recorded on the tape. Each returns the place of the
// first matrix that has no result, or -1.

#include <cstdint>

#include "tensor/tensor.h"

namespace rondo::linalg::lapack {

/// b becomes the solution of a x = b; a is overwritten.
std::int64_t solve(const Tensor& a, const Tensor& b);
/// a becomes its factors L and U; pivots i32 (count, n), from 1.
std::int64_t lu(const Tensor& a, const Tensor& pivots);
/// The lower triangle of a becomes L; the upper one keeps its elements.
std::int64_t cholesky(const Tensor& a);
/// a (m, n) with m >= n becomes Q (m, n), and r (n, n) the factor R (its lower triangle is not
/// written).
std::int64_t qr(const Tensor& a, const Tensor& r);
/// a becomes its eigenvectors, values (n).
std::int64_t eigh(const Tensor& a, const Tensor& values);
/// a (m, n) is overwritten; u (m, k), s (k), vh (k, n).
std::int64_t svd(const Tensor& a, const Tensor& u, const Tensor& s, const Tensor& vh);

}  // namespace rondo::linalg::lapack
