"""Goldens for tests/autograd/composed_activation_test.cpp: python3 tests/golden/make_activations.py (needs torch)."""

import torch
import torch.nn.functional as F

import golden
from golden import fill

torch.set_num_threads(1)
out = {}
x = fill((2, 4, 3), 0, 4)
# hardsigmoid by its formula: PyTorch's derivative has the precision of f32.
CASES = {
    "elu": F.elu, "elu.2": lambda x: F.elu(x, 2), "selu": F.selu, "celu": F.celu, "celu.2": lambda x: F.celu(x, 2),
    "glu": lambda x: F.glu(x, 1), "mish": F.mish, "rrelu": F.rrelu, "relu6": lambda x: F.relu6(3 * x), "hardtanh": F.hardtanh,
    "hardtanh.2": lambda x: F.hardtanh(x, -0.5, 2), "hardsigmoid": lambda x: F.relu6(x + 3) / 6, "hardswish": F.hardswish,
    "hardshrink": F.hardshrink, "hardshrink.2": lambda x: F.hardshrink(x, 2), "softshrink": F.softshrink,
    "softshrink.2": lambda x: F.softshrink(x, 2), "tanhshrink": F.tanhshrink, "threshold": lambda x: F.threshold(x, 0.1, -2),
    "softplus.2": lambda x: F.softplus(x, 2, 3), "softsign": F.softsign, "logsigmoid": F.logsigmoid,
    "softmin": lambda x: F.softmin(x, 1),
}
for name, f in CASES.items():
    golden.case(out, name, f, x)
golden.case(out, "prelu.1", F.prelu, x, fill((1,), 1))
golden.case(out, "prelu.4", F.prelu, x, fill((4,), 1))

# Extreme values, and those at which a branch ends: the result and the gradient of its sum.
nan, inf = float("nan"), float("inf")
values = [inf, -inf, nan, 1e38, -1e38, 1e4, -1e4, 88.75, -88.75, 20.5, -20.5, 0.0, -0.0, 1e-7, -1e-7, 1, -1, 3, -3, 6, 0.5, -0.5, 0.1, 2, 2.5]
for dtype, short in ((torch.float64, "f64"), (torch.float32, "f32"), (torch.bfloat16, "bf16"), (torch.float16, "f16")):
    x = torch.tensor(values, dtype=torch.float64)
    x = x.to(dtype)
    out[f"extremes.{short}"] = x
    for name, f in CASES.items():
        if name in ("glu", "softmin"):
            continue
        leaf = x.clone().requires_grad_()
        y = f(leaf)
        y.sum().backward()
        out[f"extremes.{name}.{short}.y"], out[f"extremes.{name}.{short}.dx"] = y, leaf.grad
golden.write("activations.txt", out)
