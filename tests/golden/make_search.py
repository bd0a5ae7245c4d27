"""Goldens for tests/autograd/search_test.cpp: python3 tests/golden/make_search.py (needs torch). Running products and extremes,
order statistics, and places in sorted data."""

import torch

import golden

torch.manual_seed(11)
out = {}
inf, nan = float("inf"), float("nan")


def case(name, f, *shapes, grid=None):
    golden.case(out, name, f, *(golden.drawn(s, grid=grid) for s in shapes))


for name in ("cumprod", "logcumsumexp"):
    for d in (0, 1, -1):
        case(f"{name}.{d}", lambda x, n=name, d=d: getattr(torch, n)(x, d), (3, 5, 2))
golden.case(out, "cumprod.zeros", lambda x: torch.cumprod(x, 0),
              torch.tensor([2.0, 0, 3, 0, 4], dtype=torch.float64))
for name in ("cummax", "cummin"):
    case(f"{name}", lambda x, n=name: getattr(torch, n)(x, 1).values, (2, 7))
    case(f"{name}.ties", lambda x, n=name: getattr(torch, n)(x, 0).values, (9, 2), grid=1)
case("kthvalue", lambda x: torch.kthvalue(x, 2).values, (3, 4))
case("kthvalue.kept", lambda x: torch.kthvalue(x, 3, 0, keepdim=True).values, (3, 4))
case("median", lambda x: torch.median(x), (3, 4))
case("median.1", lambda x: torch.median(x, 1).values, (3, 5))
for kind in ("linear", "lower", "higher", "nearest", "midpoint"):
    for q in (0.0, 0.3, 0.5, 1.0):
        case(f"quantile.{kind}.{q}", lambda x, k=kind, q=q: torch.quantile(x, q, 0, interpolation=k), (6, 2))
case("quantile.all", lambda x: torch.quantile(x, 0.25), (3, 3))

x = torch.tensor([3.0, nan, 1, 3, -2, nan, 5, -inf, 5], dtype=torch.float64)
out["nan.x"] = x
for name in ("cummax", "cummin"):
    y = getattr(torch, name)(x, 0)
    out[f"nan.{name}"], out[f"nan.{name}.at"] = y.values, y.indices
out["nan.median"] = torch.median(x, 0).values
out["nan.quantile"] = torch.quantile(x, 0.5)
whole = torch.tensor([[3, 1, 3], [0, 1, 7], [-4, 3, 0]])
values, inverse, counts = torch.unique(whole, return_inverse=True, return_counts=True)
out.update({"unique.x": whole, "unique.values": values, "unique.inverse": inverse, "unique.counts": counts})
line = torch.tensor([1.0, 2, 2, 4, 9], dtype=torch.float64)
places = torch.tensor([[0.0, 1, 2], [3, 9, 10]], dtype=torch.float64)
rows = torch.tensor([[1.0, 3, 5, 7], [2, 2, 2, 8]], dtype=torch.float64)
out.update({"line": line, "rows": rows, "places": places})
for right in (False, True):
    out[f"searchsorted.{int(right)}"] = torch.searchsorted(line, places, right=right)
    out[f"rows.{int(right)}"] = torch.searchsorted(rows, places, right=right)
    out[f"bucketize.{int(right)}"] = torch.bucketize(places, line, right=right)
counted = torch.tensor([0, 3, 1, 3, 3])
out["bincount"] = torch.bincount(counted, minlength=6)
out["bincount.weights"] = torch.bincount(counted, torch.tensor([0.5, 1, 2, 0.25, 4], dtype=torch.float64))
out["isin"] = torch.isin(whole, torch.tensor([3, 0, 99]))
golden.write("search.txt", out)
