"""All ops of bench/ops next to PyTorch's: the two programs in turns, each measuring every op. Faster and less exact than
bench/compare.sh --rows op,grad, which alternates op by op.

  python bench/peers/all_ops.py [--build build] [--rounds 5] [--seconds 0.1] [--threads 2]
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", default="0.1")
    parser.add_argument("--threads", default="2")
    args = parser.parse_args()
    flags = ["--seconds", args.seconds, "--threads", args.threads]
    times = {}  # of (op, backward): lists of rondo's and of PyTorch's

    def run(side, command, backward, parse):
        out = subprocess.run([*command, *flags, *(["--backward"] if backward else [])], check=True, capture_output=True, text=True).stdout
        for line in out.splitlines():
            name, ms = parse(line)
            times.setdefault((name, backward), ([], []))[side].append(ms)

    def of_rondo(line):
        name, ms = re.match(r"(\w+)(?: with backward)?: (\S+) ms", line).groups()
        return name, float(ms)

    def of_pytorch(line):
        row = json.loads(line)
        return row["op"], row["ms"]

    for _ in range(args.rounds):
        for backward in (False, True):
            run(0, [args.build / "bin/ops"], backward, of_rondo)
            run(1, [sys.executable, pathlib.Path(__file__).with_name("ops.py")], backward, of_pytorch)
    ratio = {key: statistics.median(p / r for r, p in zip(*pair)) for key, pair in times.items()}
    print("| op | rondo, ms | PyTorch, ms | ratio | with backward | | ratio |\n| --- | --- | --- | --- | --- | --- | --- |")
    for name in sorted({op for op, _ in times}, key=lambda op: -ratio[op, False]):
        cells = []
        for key in ((name, False), (name, True)):
            cells += [f"{x:.3g}" for x in map(statistics.median, times[key])] + [f"{ratio[key]:.2f}"] if key in times else ["", "", ""]
        print(f"| {name} | {' | '.join(cells)} |")
    for backward in (False, True):
        all_ratios = [r for (_, b), r in ratio.items() if b == backward]
        print(f"\n{'with backward' if backward else 'forward'}: {len(all_ratios)} ops, {sum(r >= 0.97 for r in all_ratios)} at least 0.97, "
              f"{sum(r >= 1.2 for r in all_ratios)} at least 1.2")


main()
