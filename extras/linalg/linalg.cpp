// The gradients are matrix formulas (Giles, 2008, "An extended collection of matrix derivative
// results"; Townsend, 2016, "Differentiating the singular value decomposition"), written with
// recorded ops, so that gradients have gradients.

#include "extras/linalg/linalg.h"

#include <algorithm>

#include "autograd/autocast.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/composed.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "autograd/record.h"
#include "extras/linalg/lapack.h"
#include "tensor/backend.h"
#include "tensor/creation.h"
#include "tensor/record_function.h"

namespace rondo::linalg {
namespace {

Tensor transposed(const Tensor& x) { return transpose(x, -2, -1); }

/// The sizes before the matrices.
Dims batch_of(const Tensor& a) { return Dims(a.shape().begin(), a.shape().end() - 2); }
Dims joined(Dims batch, std::initializer_list<std::int64_t> sizes) {
  for (std::int64_t size : sizes) batch.push_back(size);
  return batch;
}

void require_matrices(const char* op, const Tensor& a, bool square) {
  require<DeviceError>(a.device().is_cpu(), op, ": runs only on the CPU; use x.cpu()");
  require<DTypeError>(a.dtype() == f32 || a.dtype() == f64, op, ": the matrix is ", a.dtype(),
                      "; expected f32 or f64");
  require<ShapeError>(a.dim() >= 2 && (!square || a.size(-1) == a.size(-2)), op, ": expected ",
                      square ? "square matrices (…, n, n)" : "matrices (…, m, n)", ", got ",
                      a.shape());
}

/// A copy (count, rows, columns) in row-major order that LAPACK may overwrite.
Tensor copied(const Tensor& a) {
  const NoGradGuard no_grad;
  const Tensor y = Tensor::empty(a.shape(), a.options());
  backend(a).copy(a, y);
  return reshape(y, {numel_of(batch_of(a)), a.size(-2), a.size(-1)});
}

void require_result(const char* op, std::int64_t failed, const char* reason) {
  require(failed < 0, op, ": matrix ", failed, " of the batch ", reason, " or contains NaN");
}

struct SolveBackward final : Node {
  SavedTensor a, x;
  SolveBackward(const Tensor& a, const Tensor& x) : a(a), x(x, SavedTensor::output) {}
  const char* name() const override { return "linalg::solve"; }
  Tensors backward(const Tensors& dx) override {
    const Tensor db = solve(transposed(a.get(*this)), dx[0]);
    return {wants(0) ? neg(matmul(db, transposed(x.get(*this)))) : Tensor(), db};
  }
  void release_saved() override {
    a.reset();
    x.reset();
  }
};

/// The derivative of det A is adj(A)ᵀ = det(A) A⁻ᵀ. For a singular A it comes from the singular
/// values: det(U Vᵀ) U diag(Π of the others) Vᵀ.
struct DetBackward final : Node {
  SavedTensor a, y;
  DetBackward(const Tensor& a, const Tensor& y) : a(a), y(y, SavedTensor::output) {}
  const char* name() const override { return "linalg::det"; }
  Tensors backward(const Tensors& dy) override {
    const Tensor matrix = a.get(*this), value = y.get(*this);
    const auto as_matrix = [](const Tensor& x) { return unsqueeze(unsqueeze(x, -1), -1); };
    if (all(ne(value, 0)).item<bool>())
      return {mul(as_matrix(mul(dy[0], value)), transposed(inv(matrix)))};
    require<AutogradError>(!GradMode::is_enabled(),
                           "linalg::det: the second derivative at a singular matrix is not "
                           "implemented");
    const auto [u, s, vh] = svd(matrix);
    const std::int64_t n = s.size(-1);
    Tensors others;
    for (std::int64_t i = 0; i < n; ++i)
      others.push_back(
          mul(prod(narrow(s, -1, 0, i), {-1}), prod(narrow(s, -1, i + 1, n - i - 1), {-1})));
    const Tensor sign = det(matmul(u, vh));
    const Tensor adjugate = matmul(mul(u, unsqueeze(stack(others, -1), -2)), vh);
    return {mul(as_matrix(mul(dy[0], sign)), adjugate)};
  }
  void release_saved() override {
    a.reset();
    y.reset();
  }
};

/// d log |det A| = tr(A⁻¹ dA).
struct LogDetBackward final : Node {
  SavedTensor a;
  explicit LogDetBackward(const Tensor& a) : a(a) {}
  const char* name() const override { return "linalg::slogdet"; }
  Tensors backward(const Tensors& dy) override {
    return {mul(unsqueeze(unsqueeze(dy[0], -1), -1), transposed(inv(a.get(*this))))};
  }
  void release_saved() override { a.reset(); }
};

/// dA = sym(L⁻ᵀ Φ(Lᵀ dL) L⁻¹), where Φ is the lower triangle with half of the diagonal.
struct CholeskyBackward final : Node {
  SavedTensor l;
  explicit CholeskyBackward(const Tensor& l) : l(l, SavedTensor::output) {}
  const char* name() const override { return "linalg::cholesky"; }
  Tensors backward(const Tensors& dl) override {
    const Tensor lower = l.get(*this), up = transposed(lower);
    const Tensor product = matmul(up, dl[0]);
    const Tensor phi = add(tril(product), tril(product, -1)) * 0.5;
    const Tensor left = solve(up, phi), both = transposed(solve(up, transposed(left)));
    return {add(both, transposed(both)) * 0.5};
  }
  void release_saved() override { l.reset(); }
};

/// Gradients of outputs that the loss does not use are undefined: as zeros.
Tensor or_zeros(const Tensor& gradient, const Tensor& like) {
  return gradient.defined() ? gradient : zeros_like(like);
}

/// dA = (dQ + Q copyltu(M)) R⁻ᵀ with M = R dRᵀ - dQᵀ Q, where copyltu mirrors the lower triangle.
struct QRBackward final : Node {
  SavedTensor q, r;
  QRBackward(const Tensor& q, const Tensor& r)
      : q(q, SavedTensor::output), r(r, SavedTensor::output, 1) {}
  const char* name() const override { return "linalg::qr"; }
  Tensors backward(const Tensors& d) override {
    const Tensor q = this->q.get(*this), r = this->r.get(*this);
    const Tensor dq = or_zeros(d[0], q), dr = or_zeros(d[1], r);
    const Tensor m = sub(matmul(r, transposed(dr)), matmul(transposed(dq), q));
    const Tensor mirrored = add(tril(m), transposed(tril(m, -1)));
    const Tensor left = add(dq, matmul(q, mirrored));
    return {transposed(solve(r, transposed(left)))};
  }
  void release_saved() override {
    q.reset();
    r.reset();
  }
};

Tensor skew(const Tensor& x) { return sub(x, transposed(x)); }

/// 1 / (x_j - x_i), and 0 on the diagonal.
Tensor inverse_gaps(const Tensor& x) {
  const Tensor gaps = sub(unsqueeze(x, -2), unsqueeze(x, -1));
  const Tensor diagonal = eye(x.size(-1), -1, x.options());
  return sub(reciprocal(add(gaps, diagonal)), diagonal);
}

/// dA = V (diag(dλ) + skew(Vᵀ dV) / 2 (λ_j - λ_i)) Vᵀ, which is symmetric as A is.
struct EighBackward final : Node {
  SavedTensor values, vectors;
  EighBackward(const Tensor& values, const Tensor& vectors)
      : values(values, SavedTensor::output), vectors(vectors, SavedTensor::output, 1) {}
  const char* name() const override { return "linalg::eigh"; }
  Tensors backward(const Tensors& d) override {
    const Tensor lambda = values.get(*this), v = vectors.get(*this);
    Tensor inner = diag_embed(or_zeros(d[0], lambda));
    if (d[1].defined())
      inner = add(inner, mul(skew(matmul(transposed(v), d[1])) * 0.5, inverse_gaps(lambda)));
    return {matmul(matmul(v, inner), transposed(v))};
  }
  void release_saved() override {
    values.reset();
    vectors.reset();
  }
};

/// dA = U (skew(Uᵀ dU) / E · S + S · skew(Vᵀ dV) / E + diag(ds)) Vᵀ with E = s_j² - s_i², plus what
/// dU and dV have outside of the spaces of U and V.
struct SVDBackward final : Node {
  SavedTensor u, s, vh;
  SVDBackward(const Tensor& u, const Tensor& s, const Tensor& vh)
      : u(u, SavedTensor::output), s(s, SavedTensor::output, 1), vh(vh, SavedTensor::output, 2) {}
  const char* name() const override { return "linalg::svd"; }
  Tensors backward(const Tensors& d) override {
    const Tensor u = this->u.get(*this), s = this->s.get(*this), vh = this->vh.get(*this);
    const Tensor ds = or_zeros(d[1], s), v = transposed(vh);
    const Tensor row = unsqueeze(s, -2), column = unsqueeze(s, -1);
    Tensor inner = diag_embed(ds);
    Tensor outside;
    const auto project = [](const Tensor& x, const Tensor& basis) {  // (I - B Bᵀ) x
      return sub(x, matmul(basis, matmul(transposed(basis), x)));
    };
    if (d[0].defined()) {
      inner = add(inner, mul(mul(skew(matmul(transposed(u), d[0])), inverse_gaps(square(s))), row));
      if (u.size(-2) > u.size(-1)) outside = matmul(div(project(d[0], u), row), vh);
    }
    if (d[2].defined()) {
      const Tensor dv = transposed(d[2]);
      inner = add(inner, mul(column, mul(skew(matmul(vh, dv)), inverse_gaps(square(s)))));
      if (v.size(-2) > v.size(-1)) {
        const Tensor more = matmul(u, transposed(div(project(dv, v), row)));
        outside = outside.defined() ? add(outside, more) : more;
      }
    }
    const Tensor da = matmul(matmul(u, inner), vh);
    return {outside.defined() ? add(da, outside) : da};
  }
  void release_saved() override {
    for (SavedTensor* saved : {&u, &s, &vh}) saved->reset();
  }
};

}  // namespace

namespace {

Tensor solved(const char* name, const Tensor& a, const Tensor& b) {
  require<ShapeError>(b.dim() >= 2 && b.size(-2) == a.size(-1), name, ": A has shape ", a.shape(),
                      "; B of shape ", b.shape(), " must have ", a.size(-1), " rows");
  const Dims batch = broadcast_shapes(batch_of(a), batch_of(b));
  const Tensor each_a = expand(a, joined(batch, {a.size(-2), a.size(-1)})),
               each_b = expand(b, joined(batch, {b.size(-2), b.size(-1)}));
  const Tensor x = copied(each_b);
  require_result(name, lapack::solve(copied(each_a), x), "is singular");
  const Tensor y = x.as_view(each_b.shape(), strides_of(each_b.shape()), 0);
  return record<SolveBackward>({each_a, each_b}, y, each_a, y);
}

}  // namespace

Tensor solve(const Tensor& a, const Tensor& b) {
  const OpRange op("linalg::solve");
  constexpr const char* name = "linalg::solve";
  require_matrices(name, a, true);
  require_one_device(name, {a, b});
  require<DTypeError>(a.dtype() == b.dtype(), name, ": A is ", a.dtype(), ", B is ", b.dtype());
  const bool is_vector = b.dim() == 1 || b.shape() == Dims(a.shape().begin(), a.shape().end() - 1);
  return is_vector ? squeeze(solved(name, a, unsqueeze(b, -1)), -1) : solved(name, a, b);
}

Tensor inv(const Tensor& a) {
  const OpRange op("linalg::inv");
  require_matrices("linalg::inv", a, true);
  return solved("linalg::inv", a, expand(eye(a.size(-1), -1, a.options()), a.shape()));
}

namespace {

/// The diagonal of U in the LU factorisation, and the sign of its row swaps: (count, n), (count).
std::pair<Tensor, Tensor> lu_diagonal(const char* op, const Tensor& a) {
  const Tensor factors = copied(a);
  const std::int64_t n = a.size(-1);
  const Tensor pivots = zeros({factors.size(0), n}, {.dtype = i32});
  require_result(op, lapack::lu(factors, pivots), "has no decomposition");
  // Each pivot that is not in its own row swaps two rows.
  const Tensor swaps = sum(to(ne(pivots, arange(1, n + 1, 1, {.dtype = i32})), i64), {-1});
  return {diagonal(factors, 0, -2, -1), to(1 - swaps % 2 * 2, a.dtype())};
}

}  // namespace

SignAndLog slogdet(const Tensor& a) {
  const OpRange op("linalg::slogdet");
  require_matrices("linalg::slogdet", a, true);
  const auto [sign, log] = no_grad([&] {
    const auto [diagonal, swaps] = lu_diagonal("linalg::slogdet", a);
    return std::pair{reshape(mul(swaps, prod(rondo::sign(diagonal), {-1})), batch_of(a)),
                     reshape(sum(rondo::log(abs(diagonal)), {-1}), batch_of(a))};
  });
  return {sign, record<LogDetBackward>({a}, log, a)};
}

Tensor det(const Tensor& a) {
  const OpRange op("linalg::det");
  require_matrices("linalg::det", a, true);
  const Tensor y = no_grad([&] {
    const auto [diagonal, swaps] = lu_diagonal("linalg::det", a);
    return reshape(mul(swaps, prod(diagonal, {-1})), batch_of(a));
  });
  return record<DetBackward>({a}, y, a, y);
}

Tensor cholesky(const Tensor& a) {
  const OpRange op("linalg::cholesky");
  require_matrices("linalg::cholesky", a, true);
  const Tensor factors = copied(a);
  require_result("linalg::cholesky", lapack::cholesky(factors), "is not positive definite");
  const Tensor l = no_grad([&] { return reshape(tril(factors), a.shape()); });
  return record<CholeskyBackward>({a}, l, l);
}

QR qr(const Tensor& a) {
  const OpRange op("linalg::qr");
  require_matrices("linalg::qr", a, false);
  const std::int64_t m = a.size(-2), n = a.size(-1);
  const NoAutocast off;
  if (m < n) {  // of the first m columns; the others follow: R = [R', Qᵀ A']
    const auto [q, r] = qr(narrow(a, -1, 0, m));
    return {q, cat({r, matmul(transposed(q), narrow(a, -1, m, n - m))}, -1)};
  }
  const Tensor q = copied(a), r = zeros({q.size(0), n, n}, a.options());
  require_result("linalg::qr", lapack::qr(q, r), "has no decomposition");
  const auto [first, second] = no_grad([&] {
    return std::pair{reshape(q, a.shape()), reshape(triu(r), joined(batch_of(a), {n, n}))};
  });
  record_all<QRBackward>({a}, {first, second}, first, second);
  return {first, second};
}

Eigen eigh(const Tensor& a) {
  const OpRange op("linalg::eigh");
  require_matrices("linalg::eigh", a, true);
  const std::int64_t n = a.size(-1);
  const Tensor vectors = copied(a), values = zeros({vectors.size(0), n}, a.options());
  require_result("linalg::eigh", lapack::eigh(vectors, values), "has no decomposition");
  const auto [first, second] = no_grad([&] {
    return std::pair{reshape(values, joined(batch_of(a), {n})), reshape(vectors, a.shape())};
  });
  record_all<EighBackward>({a}, {first, second}, first, second);
  return {first, second};
}

SVD svd(const Tensor& a) {
  const OpRange op("linalg::svd");
  require_matrices("linalg::svd", a, false);
  const Tensor work = copied(a);
  const std::int64_t count = work.size(0), m = a.size(-2), n = a.size(-1), k = std::min(m, n);
  const Dims batch = batch_of(a);
  const Tensor u = zeros({count, m, k}, a.options()), s = zeros({count, k}, a.options()),
               vh = zeros({count, k, n}, a.options());
  require_result("linalg::svd", lapack::svd(work, u, s, vh), "has no decomposition");
  const Tensors y = no_grad([&] {
    return Tensors{reshape(u, joined(batch, {m, k})), reshape(s, joined(batch, {k})),
                   reshape(vh, joined(batch, {k, n}))};
  });
  record_all<SVDBackward>({a}, y, y[0], y[1], y[2]);
  return {y[0], y[1], y[2]};
}

}  // namespace rondo::linalg
