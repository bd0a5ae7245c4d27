"""Writes goldens in the format that tests/support/golden.h reads."""

import os

import numpy as np
import torch

NAMES = {
    torch.float64: "f64", torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16",
    torch.int64: "i64", torch.int32: "i32", torch.uint8: "u8", torch.int8: "i8", torch.bool: "bool",
}


def fill(shape, key, scale=1.0, shift=0.0):
    """float32(shift + scale u), u pseudo-random in [-1, 1), as f64."""
    n = int(np.prod(shape, dtype=np.int64))
    mask = np.uint64(0xFFFFFFFF)
    h = (np.arange(1, n + 1, dtype=np.uint64) * np.uint64(2654435761)
         + np.uint64((key + 1) * 2246822519 & 0xFFFFFFFF)) & mask
    for shift_by in (15, 13):
        h ^= h >> np.uint64(shift_by)
        h = h * np.uint64(2246822519) & mask
    h ^= h >> np.uint64(16)
    u = (h >> np.uint64(8)).astype(np.float64) * 2.0**-23 - 1
    return torch.from_numpy((shift + scale * u).astype(np.float32).astype(np.float64)).reshape(shape)


def value_text(value, dtype):
    if not dtype.is_floating_point:
        return str(int(value))
    if value != value:
        return "nan"
    if value in (float("inf"), float("-inf")):
        return "inf" if value > 0 else "-inf"
    digits = {torch.float64: 17, torch.float32: 9, torch.bfloat16: 5, torch.float16: 6}[dtype]
    return f"{value:.{digits}g}"


def line(name, tensor):
    tensor = tensor.detach()
    sizes = ",".join(map(str, tensor.shape)) or "-"
    values = [value_text(v, tensor.dtype) for v in tensor.reshape(-1).tolist()]
    return " ".join([name, NAMES[tensor.dtype], sizes] + values)


def write(file, tensors):
    """tensors: {name: tensor}; file: the name of a file next to this script."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), file)
    with open(path, "w") as out:
        out.write(f"# Made by PyTorch {torch.__version__.split('+')[0]}; see the make_*.py here.\n")
        for name, tensor in tensors.items():
            out.write(line(name, tensor) + "\n")


def write_texts(file, texts):
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), file)
    with open(path, "w") as out:
        for name, text in texts.items():
            out.write(f"=== {name}\n{text}\n")


def case(out, name, f, *inputs):
    """The inputs NAME.0, NAME.1, …, the result NAME.y, and the gradients NAME.d0, … of sum(w · y) with w_k = (k mod 7 - 3) / 2
    for the inputs that are floats, as `expect_case` in tests/support/golden_case.h compares them."""
    xs = [x.detach().clone().requires_grad_() if x.is_floating_point() else x for x in inputs]
    y = f(*xs)
    weights = ((torch.arange(y.numel(), dtype=torch.float64) % 7 - 3) / 2).reshape(y.shape)
    floats = [x for x in xs if x.is_floating_point()]
    gradients = iter(torch.autograd.grad((y * weights).sum(), floats, allow_unused=True))
    for i, x in enumerate(xs):
        out[f"{name}.{i}"] = x
        gradient = next(gradients) if x.is_floating_point() else None
        if gradient is not None:
            out[f"{name}.d{i}"] = gradient
    out[f"{name}.y"] = y


def fill_parameters(model):
    """Weights with variance 2 / fan in, the weights of norms around 1, biases around 0."""
    for k, (key, p) in enumerate(model.named_parameters()):
        if p.dim() > 1:
            p.data = fill(p.shape, k + 10, (6 / (p.numel() // p.shape[0])) ** 0.5)
        else:
            p.data = fill(p.shape, k + 10, 0.25, 1 if key.endswith("weight") else 0)


def drawn(shape, low=-2.0, high=2.0, grid=None):
    """Random f64 numbers; with a grid, multiples of 1 / grid, which makes short files."""
    x = torch.rand(shape, dtype=torch.float64) * (high - low) + low
    return torch.round(x * grid) / grid if grid else x
