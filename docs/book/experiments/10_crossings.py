#!/usr/bin/env python3
"""Writes the data of chapter 10's figure: the time of four algorithms, by size, on a simulated cluster.

    docs/book/experiments/10_crossings.py BUILD > docs/book/figures/10_crossings.json

16 ranks, one a node, links of 10 Gbit/s and 1 us. The program is that of bench/simgrid/scaling.py, which
describes the simulation. Equal inputs give equal times. Needs smpirun (package libsimgrid-dev).
"""
import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "bench" / "simgrid"))
import scaling  # noqa: E402

wanted = [(name, 256 * 4**k) for name in ("doubling", "tree", "halving", "ring") for k in range(9)]
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("build", metavar="BUILD", type=pathlib.Path)
program = (parser.parse_args().build / "bin" / "simulated_all_reduce").resolve()
times = scaling.simulate(program, 16, 1, 10, "CM02", wanted)
rows = [f'{{"algorithm": "{name}", "bytes": {size}, "us": {1e6 * seconds:.3f}}}' for (name, size), seconds in times.items()]
print("[\n" + ",\n".join(rows) + "\n]")
