"""Cases for tests/support/golden_cases.h: for each its inputs NAME.0, NAME.1, …, the result NAME.y, and the gradients
NAME.d0, … of sum(w · y) with w_k = (k mod 7 - 3) / 2."""

import torch


def case(out, name, f, *shapes, low=-2.0, high=2.0, grid=None):
    """grid: inputs are multiples of 1 / grid, which makes short files."""
    xs = [torch.rand(s, dtype=torch.float64) * (high - low) + low for s in shapes]
    if grid:
        xs = [torch.round(x * grid) / grid for x in xs]
    case_of(out, name, f, [x.requires_grad_() for x in xs])


def case_of(out, name, f, xs):
    y = f(*xs)
    weights = ((torch.arange(y.numel(), dtype=torch.float64) % 7 - 3) / 2).reshape(y.shape)
    gradients = torch.autograd.grad((y * weights).sum(), xs, allow_unused=True)
    for i, x in enumerate(xs):
        out[f"{name}.{i}"] = x.detach()
        out[f"{name}.d{i}"] = gradients[i] if gradients[i] is not None else torch.zeros_like(x)
    out[f"{name}.y"] = y.detach()
