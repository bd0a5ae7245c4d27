"""round_trip.py RONDO_WEIGHTS FOLDER: weights from Python to rondo and back, in both kinds of files.

The result must have the same names, dtypes, shapes and bits, including NaNs with their payloads and -0, which
torch.equal treats as equal to 0.
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

# dtypes that rondo lacks are returned as dtypes with the same values.
wider = {torch.int16: torch.int32, torch.uint16: torch.int32, torch.uint32: torch.int64, torch.uint64: torch.int64}
wider |= {dtype: torch.float32 for dtype in (torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2,
                                             torch.float8_e5m2fnuz, torch.float8_e8m0fnu)}
foreign = {str(dtype): any_bits(dtype, (6, 50)) for dtype in wider if dtype != torch.uint64}
foreign["uint64"] = torch.tensor([2**63 - 1 - i for i in range(300)], dtype=torch.uint64).reshape(6, 50)
for name, tensor in foreign.items():
    if tensor.is_floating_point():  # NaNs are replaced by 1
        foreign[name] = torch.where(tensor.float().isnan(), 1.0, tensor.float()).to(tensor.dtype)
expected = {name: tensor.to(wider[tensor.dtype]) for name, tensor in foreign.items()}
foreign["complex64"] = torch.complex(any_bits(torch.int32, (6, 50)).float(), any_bits(torch.int8, (6, 50)).float())
expected["complex64"] = torch.view_as_real(foreign["complex64"])
torch.save(foreign, folder / "foreign.pth")
safetensors.torch.save_file(foreign, folder / "foreign.safetensors")
for source in ("foreign.pth", "foreign.safetensors"):
    for target in ("out.pth", "out.safetensors"):
        check(expected, convert(source, target))

# The usual way to change a tensor keeps rondo's checksum in the metadata, in any order.
for i in range(12):
    tensors["float32.2"] = torch.full((7,), float(i))
    safetensors.torch.save_file(tensors, folder / "edited.safetensors", metadata=kept)
    check(tensors, convert("edited.safetensors", "again.safetensors"))
