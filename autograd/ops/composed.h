#pragma once
// Ops that are composed of others: no kernel and no node of their own, so that gradients of any
// order, layouts and devices follow from those; except logaddexp, lerp, hypot and nan_to_num
// (composed_elementwise.cpp). They agree with the PyTorch functions of these names.

#include <optional>
#include <string_view>
#include <utility>

#include "tensor/tensor.h"

namespace rondo {

/// a (M), b (N) to a b^T (M, N).
Tensor outer(const Tensor& a, const Tensor& b);
/// Σ a[i] b[i], for two vectors of one length.
Tensor dot(const Tensor& a, const Tensor& b);
/// Σ over the last dimensions of both: a (…, n), b (…, n).
Tensor inner(const Tensor& a, const Tensor& b);
/// The vector product along a dimension of size 3; the first one, if dim is not given.
Tensor cross(const Tensor& a, const Tensor& b, std::optional<std::int64_t> dim = {});
/// All products of an element of a and one of b: element (i p + k, j q + l) is a[i, j] b[k, l], for
/// b (p, q). Missing leading dimensions count as 1.
Tensor kron(const Tensor& a, const Tensor& b);
/// Row i holds the powers x[i]^(n - 1), …, x[i], 1 of a vector, or, if `increasing`, 1, x[i], …. n
/// is the length of x if it is not given.
Tensor vander(const Tensor& x, std::optional<std::int64_t> n = {}, bool increasing = false);

/// matmul of two matrices, and of a matrix and a vector.
Tensor mm(const Tensor& a, const Tensor& b);
Tensor mv(const Tensor& a, const Tensor& b);

struct AddmmOptions {
  double beta = 1, alpha = 1;
};
/// beta input + alpha a b; a (M, K), b (K, N), input broadcast to (M, N).
Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b, AddmmOptions options = {});
/// The same for batches: a (B, M, K), b (B, K, N).
Tensor baddbmm(const Tensor& input, const Tensor& a, const Tensor& b, AddmmOptions options = {});

/// Products and sums by labels, one letter for each dimension:
///
///   einsum("ij,jk->ik", {a, b})       matmul
///   einsum("bhqd,bhkd->bhqk", {q, k})  scores of attention
///   einsum("ii", {a})                  the trace
///
/// Labels that the output lacks are summed. Without "->" the output has the labels that occur once,
/// in alphabetical order. "..." stands for any further dimensions, which broadcast. A label that
/// occurs twice in one operand takes the diagonal. Operands are contracted from left to right.
/// Throws Error for an equation that is malformed, ShapeError for sizes that do not agree.
Tensor einsum(std::string_view equation, const Tensors& operands);

struct TensordotDims {
  /// The last n of a with the first n of b. Throws ShapeError for n < 0.
  TensordotDims(std::int64_t n);
  TensordotDims(Dims a, Dims b) : a(std::move(a)), b(std::move(b)) {}
  std::int64_t n = -1;
  Dims a, b;
};
/// Σ over the given pairs of dimensions; the result has the other dimensions of a, then those of b.
Tensor tensordot(const Tensor& a, const Tensor& b, const TensordotDims& dims = 2);

/// The lower (upper) triangle of the last two dimensions, zeros elsewhere. diagonal 0 is the main
/// one, a positive one is above it.
Tensor tril(const Tensor& x, std::int64_t diagonal = 0);
Tensor triu(const Tensor& x, std::int64_t diagonal = 0);
/// The positions of these triangles in a matrix (rows, columns): i64 (2, n), row by row.
Tensor tril_indices(std::int64_t rows, std::int64_t columns, std::int64_t offset = 0,
                    Device device = Device::cpu());
Tensor triu_indices(std::int64_t rows, std::int64_t columns, std::int64_t offset = 0,
                    Device device = Device::cpu());

/// A view with dimension `source` at `destination`, or several of them; the others keep their
/// order. Throws ShapeError for a dimension that occurs twice.
Tensor movedim(const Tensor& x, const Dims& source, const Dims& destination);
/// A view with dimension `dim` split into `sizes`, of which one may be -1.
Tensor unflatten(const Tensor& x, std::int64_t dim, const Dims& sizes);
/// Element i of a dimension moves to i + shift, modulo its size. Without dims: of the flattened x.
Tensor roll(const Tensor& x, const Dims& shifts, const Dims& dims = {});

