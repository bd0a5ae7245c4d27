"""One measurement of rondo and of PyTorch for a row of rows.py: commands to run, and the figure in what they print.

Each `pairs_*` gives (rondo, peer, settings): functions that measure once, and what was tried on PyTorch's side.
Read next: train_step.py, loader.py and all_reduce.py, which are PyTorch's side.
"""

import json
import os
import pathlib
import shlex
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
BIN = HERE.parent.parent / "build" / "bin"
MPIRUN = "mpirun --bind-to none" + (" --allow-run-as-root" if os.geteuid() == 0 else "")  # as scripts/train.sh does


class Failed(Exception):
    """What a row cannot do without; the others go on. `side` is whose it is."""

    def __init__(self, side, text):
        super().__init__(f"{side}: {text}")
        self.side = side


def pass_on(stream, said):
    for line in stream:
        print(line, end="", file=sys.stderr, flush=True)
        said += [line.strip()] if line.strip() else []


def run(command, env=None):
    """The JSON object that a program prints last, its wall time in seconds and its peak memory in MiB."""
    command = [str(part) for part in command]
    side = "PyTorch" if command[0] == sys.executable else "rondo"
    said = []
    start = time.perf_counter()
    try:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **(env or {})}, text=True
        )
    except OSError as error:
        raise Failed(side, f"{command[0]}: {error.strerror}") from error
    errors = threading.Thread(target=pass_on, args=(process.stderr, said))
    errors.start()
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    errors.join()
    if process.returncode != 0:
        raise Failed(side, f"{said[-1] if said else 'nothing said'} ({shlex.join(command)} ended with {process.returncode})")
    try:
        return json.loads(out.splitlines()[-1]), seconds, usage.ru_maxrss / 1024
    except (IndexError, ValueError) as error:
        raise Failed(side, f"{shlex.join(command)} prints no JSON") from error


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
    best, _, _ = run([*peer, "--seconds", args.seconds / 2])
    setting = ["--layout", best["layout"], "--compile", best["compile"], "--weights", best["weights"]]
    timed = ["--seconds", args.seconds]
    words = [best["layout"], *([best["weights"]] if row.dtype != "f32" else []), f"compile {best['compile']}"]
    return (
        lambda: run([*rondo, *timed])[0]["img_per_s"],
        lambda: run([*peer, *setting, *timed])[0]["img_per_s"],
        {"chosen": ", ".join(words), "tried": best["rows"]},
    )


def pairs_start_up(row, args):
    """From exec to the end of the process, which is that of its first step.

    Each process is started twice in a row, and the second counts: a virtual machine whose balloon reports free pages
    gives its host what the other side's process has freed, and who starts next waits until the host has cleared it.
    """
    rondo, peer = step_commands(row, args)
    peer += ["--layout", "contiguous", "--compile", "off"]
    env = {"RONDO_BENCH_MALLOC": "default"}  # a second start of Python would count

    def second(command, env=None):
        run(command, env)
        return run(command, env)[1]

    return (
        lambda: second([*rondo, "--steps", 1]),
        lambda: second([*peer, "--steps", 1], env),
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
    timed = ["--batch", row.batch, "--json", "-", "--seconds"]
    rondo = [BIN / "data_loading", "--workers", 1, "--loops-only", *timed, args.seconds / 2]
    peer = [sys.executable, HERE / "loader.py", *timed]
    best, _, _ = run([*peer, args.seconds / 2])

    def rate():  # one worker, as the peer: its core
        rows = run(rondo)[0]["rows"]
        return max(r["img_per_s"] for r in rows if r["workers"] == 1 and "img_per_s" in r)

    return (
        rate,
        lambda: run([*peer, args.seconds, "--setting", best["setting"]])[0]["img_per_s"],
        {"chosen": best["setting"], "tried": best["rows"]},
    )


def pairs_all_reduce(row, args):
    """Of tensors in memory of their own, as either's all_reduce is called; DDP's buckets lie better in rondo."""
    size = ["--min-bytes", row.bytes, "--max-bytes", row.bytes]
    rondo = [*shlex.split(args.mpirun), "-np", 2, BIN / "all_reduce", *size, "--json", "-"]
    peer = [sys.executable, HERE / "all_reduce.py", "--bytes", row.bytes, "--json", "-"]

    def ms():
        rows = run(rondo)[0]["rows"]
        return 1e3 * next(r["seconds"] for r in rows if r["algorithm"] == "auto")

    return ms, lambda: 1e3 * run(peer)[0]["seconds"], {"chosen": "gloo", "tried": []}


PAIRS = {
    "train": pairs_steps,
    "infer": pairs_steps,
    "start_up": pairs_start_up,
    "memory": pairs_memory,
    "load": pairs_load,
    "all_reduce": pairs_all_reduce,
}
