"""Goldens for tests/autograd/interpolate_test.cpp: python3 tests/golden/make_interpolate.py (needs torch)."""

import torch
import torch.nn.functional as F

import golden

torch.manual_seed(13)
out = {}


def case(name, f, *shapes, grid=8):
    golden.case(out, name, f, *(golden.drawn(s, grid=grid) for s in shapes))


for mode, shape in (("nearest", (1, 2, 3, 4)), ("nearest-exact", (1, 2, 3, 4)), ("bilinear", (1, 2, 3, 4)), ("bicubic", (1, 1, 4, 5)),
                    ("linear", (2, 1, 5)), ("trilinear", (1, 1, 2, 3, 2))):
    n = len(shape) - 2
    sizes = {"larger": [7, 5, 6], "smaller": [2, 2, 1], "same": list(shape[2:]) + [0]}
    for name, size in sizes.items():
        for align in ((None,) if "nearest" in mode else (False, True)):
            case(f"{mode}.{name}.{int(bool(align))}",
                 lambda x, m=mode, s=size[:n], a=align: F.interpolate(x, size=s, mode=m, align_corners=a), shape)
    case(f"{mode}.factor", lambda x, m=mode: F.interpolate(x, scale_factor=1.7, mode=m), shape)
for mode in ("bilinear", "nearest"):
    for padding in ("zeros", "border", "reflection"):
        for align in (False, True):
            case(f"grid.{mode}.{padding}.{int(align)}",
                       lambda x, g, m=mode, p=padding, a=align: F.grid_sample(x, g, m, p, a), (2, 2, 3, 4), (2, 3, 2, 2), grid=None)
golden.write("interpolate.txt", out)
