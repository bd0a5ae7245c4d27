"""check.py FOLDER: runs the files that write_models wrote in ONNX Runtime.

Every NAME.onnx must be valid (onnx.checker, with shapes inferred), and its outputs must equal
those of NAME.safetensors: the largest difference may be 1e-5 of the largest element.
"""

import pathlib
import sys

import numpy as np
import onnx
import onnxruntime
from safetensors.numpy import load_file

LIMIT = 1e-5
worst = 0.0
failures = 0
files = sorted(pathlib.Path(sys.argv[1]).glob("*.onnx"))
assert files, f"{sys.argv[1]}: no models"
for path in files:
    onnx.checker.check_model(str(path), full_check=True)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    tensors = load_file(path.with_suffix(".safetensors"))
    differences = []
    for suffix in ("", "_2"):
        inputs = [i.name for i in session.get_inputs()]
        outputs = [o.name for o in session.get_outputs()]
        if inputs[0] + suffix not in tensors:
            continue
        found = session.run(outputs, {name: tensors[name + suffix] for name in inputs})
        for name, got in zip(outputs, found):
            wanted = tensors[name + suffix]
            assert got.shape == wanted.shape and got.dtype == wanted.dtype, (path.stem, got.shape, wanted.shape)
            differences.append(np.abs(got - wanted).max() / np.abs(wanted).max())
    batches = " and ".join(str(t.shape) for name, t in sorted(tensors.items()) if name.removesuffix("_2") in inputs)
    ok = all(d <= LIMIT for d in differences)
    failures += not ok
    worst = max([worst, *differences])
    print(f"{path.stem:28} {max(differences):.1e} {'' if ok else 'TOO FAR'}  inputs {batches}")
print(f"{len(files)} models, onnxruntime {onnxruntime.__version__}: at most {worst:.1e} of the largest element, {LIMIT:.0e} allowed")
sys.exit(failures > 0)
