"""Goldens for tests/autograd/pad_test.cpp and tests/nn/padding_test.cpp: python3 tests/golden/make_padding.py (needs torch)."""

import torch
import torch.nn.functional as F
from torch import nn

import golden
from golden import fill

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
out = {}
line, image, volume = fill((2, 3, 5), 0), fill((1, 2, 4, 5), 0), fill((1, 1, 3, 4, 3), 0)
for mode in ("constant", "reflect", "replicate", "circular"):
    golden.case(out, f"{mode}.1d", lambda x: F.pad(x, (3, -1), mode), line)
    golden.case(out, f"{mode}.2d", lambda x: F.pad(x, (2, 4, -1, 3), mode), image)
    golden.case(out, f"{mode}.3d", lambda x: F.pad(x, (1, 2, 0, 1, 2, 0), mode), volume)
    golden.case(out, f"{mode}.unbatched", lambda x: F.pad(x, (1, 2), mode), line[0])
golden.case(out, "constant.value", lambda x: F.pad(x, (1, 0, 2, -3, 0, 1, 1, 1), value=1.5), image)
golden.case(out, "constant.empty", lambda x: F.pad(x, (-5, 2)), line)


def conv(name, make, x):
    layer = make()
    golden.case(out, name, lambda x, w, b: torch.func.functional_call(layer, {"weight": w, "bias": b}, x), x,
                fill(layer.weight.shape, 10), fill(layer.bias.shape, 11))


for mode in ("reflect", "replicate", "circular"):
    conv(f"conv1d.{mode}", lambda: nn.Conv1d(3, 2, 3, stride=2, padding=2, padding_mode=mode), line)
    conv(f"conv2d.{mode}", lambda: nn.Conv2d(2, 2, 3, padding=(2, 1), padding_mode=mode), image)
for mode in ("zeros", "circular"):
    conv(f"conv1d.same.{mode}", lambda: nn.Conv1d(3, 2, 4, padding="same", padding_mode=mode), line)
    conv(f"conv2d.same.{mode}", lambda: nn.Conv2d(2, 2, (2, 3), padding="same", dilation=(1, 2), padding_mode=mode), image)
golden.write("padding.txt", out)
