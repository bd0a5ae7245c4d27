"""Runs rondo's DDP, PyTorch's DDP over gloo, and rondo in one process with as many threads, in turns.

bench/compare_ddp.sh starts it and documents the flags.
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


ROWS = [("mlp", "f32"), ("resnet20", "f32"), ("resnet18", "f32"), ("resnet20", "bf16")]


def compare(model, dtype, args):
    common = ["--model", model, "--batch", args.batch, "--seconds", args.seconds]
    # Both sides use autocast for bf16.
    amp = ["--amp", dtype] if dtype == "bf16" else []
    rondo = [*shlex.split(args.mpirun), "-np", args.ranks, BIN / "ddp_step", *common, *amp, "--threads", "1"]
    single = [BIN / "train_step", *common, *amp, "--threads", args.ranks]
    peer = [sys.executable, HERE / "ddp_step.py", *common, "--dtype", dtype, "--ranks", args.ranks, "--threads", "1"]
    best = run(peer)
    rows = {"rondo": [], "pytorch": [], "single": []}
    for _ in range(args.rounds):
        rows["rondo"].append(run(rondo)["img_per_s"])
        rows["pytorch"].append(run([*peer, "--setting", best["setting"]])["img_per_s"])
        rows["single"].append(run(single)["img_per_s"])
    ratio = lambda a, b: statistics.median(x / y for x, y in zip(rows[a], rows[b]))  # noqa: E731
    return {"model": model, "dtype": dtype, "pytorch_setting": best["setting"], "rounds": rows, "over_pytorch": ratio("rondo", "pytorch"),
            "over_single": ratio("rondo", "single"), **{name: statistics.median(v) for name, v in rows.items()}}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", help="comma-separated, in --dtype (" + ", ".join(":".join(row) for row in ROWS) + ")")
    parser.add_argument("--dtype", choices=["f32", "bf16"], help="of --models, or mlp, resnet20 and resnet18")
    parser.add_argument("--batch", default="128", help="images in a step, all ranks together")
    parser.add_argument("--ranks", default="2")
    parser.add_argument("--seconds", default="10", help="time of each measurement")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mpirun", default=MPIRUN, help="the command up to -np")
    parser.add_argument("--json", metavar="FILE", help="everything that was measured")
    args = parser.parse_args()
    wanted = ROWS
    if args.models or args.dtype:
        wanted = [(model, args.dtype or "f32") for model in (args.models or "mlp,resnet20,resnet18").split(",")]
    try:
        rows = [compare(*row, args) for row in wanted]
    except Failed as failure:
        raise SystemExit(f"compare_ddp.sh: {failure}") from failure
    print(f"\nbatch {args.batch}, {args.ranks} ranks with one thread each, median of {args.rounds} rounds, img/s\n")
    print("| model | | rondo | PyTorch DDP, gloo | ratio | one process, as many threads | ratio |\n| --- | --- | --- | --- | --- | --- | --- |")
    for r in rows:
        print(f"| {r['model']} | {r['dtype']} | {r['rondo']:.1f} | {r['pytorch']:.1f} | {r['over_pytorch']:.2f} | {r['single']:.1f} | {r['over_single']:.2f} |")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps({"rows": rows}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
