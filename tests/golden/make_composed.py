"""Goldens for tests/autograd/composed_test.cpp: python3 tests/golden/make_composed.py (needs torch). For each case its
inputs NAME.0, NAME.1, …, the result NAME.y, and the gradients NAME.d0, … of sum(cos(arange) · y)."""

import torch
import torch.nn.functional as F

import golden

torch.manual_seed(3)
out = {}


def case(name, f, *shapes, low=-2.0, high=2.0):
    xs = [(torch.rand(s, dtype=torch.float64) * (high - low) + low).requires_grad_() for s in shapes]
    y = f(*xs)
    weights = torch.cos(torch.arange(y.numel(), dtype=torch.float64)).reshape(y.shape)
    gradients = torch.autograd.grad((y * weights).sum(), xs)
    for i, x in enumerate(xs):
        out[f"{name}.{i}"] = x.detach()
        out[f"{name}.d{i}"] = gradients[i]
    out[f"{name}.y"] = y.detach()


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
