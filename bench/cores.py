#!/usr/bin/env python3
"""How a training step would scale to more cores than this machine has: the serial part, the parallel regions and the bytes.

  bench/cores.py [--build build] [--bandwidth GB/s] [--barrier US]

The step runs on two threads, twice, with different numbers of steps; the difference is free of the start. A preloaded
library (omp_regions.c) counts OpenMP's parallel regions, rondo's and oneDNN's, and the processor time outside of them,
which is serial, whatever the number of cores (Amdahl). On n cores a step takes

  serial + max(parallel / n, bytes / bandwidth) + regions * barrier * log2(n)

where bytes are those of the kernels' operands (train_step --kernels): what must pass through memory at least, if the
caches keep nothing from kernel to kernel.
"""

import argparse
import json
import math
import os
import pathlib
import subprocess
import tempfile

CASES = [("resnet20", 128, 40), ("resnet18", 128, 10), ("mlp", 64, 1000), ("mlp", 1024, 200), ("lm512", 4, 20)]  # steps
CORES = [2, 8, 16, 32, 64]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--bandwidth", type=float, default=200, help="GB/s of all cores together")
    parser.add_argument("--barrier", type=float, default=0.5, help="microseconds of a region's barriers for each doubling of the cores")
    args = parser.parse_args()
    step = args.build / "bin/train_step"
    print("| step | ms of a core | serial | regions | MB | " + " | ".join(f"{n} cores" for n in CORES) + " | limited at 64 by |")
    print("| --- " * (6 + len(CORES)) + "|")
    with tempfile.TemporaryDirectory() as folder:
        library = pathlib.Path(folder, "omp_regions.so")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", pathlib.Path(__file__).with_name("omp_regions.c"), "-o", library, "-ldl"], check=True)
        for model, batch, steps in CASES:
            flags = ["--model", model, "--batch", str(batch), "--threads", "2"]

            def measure(count):
                file = pathlib.Path(folder, "regions")
                subprocess.run([step, *flags, "--steps", str(count)], check=True, stdout=subprocess.DEVNULL,
                               env={**os.environ, "LD_PRELOAD": str(library), "RONDO_OMP_REGIONS": str(file), "OMP_WAIT_POLICY": "passive"})
                return [float(x) for x in file.read_text().split()]

            regions, serial, whole = ((b - a) / steps for a, b in zip(measure(3), measure(3 + steps)))
            kernels = json.loads(subprocess.run([step, *flags, "--kernels", "--json", "-"], check=True, capture_output=True, text=True).stdout)
            size = sum(k["bytes"] for k in kernels["kernels"])

            def parts(n):
                """Seconds: serial, products and memory, barriers."""
                return {"the serial part": serial, "arithmetic": (whole - serial) / n, "memory": size / args.bandwidth / 1e9,
                        "barriers": regions * args.barrier * 1e-6 * math.log2(n)}

            def time(n):
                p = parts(n)
                return p["the serial part"] + max(p["arithmetic"], p["memory"]) + p["barriers"]

            limit = max(parts(64), key=parts(64).get)
            speeds = " | ".join(f"{whole / time(n):.1f}" for n in CORES)
            print(f"| {model}, batch {batch} | {whole * 1e3:.2f} | {serial / whole:.1%} | {regions:.0f} | {size / 1e6:.0f} | {speeds} | {limit} |")


main()
