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
golden.write("linalg.txt", out)
