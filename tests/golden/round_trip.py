"""round_trip.py RONDO_WEIGHTS FOLDER: weights from Python to rondo and back, in both kinds of files.

What comes back has the same names, dtypes, shapes and bits: NaNs with their payloads and -0 too, which
torch.equal would not tell from 0.
"""

import pathlib
import subprocess
import sys

import safetensors
import safetensors.torch
import torch

tool, folder = sys.argv[1], pathlib.Path(sys.argv[2])


def any_bits(dtype, shape):
    """Random bytes as numbers; booleans are 0 and 1."""
    size = torch.empty((), dtype=dtype).element_size()
    count = torch.Size(shape).numel()
    numbers = torch.randint(0, 2 if dtype == torch.bool else 256, (count * size,), dtype=torch.uint8)
    return numbers.view(dtype).reshape(shape).clone()


def same_bits(a, b):
    def raw(x):
        return x.contiguous().reshape(-1).view(torch.uint8).tolist() if x.numel() else []

    return a.dtype == b.dtype and a.shape == b.shape and raw(a) == raw(b)


def load(path):
    if path.suffix == ".pth":
        return torch.load(path, weights_only=True)
    return safetensors.torch.load_file(path)


def check(wanted, path):
    got = load(path)
    assert set(got) == set(wanted), (path, set(got) ^ set(wanted))
    for name, tensor in wanted.items():
        assert same_bits(tensor, got[name]), (path, name)


def convert(source, target):
    subprocess.run([tool, "convert", folder / source, folder / target], check=True, stdout=subprocess.DEVNULL)
    return folder / target


torch.manual_seed(1)
dtypes = [torch.bool, torch.uint8, torch.int8, torch.int32, torch.int64]
dtypes += [torch.float16, torch.bfloat16, torch.float32, torch.float64]
tensors = {
    f"{dtype}.{i}".replace("torch.", ""): any_bits(dtype, shape)
    for dtype in dtypes
    for i, shape in enumerate([(), (0,), (7,), (3, 0, 2), (2, 3, 5)])
}
tensors["caf\u00e9 \"quoted\""] = torch.tensor([0.0, -0.0, float("nan"), float("inf")])
metadata = {"format": "pt", "note": "kept", "author": "somebody"}
torch.save(tensors, folder / "in.pth")
safetensors.torch.save_file(tensors, folder / "in.safetensors", metadata=metadata)

for source in ("in.pth", "in.safetensors"):
    for target in ("out.pth", "out.safetensors"):
        check(tensors, convert(source, target))
with safetensors.safe_open(folder / "out.safetensors", "pt") as file:
    kept = file.metadata()
assert metadata.items() <= kept.items(), kept

# The usual way to change a tensor hands rondo's checksum on, in any order.
for i in range(12):
    tensors["float32.2"] = torch.full((7,), float(i))
    safetensors.torch.save_file(tensors, folder / "edited.safetensors", metadata=kept)
    check(tensors, convert("edited.safetensors", "again.safetensors"))
