// Linear algebra against PyTorch in f64 (tests/golden/make_linalg.py), and against what each
// decomposition promises.

#include "extras/linalg/linalg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "autograd/gradcheck.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/composed.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/subscript.h"
#include "autograd/ops/unary.h"
#include "support/errors.h"
#include "support/golden_case.h"
#include "support/support.h"
#include "tensor/creation.h"

namespace rondo::test {
namespace {

using X = const Tensors&;

bool has_lapack() {
  try {
    linalg::inv(eye(1));
    return true;
  } catch (const Error&) {
    return false;
  }
}

class Linalg : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_lapack()) GTEST_SKIP() << "this rondo was built without LAPACK";
  }
};

Tensor t(const Tensor& x) { return transpose(x, -2, -1); }
Tensor symmetric(const Tensor& x) { return matmul(x, t(x)) + eye(x.size(-2), -1, x.options()); }

TEST_F(Linalg, ResultsAndGradientsAreThoseOfPyTorch) {
  GoldenCases cases = {
      {"inv", [](X x) { return linalg::inv(x[0]); }},
      {"det", [](X x) { return linalg::det(x[0]); }},
      {"slogdet", [](X x) { return linalg::slogdet(x[0]).logabsdet; }},
      {"cholesky", [](X x) { return linalg::cholesky(symmetric(x[0])); }},
      {"eigh.values", [](X x) { return linalg::eigh(symmetric(x[0])).values; }},
      {"eigh.vectors", [](X x) { return abs(linalg::eigh(symmetric(x[0])).vectors); }},
  };
  for (const char* name : {"solve", "solve.vector", "solve.batch", "solve.vectors", "solve.rows"})
    cases[name] = [](X x) { return linalg::solve(x[0], x[1]); };
  for (const std::string shape : {"tall", "square", "wide"}) {
    cases["qr." + shape + ".r"] = [](X x) { return abs(linalg::qr(x[0]).r); };
    cases["qr." + shape + ".q"] = [](X x) { return abs(linalg::qr(x[0]).q); };
    cases["svd." + shape + ".s"] = [](X x) { return linalg::svd(x[0]).s; };
    cases["svd." + shape + ".u"] = [](X x) { return abs(linalg::svd(x[0]).u); };
    cases["svd." + shape + ".vh"] = [](X x) { return abs(linalg::svd(x[0]).vh); };
  }
  // The gradient of this one solves with a matrix of condition number 275, which multiplies errors.
  const GoldenCases ill_conditioned = {{"qr.wide.q", cases.extract("qr.wide.q").mapped()}};
  expect_cases("linalg.txt", ill_conditioned, 64 * 275);
  expect_cases("linalg.txt", cases);
}

