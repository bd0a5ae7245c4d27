"""Goldens for extras/torch_files/torch_pickle: python3 tests/golden/make_torch_files.py (needs torch).

Files that torch.save writes, in both of its forms, stored as hexadecimal text, and their contents.
"""

import argparse
import collections
import datetime
import functools
import io
import os
import pathlib
import pickle
import zipfile

import numpy
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
    """Like a pipe: Python's zipfile then writes the sizes after the data."""

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


class Settings(dict):
    """A configuration as in many libraries: a dict, and an object."""


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
# dtypes that rondo lacks: the values are expected in the dtypes that it has.
every_byte = torch.arange(256).to(torch.uint8)
foreign = {
    "i16": torch.tensor([-32768, 0, 32767], dtype=torch.int16), "u16": torch.tensor([0, 65535], dtype=torch.uint16),
    "u32": torch.tensor([0, 2**32 - 1], dtype=torch.uint32), "u64": torch.tensor([0, 2**63 - 1], dtype=torch.uint64),
    "c64": torch.complex(x, -x).t(), "c128": torch.complex(x.double(), x.double() / 3),
    "e4m3fn": every_byte.view(torch.float8_e4m3fn), "e4m3fnuz": every_byte.view(torch.float8_e4m3fnuz),
    "e5m2": every_byte.view(torch.float8_e5m2), "e5m2fnuz": every_byte.view(torch.float8_e5m2fnuz),
    "e8m0fnu": every_byte.view(torch.float8_e8m0fnu),
}
as_rondo = {torch.int16: torch.int32, torch.uint16: torch.int32, torch.uint32: torch.int64, torch.uint64: torch.int64}
expected = {name: torch.view_as_real(t) if t.is_complex() else t.to(as_rondo.get(t.dtype, torch.float32))
            for name, t in foreign.items()}
# More tensors of one dtype: views of one storage, an offset, a stride.
short = torch.arange(24, dtype=torch.int16)
foreign |= {"i16.rows": short[4:10].reshape(2, 3), "i16.strided": short.reshape(4, 6)[1:3, ::2]}
expected |= {name: foreign[name].int() for name in ("i16.rows", "i16.strided")}
unreadable = {
    "quantised": torch.quantize_per_tensor(x, 0.5, 0, torch.qint8), "sparse": x.to_sparse(),
    "u64_large": torch.tensor([2**63], dtype=torch.uint64), "nine": torch.zeros([1] * 9),
    "f4": torch.zeros(2, dtype=torch.uint8).view(torch.float4_e2m1fn_x2), "expanded": torch.ones(1).expand(64),
    "negated": torch.view_as_complex(x[:, :2].contiguous()).conj().imag,
}
noted = torch.nn.Parameter(x * 2)
noted.note = "a Python attribute"
attribute = x * 3
attribute.note = "another"
with_foreign_names = {
    "state_dict": {"w": x, "noted": noted, "attribute": attribute}, "args": argparse.Namespace(lr=0.1, f=print),
    "best": numpy.float64(0.5), "array": numpy.zeros(3), "when": datetime.datetime(2020, 1, 1), "settings": Settings(a=1),
    "path": pathlib.PurePosixPath("/data"), "kind": torch.optim.SGD, "fn": functools.partial(max, 1),
    "groups": collections.defaultdict(list, a=[1]), "names": {"a", "b"}, "frozen": frozenset("c"), "bytes": bytearray(b"d"),
    "device": torch.device("cpu"), "size": torch.Size([1]), "dtype": torch.float32, "schedule": None, "big": 2**100,
    "range": range(3), "complex": 1j,
}
nested = {"state_dict": {"encoder": {"layers": [x, x + 1], "pair": (x + 2,)}, "w": x + 3, "head": Settings(b=x + 4), "epoch": 1,
                         7: {"x": x + 5}}}
files |= {
    "foreign_dtypes": saved(foreign),
    "foreign_dtypes_legacy": saved(foreign, _use_new_zipfile_serialization=False),
    "unreadable": saved({"w": x, **unreadable}),
    "foreign_names": saved(with_foreign_names),
    "foreign_names_legacy": saved(with_foreign_names, _use_new_zipfile_serialization=False),
    "foreign_names_protocol5": saved(with_foreign_names, pickle_protocol=5),
    "nested": saved(nested),
    "two_deep": saved({"G": {"w": x}, "D": {"body": {"w": x}}}),
    "one_deep": saved({"G": {"body": {"w": x}}, "optimizer": {"state": {0: {"m": x}}, "param_groups": []}}),
    "list_beside": saved({"G": {"w": x}, "rng": (1, [x])}),
    "lists": saved({"params": [x, x]}),
    "optimizer": saved({"state": {0: {"m": x}}, "param_groups": []}),
    "colliding": saved({"a.b": x, "a": {"b": x}}),
    "module_legacy": saved(net, _use_new_zipfile_serialization=False),
    "module_inside": saved({"epoch": 3, "model": net}),
    "module_beside": saved({"ema": {"w": x}, "model": net, "best": torch.tensor(1.0)}),
}
torch.serialization.set_crc32_options(False)  # checksums of 0
files["no_crc32"] = saved({"w": x})
torch.serialization.set_crc32_options(True)
circle = {"w": x}
circle["again"] = circle
files["circle"] = saved(circle)
script = io.BytesIO()
torch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), script)
files["torchscript"] = script.getvalue()

golden.write("torch_files.txt", {k: v.detach() for k, v in (tensors | expected).items()})
golden.write_texts("torch_files_hex.txt", {k: v.hex() for k, v in files.items()})
