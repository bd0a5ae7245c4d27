"""Runs build/bin/train_step and train_step.py in turns; prints a table of medians and ratios.

Started by bench/compare.sh, which see.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
RONDO = HERE.parent.parent / "build" / "bin" / "train_step"


def run(command):
    done = subprocess.run(command + ["--json", "-"], stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        raise SystemExit(f"compare.py: failed: {' '.join(map(str, command))}")
    return json.loads(done.stdout)


def compare(model, args):
    common = ["--model", model, "--batch", args.batch, "--dtype", args.dtype, "--threads", args.threads]
    common += ["--infer"] if args.infer else []
    common += ["--device", args.device]
    graph = ["--graph"] if args.device != "cpu" and not args.infer else []
    peer = [sys.executable, HERE / "train_step.py", *common]
    best = run([*peer, "--seconds", str(float(args.seconds) / 2)])
    compiled = {False: "off", True: "on"}.get(best["compile"], best["compile"])
    setting = ["--layout", best["layout"], "--compile", compiled, "--weights", best["weights"]]
    rondo, pytorch = [], []
    for i in range(args.rounds):
        rondo.append(run([RONDO, *common, *graph, "--seconds", args.seconds])["img_per_s"])
        pytorch.append(run([*peer, *setting, "--seconds", args.seconds])["img_per_s"])
        print(f"{model}, round {i + 1}: rondo {rondo[-1]:.1f}, PyTorch {pytorch[-1]:.1f} img/s", file=sys.stderr)
    return {
        "model": model,
        "batch": int(args.batch),
        "dtype": args.dtype,
        "threads": int(args.threads),
        "device": args.device,
        "infer": args.infer,
        "pytorch": best["framework"],
        "pytorch_setting": f"{best['layout']}, {best['weights']}{', compile ' + compiled if best['compile'] else ''}",
        "pytorch_settings": best["rows"],
        "rondo_img_per_s": statistics.median(rondo),
        "pytorch_img_per_s": statistics.median(pytorch),
        "ratio": statistics.median(a / b for a, b in zip(rondo, pytorch)),
        "rondo_rounds": rondo,
        "pytorch_rounds": pytorch,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default="mlp,resnet20,resnet18")
    parser.add_argument("--dtype", default="f32", choices=["f32", "bf16", "f16"])
    parser.add_argument("--batch", default="128")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (rondo then with --graph)")
    parser.add_argument("--threads", default=str(len(os.sched_getaffinity(0))))
    parser.add_argument("--seconds", default="10", help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--infer", action="store_true")
    parser.add_argument("--json", metavar="FILE", help="everything that was measured; - is standard output")
    args = parser.parse_args()
    rows = [compare(model, args) for model in args.models.split(",")]

    out = sys.stderr if args.json == "-" else sys.stdout
    what = "inference" if args.infer else "training"
    print(f"\n{what}, {args.dtype}, batch {args.batch}, {args.threads} threads, median of {args.rounds} rounds\n", file=out)
    print("| model | rondo img/s | PyTorch img/s | its setting | ratio |\n| --- | --- | --- | --- | --- |", file=out)
    for row in rows:
        print(
            f"| {row['model']} | {row['rondo_img_per_s']:.1f} | {row['pytorch_img_per_s']:.1f}"
            f" | {row['pytorch_setting']} | {row['ratio']:.2f} |",
            file=out,
        )
    if args.json == "-":
        print(json.dumps({"rows": rows}))
    elif args.json:
        pathlib.Path(args.json).write_text(json.dumps({"rows": rows}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
