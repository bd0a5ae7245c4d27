"""Goldens for io/torch_pickle: python3 tests/golden/make_torch_files.py (needs torch).

Files as torch.save writes them, in both of its forms, stored as hexadecimal text, and what they hold.
"""

import collections
import io
import os
import pickle
import zipfile

import torch

import golden

x = torch.tensor([[0.0, -1.5, 2.25], [65504.0, -0.0, 1e-3]])
tensors = collections.OrderedDict(
    f64=x.double() / 3, f32=x / 3, bf16=x.bfloat16(), f16=x.half(),
    i64=torch.tensor([-(2**63), 2**63 - 1]), i32=torch.tensor([-(2**31), 7], dtype=torch.int32),
    u8=torch.tensor([0, 255], dtype=torch.uint8), i8=torch.tensor([-128, 127], dtype=torch.int8),
    bool=torch.tensor([True, False, True]), scalar=torch.tensor(0.5), empty=torch.zeros(0, 3),
    parameter=torch.nn.Parameter(x + 1), transposed=(x * 2).t(),
)
base = torch.arange(24, dtype=torch.float32)
tensors["slice"] = base[4:10].reshape(2, 3)
tensors["strided"] = base.reshape(4, 6)[1:3, ::2]


def saved(value, **options):
    out = io.BytesIO()
    torch.save(value, out, **options)
    return out.getvalue()


class Unseekable(io.RawIOBase):
    """A pipe: Python's zipfile then writes sizes behind the data."""

    def __init__(self):
        self.data = b""

    def writable(self):
        return True

    def write(self, data):
        self.data += bytes(data)
        return len(data)


def rezipped(data):
    out = Unseekable()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            entry = zipfile.ZipInfo(info.filename, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            new.writestr(entry, old.read(info))
    return out.data


class Evil:
    def __reduce__(self):
        return (os.system, ("echo run",))


checkpoint = {"epoch": 90, "best_prec1": 91.5, "arch": "resnet20", "done": True,
              "state_dict": tensors, "optimizer": {"state": {0: {"momentum_buffer": x}}, "param_groups": [{"lr": 0.1}]}}
net = torch.nn.Linear(3, 2)
with torch.no_grad():
    net.weight.copy_(x)
    net.bias.copy_(x[0, :2])
files = {
    "zip": saved(tensors),
    "legacy": saved(tensors, _use_new_zipfile_serialization=False),
    "rezipped": rezipped(saved(tensors)),
    "checkpoint": saved(checkpoint),
    "checkpoint_legacy": saved(checkpoint, _use_new_zipfile_serialization=False),
    "two": saved({"ema": {"w": x}, "raw": {"w": x + 1}}),
    "protocol4": saved({"w": x}, pickle_protocol=4),
    "evil": saved({"w": x, "e": Evil()}),
    "evil_legacy": saved({"w": x, "e": Evil()}, _use_new_zipfile_serialization=False),
    "int16": saved({"w": x.short()}),
    "module": saved(net),
    "list": saved([x]),
    "nothing": saved({"epoch": 3}),
    "best_beside": saved({"best_acc1": torch.tensor([76.1]), "state_dict": {"w": x}}),
    "nested_beside": saved({"b": torch.tensor([1.0]), "ema": {"w": x}}),
    "legacy_protocol4": saved({"w": x}, _use_new_zipfile_serialization=False, pickle_protocol=4),
    "schedule": saved({"state_dict": {"w": x}, "schedule": {"milestones": collections.Counter({30: 1, 60: 1})}}),
    "negated": saved({"w": torch.view_as_complex(x[:, :2].contiguous()).conj().imag}),
    "expanded": saved({"w": torch.ones(1).expand(64)}),
    "empty_slice": saved({"w": torch.zeros(2, 3)[2:, 3:]}),
    "bare_pickle": pickle.dumps({"w": 1}, protocol=2),
}
golden.write("torch_files.txt", {k: v.detach() for k, v in tensors.items()})
golden.write_texts("torch_files_hex.txt", {k: v.hex() for k, v in files.items()})
