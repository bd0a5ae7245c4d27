"""exported.py FOLDER [--rounds N]: models as C++ code (io::export_cpp) next to ONNX Runtime and rondo itself.

Batch 1, one thread. build/bin/exported writes the models. Each round measures each of the three, one after the other:
the median of 200 runs, in us. Prints the median of the rounds, and the sizes: of the source, of the stripped program
with -O3 -march=native (RONDO_MAIN), and of the weights.
"""

import argparse
import ctypes
import os
import pathlib
import statistics
import subprocess
import time

import numpy as np
import onnxruntime

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=pathlib.Path)
parser.add_argument("--rounds", type=int, default=7)
parser.add_argument("--exported", default="build/bin/exported")
options = parser.parse_args()
options.folder.mkdir(exist_ok=True)
subprocess.run([options.exported, options.folder], check=True)


def median(run):
    times = []
    for _ in range(200):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e6


print("| model | C++ code | ONNX Runtime | rondo | source, program, weights | difference |\n| --- | --- | --- | --- | --- | --- |")
for source in sorted(options.folder.glob("*.cpp")):
    name = source.stem
    flags = ["c++", "-std=c++17", "-O3", "-march=native"]
    program = source.with_suffix("")
    subprocess.run([*flags, "-DRONDO_MAIN", "-s", source, "-o", program], check=True)
    call = f'extern "C" void run(const float* x, float* y) {{ static {name}::Model model("{source.with_suffix(".weights")}"); model.run(x, y); }}\n'
    library = source.with_suffix(".so").resolve()
    subprocess.run([*flags, "-shared", "-fPIC", "-x", "c++", "-", "-o", library], check=True, text=True,
                   input=f'#include "{source.resolve()}"\n{call}')
    code = ctypes.CDLL(library).run
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(source.with_suffix(".onnx"), settings, providers=["CPUExecutionProvider"])
    x = np.random.default_rng(1).normal(size=session.get_inputs()[0].shape).astype(np.float32)
    expected = session.run(None, {"input": x})[0]
    y = np.empty_like(expected)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (x, y)]
    code(*pointers)
    difference = abs(y - expected).max() / abs(expected).max()
    times = [[], [], []]
    for _ in range(options.rounds):
        times[0].append(median(lambda: code(*pointers)))
        times[1].append(median(lambda: session.run(None, {"input": x})))
        rondo = subprocess.run([options.exported, options.folder, name], env={**os.environ, "OMP_NUM_THREADS": "1"},
                               check=True, capture_output=True, text=True)
        times[2].append(float(rondo.stdout))
    shown = " | ".join(f"{statistics.median(t):,.0f}" for t in times)
    sizes = ", ".join(f"{path.stat().st_size / 1024:,.0f}" for path in (source, program, source.with_suffix(".weights")))
    print(f"| {name} | {shown} | {sizes} KiB | {difference:.1e} |", flush=True)
