"""Goldens for tests/extras/linalg/linalg_test.cpp: python3 tests/golden/make_linalg.py (needs torch). Only what does not depend
on the signs of vectors."""

import torch

import golden

torch.manual_seed(17)
out = {}
L = torch.linalg


def case(name, f, *shapes):
    golden.case(out, name, f, *(golden.drawn(s) for s in shapes))


def symmetric(x):
    return x @ x.mT + torch.eye(x.shape[-1], dtype=x.dtype)


case("solve", L.solve, (3, 3), (3, 2))
case("solve.vector", L.solve, (3, 3), (3,))
case("solve.batch", L.solve, (2, 3, 3), (1, 3, 2))
case("solve.vectors", L.solve, (2, 3, 3), (2, 3))
case("solve.rows", L.solve, (2, 1, 3, 3), (2, 3, 1))
case("inv", L.inv, (2, 3, 3))
case("det", L.det, (2, 4, 4))
case("slogdet", lambda x: L.slogdet(x).logabsdet, (4, 4))
case("cholesky", lambda x: L.cholesky(symmetric(x)), (2, 3, 3))
for name, shape in (("tall", (2, 4, 3)), ("square", (3, 3)), ("wide", (3, 5))):
    case(f"qr.{name}.r", lambda x: L.qr(x).R.abs(), shape)
    case(f"qr.{name}.q", lambda x: L.qr(x).Q.abs(), shape)
    case(f"svd.{name}.s", lambda x: L.svd(x, full_matrices=False).S, shape)
    case(f"svd.{name}.u", lambda x: L.svd(x, full_matrices=False).U.abs(), shape)
    case(f"svd.{name}.vh", lambda x: L.svd(x, full_matrices=False).Vh.abs(), shape)
case("eigh.values", lambda x: L.eigh(symmetric(x)).eigenvalues, (2, 3, 3))
case("eigh.vectors", lambda x: L.eigh(symmetric(x)).eigenvectors.abs(), (2, 3, 3))
case("eigvalsh", lambda x: L.eigvalsh(symmetric(x)), (3, 3))
case("svdvals", L.svdvals, (2, 3, 4))
for name, shape in (("tall", (2, 4, 2)), ("square", (3, 3)), ("wide", (2, 4))):
    case(f"pinv.{name}", L.pinv, shape)
low_rank = golden.drawn((4, 2)) @ golden.drawn((2, 3))
golden.case(out, "pinv.rank2", L.pinv, low_rank)
case("lstsq.tall", lambda a, b: L.lstsq(a, b).solution, (2, 4, 2), (2, 4, 3))
case("lstsq.wide", lambda a, b: L.lstsq(a, b).solution, (2, 4), (2, 1))
case("solve_triangular.upper", lambda a, b: L.solve_triangular(a, b, upper=True), (3, 3), (3, 2))
case("solve_triangular.lower", lambda a, b: L.solve_triangular(a, b, upper=False), (2, 3, 3), (2, 3, 1))
case("solve_triangular.unit", lambda a, b: L.solve_triangular(a, b, upper=False, unitriangular=True), (3, 3), (3, 2))
for n in (-2, 0, 1, 5):
    case(f"matrix_power.{n}", lambda x, n=n: L.matrix_power(x, n) + 0 * x, (3, 3))
case("matrix_exp", L.matrix_exp, (2, 3, 3))
case("matrix_exp.large", lambda x: L.matrix_exp(4 * x), (3, 3))
for ord in ("fro", "nuc", 2, -2, 1, -1, float("inf"), -float("inf")):
    case(f"matrix_norm.{ord}", lambda x, o=ord: L.matrix_norm(x, o), (2, 3, 4))
    # Backward through torch.linalg.cond fails for most norms.
    case(f"cond.{ord}", lambda x, o=ord: L.cond(x, o) if o in (2, -2) else L.matrix_norm(x, o) * L.matrix_norm(L.inv(x), o), (3, 3))
case("matrix_norm.dims", lambda x: L.matrix_norm(x, 1, (0, 2), True), (3, 2, 4))
for ord in (0, 2, 3, -1, float("inf"), -float("inf")):
    case(f"vector_norm.{ord}", lambda x, o=ord: L.vector_norm(x, o, 1) + 0 * x.sum(), (2, 3))
case("norm", lambda x: L.norm(x), (2, 3, 2))
case("norm.vector", lambda x: L.norm(x, 3), (4,))
case("norm.matrix", lambda x: L.norm(x, 2), (3, 2))
case("norm.dims", lambda x: L.norm(x, "nuc", (0, 1)), (3, 2, 2))
golden.write("linalg.txt", out)
