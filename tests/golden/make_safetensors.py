"""Goldens for io/safetensors: python3 tests/golden/make_safetensors.py (needs torch, safetensors).

A file that Python's safetensors writes, with one tensor of each dtype, stored as hexadecimal text.
"""

import os

import torch
from safetensors.torch import save

import golden

x = torch.tensor([[0.0, -1.5, 2.25], [65504.0, -0.0, 1e-3]])
tensors = {
    "f64": x.double() / 3, "f32": x / 3, "bf16": x.bfloat16(), "f16": x.half(),
    "i64": torch.tensor([-(2**63), 2**63 - 1]), "i32": torch.tensor([-(2**31), 7], dtype=torch.int32),
    "u8": torch.tensor([0, 255], dtype=torch.uint8), "i8": torch.tensor([-128, 127], dtype=torch.int8),
    "bool": torch.tensor([True, False, True]), "scalar": torch.tensor(0.5), "empty": torch.zeros(0, 3),
}
metadata = {"format": "pt", "note": "caf\u00e9 \"quoted\""}
data = save(tensors, metadata)
while data.index(b'"format"') < data.index(b'"note"'):
    data = save(tensors, metadata)  # the library writes metadata in a random order
golden.write("safetensors.txt", tensors)
# dtypes that rondo lacks. torch_files.txt has their values, as the dtypes that rondo reads.
every_byte = torch.arange(256).to(torch.uint8)
foreign = {
    "i16": torch.tensor([-32768, 0, 32767], dtype=torch.int16), "u16": torch.tensor([0, 65535], dtype=torch.uint16),
    "u32": torch.tensor([0, 2**32 - 1], dtype=torch.uint32), "u64": torch.tensor([0, 2**63 - 1], dtype=torch.uint64),
    "c64": torch.complex(x, -x).t().contiguous(),
    "e4m3fn": every_byte.clone().view(torch.float8_e4m3fn), "e4m3fnuz": every_byte.clone().view(torch.float8_e4m3fnuz),
    "e5m2": every_byte.clone().view(torch.float8_e5m2), "e5m2fnuz": every_byte.clone().view(torch.float8_e5m2fnuz),
    "e8m0fnu": every_byte.clone().view(torch.float8_e8m0fnu),
}
golden.write_texts("safetensors_hex.txt", {"file": data.hex(), "foreign_dtypes": save(foreign).hex()})
