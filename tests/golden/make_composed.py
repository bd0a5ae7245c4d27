"""Goldens for tests/autograd/composed_test.cpp: python3 tests/golden/make_composed.py (needs torch). The cases are
written by golden.case."""

import torch
import torch.nn.functional as F

import golden

torch.manual_seed(3)
out = {}


def case(name, f, *shapes, grid=None):
    golden.case(out, name, f, *(golden.drawn(s, grid=grid) for s in shapes))


EQUATIONS = [
    ("ij,jk->ik", (2, 3), (3, 4)), ("ij,jk", (2, 3), (3, 4)), ("ij,kj->ik", (2, 3), (4, 3)), ("bij,bjk->bik", (2, 3, 2), (2, 2, 4)),
    ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 5, 4)), ("i,j->ij", (3,), (4,)), ("i,i->", (3,), (3,)), ("ii", (3, 3)),
    ("ii->i", (3, 3)), ("iij->ji", (2, 2, 3)), ("ijk->kji", (2, 3, 4)), ("ijk->j", (2, 3, 4)), ("ba", (2, 3)),
    ("...ij,...jk->...ik", (2, 1, 2, 3), (3, 3, 2)), ("i...->...", (2, 3, 2)), ("...", (2, 3)), ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)),
    ("ik,jkl,il->ij", (2, 3), (4, 3, 2), (2, 2)), ("bn,anm,bm->ba", (2, 3), (4, 3, 2), (2, 2)), ("ij,ij->ij", (2, 3), (2, 3)),
    ("ij,i->j", (1, 3), (2,)), (",i->i", (), (3,)), ("aB,Bc", (2, 3), (3, 2)),
]
for k, (equation, *shapes) in enumerate(EQUATIONS):
    case(f"einsum{k}", lambda *xs, e=equation: torch.einsum(e, *xs), *shapes)
golden.write_texts("einsum_equations.txt", {f"einsum{k}": e for k, (e, *_) in enumerate(EQUATIONS)})

case("outer", torch.outer, (3,), (4,))
case("dot", torch.dot, (5,), (5,))
case("addmm", lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2), (4,), (2, 3), (3, 4))
case("baddbmm", lambda c, a, b: torch.baddbmm(c, a, b, beta=-1, alpha=0.5), (2, 2, 4), (2, 2, 3), (2, 3, 4))
case("tensordot.2", lambda a, b: torch.tensordot(a, b, 2), (2, 3, 4), (3, 4, 2))
case("tensordot.0", lambda a, b: torch.tensordot(a, b, 0), (2, 3), (4,))
case("tensordot.lists", lambda a, b: torch.tensordot(a, b, ([0, 2], [2, 1])), (2, 3, 4), (5, 4, 2))
for d in (-2, -1, 0, 1, 3):
    case(f"tril.{d}", lambda x, d=d: torch.tril(x, d), (2, 3, 4))
    case(f"triu.{d}", lambda x, d=d: torch.triu(x, d), (2, 3, 4))
case("movedim", lambda x: torch.movedim(x, 0, -1), (2, 3, 4))
case("unflatten", lambda x: torch.unflatten(x, 1, (2, -1)), (2, 6))
case("roll", lambda x: torch.roll(x, (1, -2), (0, 1)), (3, 4))
case("logaddexp", torch.logaddexp, (2, 3), (3,))
case("lerp.0.25", lambda a, b: torch.lerp(a, b, 0.25), (2, 3), (2, 3))
case("lerp.0.75", lambda a, b: torch.lerp(a, b, 0.75), (2, 3), (2, 3))
case("lerp.tensor", torch.lerp, (2, 3), (2, 3), (2, 3))
case("hypot", torch.hypot, (2, 3), (3,))
case("normalize", F.normalize, (2, 3, 2))
case("normalize.1", lambda x: F.normalize(x, p=1, dim=0), (3, 2))
case("cosine_similarity", lambda a, b: F.cosine_similarity(a, b, dim=1), (4, 3), (1, 3))
case("diagonal", lambda x: x.diagonal(1, 0, 2), (3, 2, 4))
case("diagonal.below", lambda x: x.diagonal(-1, -1, 0), (3, 2, 4))
case("diagonal.none", lambda x: x.diagonal(5), (3, 4))
case("diag.vector", lambda x: x.diag(-1), (3,))
case("diag.matrix", lambda x: x.diag(1), (3, 4))
case("diag_embed", lambda x: torch.diag_embed(x, 1), (2, 3))
case("trace", torch.trace, (3, 4))
case("meshgrid", lambda a, b, c: torch.stack(torch.meshgrid(a, b, c, indexing="ij")), (2,), (3,), (2,))
case("meshgrid.xy", lambda a, b, c: torch.stack(torch.meshgrid(a, b, c, indexing="xy")), (2,), (3,), (2,))
case("tile", lambda x: torch.tile(x, (2,)), (2, 3))
case("repeat_interleave", lambda x: x.repeat_interleave(2, 1), (2, 3))
case("repeat_interleave.flat", lambda x: x.repeat_interleave(3), (2, 2))
case("repeat_interleave.each", lambda x: x.repeat_interleave(torch.tensor([2, 0, 3]), 0), (3, 2))
case("cdist", torch.cdist, (2, 3, 4), (2, 2, 4))
case("cdist.1", lambda a, b: torch.cdist(a, b, p=1), (3, 4), (2, 4))
for name in ("amax", "amin", "prod"):
    f = getattr(torch, name)
    case(f"{name}.all", lambda x, f=f: f(x), (2, 3))
    case(f"{name}.1", lambda x, f=f: f(x, 1), (2, 3, 2))
    case(f"{name}.kept", lambda x, f=f: f(x, -2, keepdim=True), (2, 3, 2))
    case(f"{name}.ties", lambda x, f=f: f(x, 0), (6, 4), grid=1)
case("amax.two", lambda x: torch.amax(x, (0, 2)), (2, 3, 2))

numbers = torch.tensor([0, 1, -1, 1 + 1e-6, 1e-9, float("inf"), -float("inf"), float("nan"), 1e30], dtype=torch.float64)
a, b = numbers.repeat_interleave(len(numbers)), numbers.repeat(len(numbers))
out["isclose.0"], out["isclose.1"] = a, b
out["isclose.y"] = torch.isclose(a, b).double()
out["isclose.nan"] = torch.isclose(a, b, equal_nan=True).double()
out["isclose.loose"] = torch.isclose(a, b, rtol=0.5, atol=0.6).double()
out["nan_to_num.f32"] = torch.nan_to_num(numbers.float())
out["nan_to_num.told"] = torch.nan_to_num(numbers, nan=3, posinf=4, neginf=-5)
out["argsort"] = torch.argsort(torch.tensor([3.0, 1, 2, 1, 3]), stable=True)
golden.write("composed.txt", out)