/// A vector as a square matrix with it on the diagonal `offset`; or that diagonal of a matrix.
Tensor diag(const Tensor& x, std::int64_t offset = 0);
/// The last dimension on the diagonal `offset` of two new last dimensions, zeros elsewhere.
Tensor diag_embed(const Tensor& x, std::int64_t offset = 0);
/// Σ x[i][i] of a matrix.
Tensor trace(const Tensor& x);
/// Vectors (n0), (n1), … as tensors of shape (n0, n1, …), each varying along its own dimension.
/// indexing is "ij", or "xy": then the first two dimensions are swapped.
Tensors meshgrid(const Tensors& xs, std::string_view indexing = "ij");
/// The tensor repeated along each dimension; missing leading repeats count as 1.
Tensor tile(const Tensor& x, const Dims& repeats);
/// Each slice along dim repeated one after the other: n times, or repeats[i] times (i64). Without
/// dim, of the flattened x. Waits for the device if repeats is a tensor.
Tensor repeat_interleave(const Tensor& x, std::int64_t repeats,
                         std::optional<std::int64_t> dim = {});
Tensor repeat_interleave(const Tensor& x, const Tensor& repeats,
                         std::optional<std::int64_t> dim = {});
/// ‖a_i - b_j‖_p: a (…, P, M), b (…, R, M) to (…, P, R). With p = 2 and more than 25 points it is
/// computed from the product a bᵀ, as in PyTorch: a distance much smaller than the points' norms
/// has an absolute error of about their norm times the root of the dtype's precision. Other cases
/// need memory for (…, P, R, M) differences.
Tensor cdist(const Tensor& a, const Tensor& b, double p = 2);

/// clamp.
Tensor clip(const Tensor& x, Scalar low, Scalar high);
/// clamp with one bound; clamp(x, low) is clamp_min(x, low).
Tensor clamp(const Tensor& x, Scalar low);
Tensor clamp_min(const Tensor& x, Scalar low);
Tensor clamp_max(const Tensor& x, Scalar high);

/// x (..., C r², H, W) to (..., C, H r, W r): each pixel gets a square of r² channels.
Tensor pixel_shuffle(const Tensor& x, std::int64_t r);
/// The inverse, x (..., C, H r, W r) to (..., C r², H, W).
Tensor pixel_unshuffle(const Tensor& x, std::int64_t r);
/// x (N, C, ...) with channel i C / groups + j at j groups + i.
Tensor channel_shuffle(const Tensor& x, std::int64_t groups);

/// y[k] = Σ a[i] w[k,i,j] b[j] + bias[k]. a (..., I), b (..., J), w (K, I, J), bias (K) or
/// undefined.
Tensor bilinear(const Tensor& a, const Tensor& b, const Tensor& w, const Tensor& bias = {});

/// log(exp(a) + exp(b)) without overflow.
Tensor logaddexp(const Tensor& a, const Tensor& b);
/// a + weight (b - a).
Tensor lerp(const Tensor& a, const Tensor& b, double weight);
Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight);
/// sqrt(a² + b²) without overflow.
Tensor hypot(const Tensor& a, const Tensor& b);

struct NanToNumOptions {
  double nan = 0;
  /// Not given: the largest (smallest) number of x's dtype.
  std::optional<double> posinf = {}, neginf = {};
};
/// Replaces NaN and infinities; the gradient of replaced elements is 0.
Tensor nan_to_num(const Tensor& x, const NanToNumOptions& options = {});

struct CloseOptions {
  double rtol = 1e-5, atol = 1e-8;
  bool equal_nan = false;
};
/// |a - b| <= atol + rtol |b|, element by element; equal infinities are close.
Tensor isclose(const Tensor& a, const Tensor& b, const CloseOptions& options = {});
/// Whether all are. Waits for the device.
bool allclose(const Tensor& a, const Tensor& b, const CloseOptions& options = {});
/// Whether shapes and all elements are equal; NaN is not equal to NaN. Waits for the device.
bool equal(const Tensor& a, const Tensor& b);

struct NormalizeOptions {
  double p = 2;
  std::int64_t dim = 1;
  double eps = 1e-12;
};
/// x / max(‖x‖_p, eps) along a dimension.
Tensor normalize(const Tensor& x, const NormalizeOptions& options = {});
struct CosineSimilarityOptions {
  std::int64_t dim = 1;
  double eps = 1e-8;
};
/// a · b / (max(‖a‖, eps) max(‖b‖, eps)) along a dimension of the broadcast shapes.
Tensor cosine_similarity(const Tensor& a, const Tensor& b,
                         const CosineSimilarityOptions& options = {});

struct VarMean {
  Tensor var, mean;
};
/// var and mean over `dims` (none: all), as rondo::var and rondo::mean.
VarMean var_mean(const Tensor& x, const Dims& dims = {}, std::int64_t correction = 1,
                 Flag keepdim = false);
/// The indices that sort a dimension (i64), equal elements in their order.
Tensor argsort(const Tensor& x, std::int64_t dim = -1, bool descending = false);
Tensor argsort(const Tensor& x, std::same_as<bool> auto) = delete;  // write argsort(x, -1, true)

}  // namespace rondo
