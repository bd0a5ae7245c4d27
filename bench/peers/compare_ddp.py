"""Runs rondo's DDP, PyTorch's DDP over gloo, and rondo in one process with as many threads, in turns.

Started by bench/compare_ddp.sh, which see.
"""

import argparse
import json
import pathlib
import shlex
import statistics
import sys

from measure import BIN, HERE, MPIRUN, Failed
from measure import run as measure


def run(command):
    return measure([*command, "--json", "-"])[0]


def compare(model, args):
    common = ["--model", model, "--batch", args.batch, "--dtype", args.dtype, "--seconds", args.seconds]
    rondo = [*shlex.split(args.mpirun), "-np", args.ranks, BIN / "ddp_step", *common, "--threads", "1"]
    single = [BIN / "train_step", *common, "--threads", args.ranks]
    peer = [sys.executable, HERE / "ddp_step.py", *common, "--ranks", args.ranks, "--threads", "1"]
    best = run(peer)
    rows = {"rondo": [], "pytorch": [], "single": []}
    for _ in range(args.rounds):
        rows["rondo"].append(run(rondo)["img_per_s"])
        rows["pytorch"].append(run([*peer, "--setting", best["setting"]])["img_per_s"])
        rows["single"].append(run(single)["img_per_s"])
    ratio = lambda a, b: statistics.median(x / y for x, y in zip(rows[a], rows[b]))  # noqa: E731
    return {"model": model, "pytorch_setting": best["setting"], "rounds": rows, "over_pytorch": ratio("rondo", "pytorch"),
            "over_single": ratio("rondo", "single"), **{name: statistics.median(v) for name, v in rows.items()}}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default="mlp,resnet20,resnet18")
    parser.add_argument("--dtype", default="f32", choices=["f32", "bf16"])
    parser.add_argument("--batch", default="128", help="of all ranks")
    parser.add_argument("--ranks", default="2")
    parser.add_argument("--seconds", default="10", help="of each measurement")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mpirun", default=MPIRUN, help="the command up to -np")
    parser.add_argument("--json", metavar="FILE", help="everything that was measured")
    args = parser.parse_args()
    try:
        rows = [compare(model, args) for model in args.models.split(",")]
    except Failed as failure:
        raise SystemExit(f"compare_ddp.sh: {failure}") from failure
    print(f"\n{args.dtype}, batch {args.batch}, {args.ranks} ranks with one thread each, median of {args.rounds} rounds, img/s\n")
    print("| model | rondo | PyTorch DDP, gloo | ratio | one process, as many threads | ratio |\n| --- | --- | --- | --- | --- | --- |")
    for r in rows:
        print(f"| {r['model']} | {r['rondo']:.1f} | {r['pytorch']:.1f} | {r['over_pytorch']:.2f} | {r['single']:.1f} | {r['over_single']:.2f} |")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps({"rows": rows}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