TEST_F(Linalg, DecompositionsKeepTheirPromises) {
  manual_seed(5);
  for (const DType dtype : {f32, f64}) {
    const double tolerance = dtype == f32 ? 1e-4 : 1e-12;
    for (const Dims& shape : {Dims{7, 4}, Dims{5, 5}, Dims{2, 3, 3, 6}, Dims{1, 1}}) {
      const Tensor a = randn(shape, {.dtype = dtype});
      const auto [q, r] = linalg::qr(a);
      EXPECT_TRUE(allclose(matmul(q, r), a, {.atol = tolerance}));
      EXPECT_TRUE(equal(r, triu(r)));
      const auto [u, s, vh] = linalg::svd(a);
      EXPECT_TRUE(allclose(matmul(u * s.unsqueeze(-2), vh), a, {.atol = tolerance}));
      const Tensor square_matrix = symmetric(a);
      const Tensor unit =
          expand(eye(square_matrix.size(-1), -1, a.options()), square_matrix.shape());
      const Tensor l = linalg::cholesky(square_matrix);
      EXPECT_TRUE(allclose(matmul(l, t(l)), square_matrix, {.atol = 100 * tolerance}));
      const auto [values, v] = linalg::eigh(square_matrix);
      EXPECT_TRUE(allclose(matmul(v * values.unsqueeze(-2), t(v)), square_matrix,
                           {.atol = 100 * tolerance}));
      EXPECT_TRUE(allclose(matmul(t(v), v), unit, {.atol = tolerance}));
      EXPECT_TRUE(allclose(matmul(linalg::inv(square_matrix), square_matrix), unit,
                           {.atol = 100 * tolerance}));
      const auto [sign, log] = linalg::slogdet(square_matrix);
      EXPECT_TRUE(allclose(sum(rondo::log(values), {-1}), log, {.atol = 100 * tolerance}));
      EXPECT_TRUE((sign == 1).all().item<bool>());
    }
  }
  // No matrices, and matrices of no elements.
  EXPECT_EQ(linalg::inv(zeros({0, 3, 3})).shape(), (Dims{0, 3, 3}));
  EXPECT_EQ(linalg::solve(zeros({0, 0}), zeros({0, 2})).shape(), (Dims{0, 2}));
  EXPECT_EQ(linalg::svd(zeros({0, 3})).s.shape(), (Dims{0}));
  EXPECT_EQ(linalg::det(zeros({0, 0})).item(), 1);
  EXPECT_EQ(linalg::solve(ones({1, 1, 1}), ones({1})).shape(), (Dims{1, 1}));
  // The gradient of a symmetric matrix is symmetric.
  const Tensor m = tensor<double>({2, 1, 1, 3}, {2, 2}).requires_grad_();
  abs(linalg::eigh(m).vectors)[{0, 0}].backward();
  EXPECT_TRUE(all_close(m.grad(), t(m.grad()), 1e-15));
  // A strided matrix, and a determinant that would overflow.
  const Tensor a = tensor<double>({2, 9, 1, 9, 1, 9, 1, 9}, {2, 4});
  EXPECT_DOUBLE_EQ(linalg::det(a[{Slice(), Slice(None, None, 2)}]).item(), 1);
  const auto [sign, log] = linalg::slogdet(eye(200, -1, {.dtype = f64}) * -1e10);
  EXPECT_EQ(sign.item(), 1);
  EXPECT_NEAR(log.item(), 200 * std::log(1e10), 1e-9);
  EXPECT_EQ(linalg::slogdet(zeros({2, 2})).logabsdet.item(), -INFINITY);
  EXPECT_EQ(linalg::slogdet(zeros({2, 2})).sign.item(), 0);
}

TEST_F(Linalg, ComposedFunctionsAreThoseOfPyTorch) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  GoldenCases cases = {
      {"eigvalsh", [](X x) { return linalg::eigvalsh(symmetric(x[0])); }},
      {"svdvals", [](X x) { return linalg::svdvals(x[0]); }},
      {"solve_triangular.upper",
       [](X x) { return linalg::solve_triangular(x[0], x[1], {.upper = true}); }},
      {"solve_triangular.lower",
       [](X x) { return linalg::solve_triangular(x[0], x[1], {.upper = false}); }},
      {"solve_triangular.unit",
       [](X x) {
         return linalg::solve_triangular(x[0], x[1], {.upper = false, .unitriangular = true});
       }},
      {"matrix_exp", [](X x) { return linalg::matrix_exp(x[0]); }},
      {"matrix_exp.large", [](X x) { return linalg::matrix_exp(x[0] * 4); }},
      {"matrix_norm.dims",
       [](X x) {
         return linalg::matrix_norm(x[0], 1, {0, 2}, true);
       }},
      {"norm", [](X x) { return linalg::norm(x[0]); }},
      {"norm.vector", [](X x) { return linalg::norm(x[0], 3); }},
      {"norm.matrix", [](X x) { return linalg::norm(x[0], 2); }},
      {"norm.dims",
       [](X x) {
         return linalg::norm(x[0], "nuc", {0, 1});
       }},
  };
  for (const char* name : {"pinv.tall", "pinv.square", "pinv.wide", "pinv.rank2"})
    cases[name] = [](X x) { return linalg::pinv(x[0]); };
  for (const char* name : {"lstsq.tall", "lstsq.wide"})
    cases[name] = [](X x) { return linalg::lstsq(x[0], x[1]).solution; };
  for (const std::int64_t n : {-2, 0, 1, 5})
    cases[concat("matrix_power.", n)] = [n](X x) {
      return linalg::matrix_power(x[0], n) + x[0] * 0;
    };
  for (const std::string ord : {"fro", "nuc"}) {
    cases["matrix_norm." + ord] = [ord](X x) { return linalg::matrix_norm(x[0], ord); };
    cases["cond." + ord] = [ord](X x) { return linalg::cond(x[0], ord); };
  }
  for (const double ord : {2.0, -2.0, 1.0, -1.0, inf, -inf}) {
    cases[concat("matrix_norm.", ord)] = [ord](X x) { return linalg::matrix_norm(x[0], ord); };
    cases[concat("cond.", ord)] = [ord](X x) { return linalg::cond(x[0], ord); };
  }
  for (const double ord : {0.0, 2.0, 3.0, -1.0, inf, -inf})
    cases[concat("vector_norm.", ord)] = [ord](X x) {
      return linalg::vector_norm(x[0], ord, {1}) + sum(x[0]) * 0;
    };
  expect_cases("linalg.txt", cases);
}

