"""One measurement of rondo and of PyTorch for a row of rows.py: commands to run, and the figure in what they print.

Each `pairs_*` gives (rondo, peer, settings): functions that measure once, and what was tried on PyTorch's side.
"""

import json
import os
import pathlib
import shlex
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
BIN = HERE.parent.parent / "build" / "bin"
COMPILE = {False: "off", True: "on"}


class Failed(Exception):
    """What a row cannot do without; the others go on."""


def run(command, env=None):
    """The JSON object that a program prints last, its wall time in seconds and its peak memory in MiB."""
    command = [str(part) for part in command]
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, **(env or {})})
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - start
    if process.returncode != 0:
        raise Failed(f"{pathlib.Path(command[0]).name} failed: {shlex.join(command)}")
    lines = out.splitlines()
    return (json.loads(lines[-1]) if lines else {}), seconds, usage.ru_maxrss / 1024


def step_commands(row, args):
    """What train_step and its peer have in common."""
    common = ["--model", row.model, "--batch", row.batch, "--threads", args.threads, "--json", "-"]
    common += ["--infer"] if row.kind == "infer" else []
    common += ["--device", args.device]
    # On the CPU both compute under autocast; on a GPU --dtype means bf16 weights, or what PyTorch likes better.
    amp = args.device == "cpu" and row.dtype == "bf16"
    rondo = [BIN / "train_step", *common, *(["--amp", "bf16"] if amp else ["--dtype", row.dtype])]
    rondo += ["--graph"] if args.device != "cpu" and row.kind == "train" else []
    return rondo, [sys.executable, HERE / "train_step.py", *common, "--dtype", row.dtype]


def pairs_steps(row, args):
    rondo, peer = step_commands(row, args)
    best, _, _ = run([*peer, "--seconds", float(args.seconds) / 2])
    compiled = COMPILE.get(best["compile"], best["compile"])
    setting = ["--layout", best["layout"], "--compile", compiled, "--weights", best["weights"]]
    timed = ["--seconds", args.seconds]
    text = ", ".join([best["layout"], best["weights"] if row.dtype != "f32" else "", f"compile {compiled}"]).replace(", ,", ",")
    return (
        lambda: run([*rondo, *timed])[0]["img_per_s"],
        lambda: run([*peer, *setting, *timed])[0]["img_per_s"],
        {"chosen": text, "tried": best["rows"]},
    )


def pairs_start_up(row, args):
    rondo, peer = step_commands(row, args)
    peer += ["--layout", "contiguous", "--compile", "off"]
    env = {"RONDO_BENCH_MALLOC": "default"}  # a second start of Python would count
    return (
        lambda: run([*rondo, "--steps", 1])[1],
        lambda: run([*peer, "--steps", 1], env)[1],
        {"chosen": "contiguous, compile off", "tried": []},
    )


def pairs_memory(row, args):
    rondo, peer = step_commands(row, args)
    settings = [(layout, malloc) for layout in ("contiguous", "channels_last") for malloc in ("default", "keep")]

    def peak(setting):
        layout, malloc = setting
        command = [*peer, "--layout", layout, "--compile", "off", "--steps", 4]
        return run(command, {"RONDO_BENCH_MALLOC": malloc})[2]

    tried = {setting: peak(setting) for setting in settings}
    best = min(tried, key=tried.get)
    return (
        lambda: run([*rondo, "--steps", 4])[2],
        lambda: peak(best),
        {"chosen": f"{best[0]}, malloc {best[1]}", "tried": [{"setting": list(s), "MiB": m} for s, m in tried.items()]},
    )


def pairs_load(row, args):
    rondo = [BIN / "data_loading", "--workers", 1, "--seconds", args.seconds, "--batch", row.batch, "--json", "-"]
    peer = [sys.executable, HERE / "loader.py", "--batch", row.batch, "--seconds", args.seconds, "--json", "-"]
    best, _, _ = run(peer)

    def rate():  # one worker, as the peer: its core
        rows = run(rondo)[0]["rows"]
        return max(r["img_per_s"] for r in rows if r["name"] == "loader" and r["workers"] == 1 and "img_per_s" in r)

    return (
        rate,
        lambda: run([*peer, "--setting", best["setting"]])[0]["img_per_s"],
        {"chosen": best["setting"], "tried": best["rows"]},
    )


def pairs_all_reduce(row, args):
    size = ["--min-bytes", row.bytes, "--max-bytes", row.bytes]
    rondo = [*shlex.split(args.mpirun), "-np", 2, BIN / "all_reduce", *size, "--json", "-"]
    peer = [sys.executable, HERE / "all_reduce.py", "--bytes", row.bytes, "--json", "-"]

    def ms():
        rows = run(rondo)[0]["rows"]
        return 1e3 * min(r["seconds"] for r in rows if not r["algorithm"].startswith("MPI"))

    return ms, lambda: 1e3 * run(peer)[0]["seconds"], {"chosen": "gloo", "tried": []}


PAIRS = {
    "train": pairs_steps,
    "infer": pairs_steps,
    "start_up": pairs_start_up,
    "memory": pairs_memory,
    "load": pairs_load,
    "all_reduce": pairs_all_reduce,
}
