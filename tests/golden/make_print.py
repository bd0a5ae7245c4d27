"""Goldens for tensor/print.cpp: python3 tests/golden/make_print.py (needs torch).

Each text is PyTorch's own, with its dtype names replaced by rondo's; lines are broken before that,
so no case's suffix may come near the 80th column. The inputs are rebuilt in
tests/tensor/print_test.cpp under the same names.
"""

import torch

import golden

nan, inf = float("nan"), float("inf")
t, f64 = torch.tensor, torch.float64
grid = torch.arange(12, dtype=torch.float32).reshape(3, 4)
cases = {
    "scalar_f32": t(3.14159), "scalar_whole": t(2.0), "scalar_i64": t(-7), "scalar_bool": t(True),
    "vector": t([1.5, -2.25, 1000.0]), "whole": t([1.0, 20.0, -300.0]), "zeros": torch.zeros(3),
    "nan_inf": t([nan, inf, -inf, 1.0]), "nan_only": t([nan, nan]), "nan_decimals": t([nan, 0.5, -inf]),
    "inf_wide": t([-inf, 1.0]), "minus_zero": t([-0.0, 0.5]), "sci_small": t([1e-5, 1.0]),
    "sci_ratio": t([1.0, 1001.5]), "no_sci_ratio": t([1.0, 1000.0]), "sci_whole": t([1.0, 1e9]),
    "sci_nan": t([1e-9, nan, -inf, 0.0]), "big_whole": t([1e8]), "tiny": t([9.9e-5]), "edge": t([1e-4]),
    "f64": t([1.0, 2.5], dtype=f64), "bf16": t([1.0, 2.5], dtype=torch.bfloat16),
    "f16": t([0.1, 65504.0], dtype=torch.float16), "i32": t([1, -22], dtype=torch.int32),
    "u8": t([1, 255], dtype=torch.uint8), "i8": t([-128, 7], dtype=torch.int8),
    "bool": t([True, False]), "empty": torch.empty(0), "empty_2d": torch.empty(0, 3),
    "empty_i64": torch.empty(0, dtype=torch.int64), "empty_f64_2d": torch.empty(2, 0, dtype=f64),
    "grid": grid, "transposed": grid.t(), "cube": torch.arange(24).reshape(2, 3, 4),
    "four": torch.arange(16).reshape(2, 2, 2, 2) / 2, "column": torch.arange(3).reshape(3, 1),
    "wrapped": torch.arange(40), "wrapped_f32": torch.arange(30) / 8,
    "wrapped_2d": torch.arange(60).reshape(2, 30) * 100, "thousand": torch.arange(1000).reshape(10, 100),
    "summary": torch.arange(1001), "summary_f32": torch.arange(2000) / 4,
    "summary_2d": torch.arange(1200).reshape(30, 40), "summary_tall": torch.arange(1200).reshape(400, 3),
    "summary_wide": torch.arange(1200).reshape(3, 400), "summary_3d": torch.arange(2048).reshape(8, 16, 16),
    "summary_hidden": torch.cat((torch.ones(500), torch.full((1,), 1e9), torch.full((600,), 2.5))),
    "summary_channels_last": torch.arange(1536).reshape(2, 8, 8, 12).permute(0, 3, 1, 2),
}
texts = {}
for name, tensor in cases.items():
    text = repr(tensor)
    for dtype, ours in golden.NAMES.items():
        text = text.replace(f"dtype={dtype}", f"dtype={ours}")
    texts[name] = text
golden.write_texts("print.txt", texts)