TEST_F(Linalg, RanksAndResiduals) {
  const Tensor a = tensor<double>({1, 2, 3, 2, 4, 6, 0, 1, 1}, {3, 3});
  EXPECT_EQ(linalg::matrix_rank(stack({a, eye(3, -1, {.dtype = f64})})).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(linalg::matrix_rank(eye(3), {.atol = 1.5}).item(), 0);
  EXPECT_EQ(linalg::matrix_rank(zeros({0, 3})).item(), 0);
  EXPECT_EQ(linalg::pinv(zeros({0, 3})).shape(), (Dims{3, 0}));
  EXPECT_EQ(linalg::cond(tensor<double>({1, 1, 1, 1}, {2, 2})).item() > 1e15, true);
  // A line through 0, 1, 1.
  const Tensor places = tensor<double>({1, 0, 1, 1, 1, 2}, {3, 2}),
               heights = tensor<double>({0, 1, 1});
  const auto [solution, residuals, rank] = linalg::lstsq(places, heights);
  EXPECT_TRUE(all_close(solution, tensor<double>({1. / 6, 0.5}), 1e-14));
  EXPECT_NEAR(residuals.item(), 1. / 6, 1e-14);
  EXPECT_EQ(rank.item(), 2);
  EXPECT_EQ(linalg::matrix_exp(zeros({2, 0, 0})).shape(), (Dims{2, 0, 0}));
  EXPECT_TRUE(all_close(linalg::matrix_exp(tensor({0.F, 1.F, 0.F, 0.F}, {2, 2})),
                        tensor({1.F, 1.F, 0.F, 1.F}, {2, 2}), 1e-6));
}

TEST_F(Linalg, TheGradientOfDetOfASingularMatrixIsItsCofactors) {
  const Tensor a = tensor<double>({1, 2, 3, 2, 4, 6, 0, 1, 1}, {3, 3}).requires_grad_();
  linalg::det(a).backward();
  EXPECT_TRUE(all_close(a.grad(), tensor<double>({-2, -2, 2, 1, 1, -1, 0, 0, 0}, {3, 3}), 1e-14));
  // Of rank 1: all cofactors are 0.
  const Tensor b = tensor<double>({1, 2, 3, 2, 4, 6, 3, 6, 9}, {3, 3}).requires_grad_();
  linalg::det(b).backward();
  EXPECT_TRUE(all_close(b.grad(), zeros({3, 3}, {.dtype = f64}), 1e-13));
}

// A large matrix must not cost the others of its batch their digits.
TEST_F(Linalg, MatrixExpScalesEachMatrixByItself) {
  const Tensor small = tensor<float>({-0.01F, 0.02F, 0.03F, -0.02F}, {2, 2});
  const Tensor large = tensor<float>({-4000, 1, 1, -4000}, {2, 2});
  const Tensor both = linalg::matrix_exp(stack({small, large}));
  EXPECT_TRUE(test::identical(both[0], linalg::matrix_exp(small)));
  EXPECT_NEAR(both[0][0][0].item<float>(), 0.990345895, 1e-7);
}

TEST_F(Linalg, SecondDerivatives) {
  manual_seed(6);
  const Tensor a = randn({3, 3}, {.dtype = f64}).requires_grad_();
  const Tensor b = randn({3, 2}, {.dtype = f64}).requires_grad_();
  const auto checked = [&](const char* name, const std::function<Tensor(X)>& f,
                           const Tensors& inputs) {
    SCOPED_TRACE(name);
    const GradcheckResult result =
        gradgradcheck([&](X x) { return Tensors{square(f(x))}; }, inputs, {.atol = 1e-4});
    EXPECT_TRUE(result.ok) << result.message;
  };
  checked("solve", [](X x) { return linalg::solve(x[0], x[1]); }, {a, b});
  checked("det", [](X x) { return linalg::det(x[0]); }, {a});
  checked("slogdet", [](X x) { return linalg::slogdet(x[0]).logabsdet; }, {a});
  checked("cholesky", [](X x) { return linalg::cholesky(symmetric(x[0])); }, {a});
  checked("qr", [](X x) { return linalg::qr(x[0]).r; }, {a});
  checked("eigh", [](X x) { return linalg::eigh(symmetric(x[0])).values; }, {a});
  checked("svd", [](X x) { return linalg::svd(x[0]).s; }, {a});
  checked("eigh.vectors", [](X x) { return abs(linalg::eigh(symmetric(x[0])).vectors); }, {a});
  checked("svd.u", [](X x) { return abs(linalg::svd(x[0]).u); }, {a});
  checked("svd.vh", [](X x) { return abs(linalg::svd(x[0]).vh); }, {b});
  checked("pinv", [](X x) { return linalg::pinv(x[0]); }, {b});
  checked("matrix_exp", [](X x) { return linalg::matrix_exp(x[0]); }, {a});
  checked("qr.q", [](X x) { return abs(linalg::qr(x[0]).q); }, {a});
}

TEST_F(Linalg, Errors) {
  EXPECT_ERROR(linalg::inv(ones({2, 3})), ShapeError,
               "linalg::inv: expected square matrices (…, n, n), got [2, 3]");
  EXPECT_ERROR(linalg::qr(ones({3})), ShapeError, "expected matrices (…, m, n)");
  EXPECT_ERROR(linalg::inv(ones({2, 2}, {.dtype = f16})), DTypeError,
               "is f16; expected f32 or f64");
  EXPECT_ERROR(linalg::solve(eye(2), ones({3, 1})), ShapeError, "must have 2 rows");
  EXPECT_ERROR(linalg::solve(eye(2), ones({2}, {.dtype = f64})), DTypeError, "A is f32, B is f64");
  EXPECT_ERROR(linalg::matrix_power(ones({2, 3}), 2), ShapeError,
               "linalg::matrix_power: expected square matrices (…, n, n), got [2, 3]");
  EXPECT_ERROR(linalg::matrix_exp(full({1, 1}, INFINITY)), Error, "a matrix is not finite");
  EXPECT_ERROR(linalg::matrix_norm(eye(2), 3), Error, "linalg::matrix_norm: ord is 3; there are");
  EXPECT_ERROR(linalg::matrix_norm(eye(2), "max"), Error, "ord is \"max\"; there are \"fro\"");
  EXPECT_ERROR(linalg::matrix_norm(eye(2), "fro", {0, -2}), ShapeError, "are the same");
  EXPECT_ERROR(linalg::norm(ones({1, 1, 1}), 2), ShapeError, "expected 1 or 2 dimensions, got 3");
  EXPECT_ERROR(linalg::lstsq(ones({3, 2}), ones({2, 1})), ShapeError, "must have as many rows");
  EXPECT_ERROR(linalg::vector_norm(ones({2}).to(i64), 0), DTypeError, "the input is i64");
  const Tensor second = stack({eye(2), ones({2, 2})});
  EXPECT_ERROR(linalg::inv(second), Error,
               "linalg::inv: matrix 1 of the batch is singular or contains NaN");
  EXPECT_ERROR(linalg::cholesky(-eye(2)), Error, "matrix 0 of the batch is not positive definite");
  for (const auto& f : std::vector<std::function<void(const Tensor&)>>{
           linalg::inv, linalg::det, linalg::cholesky, linalg::qr, linalg::eigh, linalg::svd})
    EXPECT_ERROR(f(full({2, 2}, NAN)), Error, "contains NaN");
  const Tensor singular = ones({2, 2}, {.dtype = f64}).requires_grad_();
  EXPECT_ERROR(linalg::det(singular).backward({}, true, true), AutogradError,
               "second derivative at a singular matrix");
}

}  // namespace
}  // namespace rondo::test
