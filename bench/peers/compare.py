"""Measures rondo and PyTorch in turns for each row of rows.py, and prints a table of medians and ratios.

bench/compare.sh starts it and documents the flags. Read next: rows.py, measure.py.
"""

import argparse
import contextlib
import json
import math
import os
import pathlib
import statistics
import sys

import measure
import rows


def whole(most):
    """A whole number from 1 to `most`."""

    def checked(text):
        if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {most}")
        return int(text)

    return checked


def seconds(text):
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not above 0")
    return value


def some(text):
    if not text:
        raise argparse.ArgumentTypeError("it is empty")
    return text


def to_be_written(text):
    """Checks before the measurements that the file can be written."""
    path = pathlib.Path(text)
    if text == "-" or (path.exists() and not path.is_file() and not path.is_dir()):
        return text
    folder = path.absolute().parent
    if not text or path.is_dir() or not folder.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text!r} cannot be written")
    return text


def parse():
    parser = argparse.ArgumentParser(prog="compare.sh", description=__doc__)
    parser.add_argument("--rows", type=some, default="*", help="rows whose names begin so, comma-separated: train,infer:resnet20 (all)")
    parser.add_argument("--models", type=some, help="instead of --rows: training (or --infer) of these models, comma-separated, with the flags below")
    parser.add_argument("--dtype", default="f32", choices=["f32", "bf16", "f16"])
    parser.add_argument("--batch", type=whole(1_000_000), default=128)
    parser.add_argument("--infer", action="store_true")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (rondo then with --graph)")
    parser.add_argument("--threads", type=whole(4096), default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=seconds, default=1, help="time of each turn; for loading at least 5")
    parser.add_argument("--rounds", type=whole(1_000_000), default=9, help="pairs of turns")
    parser.add_argument("--mpirun", default=measure.MPIRUN, help="the command that starts ranks")
    parser.add_argument("--json", type=to_be_written, metavar="FILE", help="everything that was measured; - is standard output")
    return parser.parse_args()


def compare(row, args):
    try:
        with contextlib.ExitStack() as programs:
            rondo, peers, tried = measure.SIDES[row.kind](row, args, programs)
            rounds = []
            for i in range(args.rounds):
                ours, theirs = rondo(), {setting: peer() for setting, peer in peers.items()}
                rounds.append({"rondo": ours, **theirs})
                said = ", ".join(f"{figure:.4g} ({setting})" for setting, figure in theirs.items())
                print(f"{row.name}, round {i + 1}: rondo {ours:.4g}, PyTorch {said} {row.unit}", file=sys.stderr)
    except measure.Failed as failure:
        print(f"{row.name}: {failure}", file=sys.stderr)
        return {"name": row.name, "failed": str(failure), "side": failure.side}

    def ratio(setting):
        return statistics.median(row.ratio(r["rondo"], r[setting]) for r in rounds)

    best = min(peers, key=ratio)  # PyTorch's fastest setting; memory has one peer
    return {
        "name": row.name,
        "unit": row.unit,
        "rondo": statistics.median(r["rondo"] for r in rounds),
        "pytorch": statistics.median(r[best] for r in rounds),
        "ratio": ratio(best),
        "goal": row.goal,
        "pytorch_setting": best,
        "pytorch_settings": tried,
        "rounds": rounds,
    }


def table(results, out):
    print("| row | rondo | PyTorch | | its setting | ratio | wanted |\n| --- | --- | --- | --- | --- | --- | --- |", file=out)
    for r in results:
        if "failed" in r:
            print(f"| {r['name']} | {r['failed']} | | | | | |", file=out)
            continue
        sign = "≤" if r["name"].startswith("memory") else "≥"
        goal = f"{sign} {r['goal']:g}" if r["goal"] else ""
        print(
            f"| {r['name']} | {r['rondo']:.4g} | {r['pytorch']:.4g} | {r['unit']} | {r['pytorch_setting']}"
            f" | {r['ratio']:.2f} | {goal} |",
            file=out,
        )


def main():
    args = parse()
    if args.models:
        kind = "infer" if args.infer else "train"
        wanted = [rows.Row(kind, model, args.dtype, args.batch) for model in args.models.split(",")]
    else:
        wanted = rows.chosen(args.rows)
    results = [compare(row, args) for row in wanted]
    out = sys.stderr if args.json == "-" else sys.stdout
    print(f"\n{args.threads} threads, medians of {args.rounds} pairs\n", file=out)
    table(results, out)
    everything = {"threads": args.threads, "rounds": args.rounds, "seconds": args.seconds, "rows": results}
    if args.json == "-":
        print(json.dumps(everything))
    elif args.json:
        pathlib.Path(args.json).write_text(json.dumps(everything, indent=1), encoding="utf-8")
    # The table says what PyTorch lacks here. The exit status is 1 if rondo failed, or if the table has no figure.
    if any(r.get("side") == "rondo" for r in results) or all("failed" in r for r in results):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
