"""Measures rondo and PyTorch once for a row of rows.py: runs commands, and reads the figure from their output.

Each `sides_*` returns a function that measures rondo once, PyTorch's functions by the name of their setting (several,
if several settings were about as fast), and the settings that were tried.
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


# Each setting of PyTorch is tried once, on a machine whose speed drifts. Settings within this factor of the fastest are
# measured too; the one with the best median counts.
CONTENDS = 1.25
CONTENDERS = 3


class Failed(Exception):
    """A row cannot be measured; the other rows are. `side` is rondo's or PyTorch's."""

    def __init__(self, side, text):
        super().__init__(f"{side}: {text}")
        self.side = side


class Program:
    """A running command of either side. Its standard error is passed on."""

    def __init__(self, command, env=None):
        self.command = [str(part) for part in command]
        self.side = "PyTorch" if self.command[0] == sys.executable else "rondo"
        self.said = []
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        try:
            self.process = subprocess.Popen(
                self.command, **pipes, env={**os.environ, **(env or {})}, text=True, errors="replace"
            )
        except OSError as error:
            raise Failed(self.side, f"{self.command[0]}: {error.strerror}") from error
        self.errors = threading.Thread(target=self.pass_on)
        self.errors.start()

    def pass_on(self):
        for line in self.process.stderr:
            print(line, end="", file=sys.stderr, flush=True)
            self.said += [line.strip()] if line.strip() else []

    def parse(self, lines):
        try:
            return json.loads(lines[-1])
        except (IndexError, ValueError) as error:
            raise Failed(self.side, f"{shlex.join(self.command)} prints no JSON") from error

    def turn(self):
        """Lets a program with --turns measure once, and returns the result."""
        try:
            print(file=self.process.stdin, flush=True)
        except BrokenPipeError:
            pass  # it has ended, and end() raises the reason
        line = self.process.stdout.readline()
        if not line:
            self.end()
        return self.parse([line])

    def end(self):
        """Waits for its end. Returns its output and its resource usage. Raises Failed if it failed."""
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        out = self.process.stdout.read()
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.errors.join()
        if self.process.returncode != 0:
            why = self.said[-1] if self.said else "nothing said"
            raise Failed(self.side, f"{why} ({shlex.join(self.command)} ended with {self.process.returncode})")
        return out.splitlines(), usage

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.returncode is None:
            self.process.kill()
            self.process.wait()
            self.errors.join()


def run(command, env=None):
    """Returns the JSON object that a program prints last, its wall time in seconds and its peak memory in MiB."""
    start = time.perf_counter()
    with Program(command, env) as program:
        out, usage = program.end()
        return program.parse(out), time.perf_counter() - start, usage.ru_maxrss / 1024


def step_commands(row, args):
    """The arguments that train_step and its peer share."""
    common = ["--model", row.model, "--batch", row.batch, "--threads", args.threads, "--json", "-"]
    common += ["--infer"] if row.kind == "infer" else []
    common += ["--device", args.device]
    # On the CPU both use autocast. On a GPU --dtype means bf16 weights, or the way that is faster in PyTorch.
    amp = args.device == "cpu" and row.dtype == "bf16"
    rondo = [BIN / "train_step", *common, *(["--amp", "bf16"] if amp else ["--dtype", row.dtype])]
    rondo += ["--graph"] if args.device != "cpu" and row.kind == "train" else []
    return rondo, [sys.executable, HERE / "train_step.py", *common, "--dtype", row.dtype]


def sides_steps(row, args, programs):
    """Both programs stay in memory and are told when it is their turn, so that there can be many short turns."""
    rondo, peer = step_commands(row, args)
    tried = run([*peer, "--seconds", args.seconds / 2])[0]["rows"]
    done = sorted((r for r in tried if "failed" not in r), key=lambda r: -r["img_per_s"])
    timed = ["--turns", "--seconds", args.seconds]

    def turns(command):
        program = programs.enter_context(Program([*command, *timed]))
        program.turn()  # warm-up: does not count, and a program that tries kernels then has the machine alone
        return lambda: program.turn()["img_per_s"]

    peers = {}
    failure = None
    for best in [r for r in done if r["img_per_s"] * CONTENDS >= done[0]["img_per_s"]][:CONTENDERS]:
        words = [best["layout"], *([best["weights"]] if row.dtype != "f32" else []), f"compile {best['compile']}"]
        setting = ["--layout", best["layout"], "--compile", best["compile"], "--weights", best["weights"]]
        try:
            peers[", ".join(words)] = turns([*peer, *setting])
        except Failed as reason:  # for example, too little memory for several programs at once
            print(f"{row.name}: {reason}", file=sys.stderr)
            failure = reason
    if not peers:
        raise failure
    return turns(rondo), peers, tried


def sides_start_up(row, args, programs):
    """Time from exec to the end of a process that runs one step.

    Each process is started twice in a row, and the second start counts. A virtual machine whose balloon reports free
    pages returns the memory that the other side's process has freed to its host. The next process that starts waits
    until the host has cleared that memory.
    """
    rondo, peer = step_commands(row, args)
    peer += ["--layout", "contiguous", "--compile", "off"]
    env = {"RONDO_BENCH_MALLOC": "default"}  # otherwise keep_memory.py would start Python twice

    def second(command, env=None):
        run(command, env)
        return run(command, env)[1]

    peers = {"contiguous, compile off": lambda: second([*peer, "--steps", 1], env)}
    return lambda: second([*rondo, "--steps", 1]), peers, []


def sides_memory(row, args, programs):
    rondo, peer = step_commands(row, args)
    settings = [(layout, malloc) for layout in ("contiguous", "channels_last") for malloc in ("default", "keep")]

    def peak(setting):
        layout, malloc = setting
        command = [*peer, "--layout", layout, "--compile", "off", "--steps", 4]
        return run(command, {"RONDO_BENCH_MALLOC": malloc})[2]

    tried = {setting: peak(setting) for setting in settings}
    best = min(tried, key=tried.get)
    peers = {f"{best[0]}, malloc {best[1]}": lambda: peak(best)}
    return lambda: run([*rondo, "--steps", 4])[2], peers, [{"setting": list(s), "MiB": m} for s, m in tried.items()]


def sides_load(row, args, programs):
    seconds = max(args.seconds, 5)  # no short turns: each measurement starts its workers
    timed = ["--batch", row.batch, "--json", "-", "--seconds"]
    rondo = [BIN / "data_loading", "--workers", 1, "--loops-only", *timed, seconds]
    peer = [sys.executable, HERE / "loader.py", *timed]
    best, _, _ = run([*peer, seconds / 2])

    def rate():  # one worker, hence one core, as on PyTorch's side
        rows = run(rondo)[0]["rows"]
        return max(r["img_per_s"] for r in rows if r["workers"] == 1 and "img_per_s" in r)

    peers = {best["setting"]: lambda: run([*peer, seconds, "--setting", best["setting"]])[0]["img_per_s"]}
    return rate, peers, best["rows"]


def sides_all_reduce(row, args, programs):
    """All-reduce of tensors in private memory, as programs call it on both sides. (rondo's DDP buckets are faster.)"""
    size = ["--min-bytes", row.bytes, "--max-bytes", row.bytes]
    rondo = [*shlex.split(args.mpirun), "-np", 2, BIN / "all_reduce", *size, "--json", "-"]
    peer = [sys.executable, HERE / "all_reduce.py", "--bytes", row.bytes, "--json", "-"]

    def ms():
        rows = run(rondo)[0]["rows"]
        return 1e3 * next(r["seconds"] for r in rows if r["algorithm"] == "auto")

    return ms, {"gloo": lambda: 1e3 * run(peer)[0]["seconds"]}, []


def sides_op(row, args, programs):
    """Turns take a quarter of the time, since there are many ops."""
    common = ["--op", row.model, "--threads", args.threads, "--seconds", args.seconds / 4, "--turns", "--json", "-"]
    common += ["--backward"] if row.kind == "grad" else []

    def turns(command):
        program = programs.enter_context(Program(command))
        program.turn()
        return lambda: program.turn()["ms"]

    return turns([BIN / "ops", *common]), {"eager": turns([sys.executable, HERE / "ops.py", *common])}, []


SIDES = {
    "train": sides_steps,
    "infer": sides_steps,
    "start_up": sides_start_up,
    "memory": sides_memory,
    "load": sides_load,
    "all_reduce": sides_all_reduce,
    "op": sides_op,
    "grad": sides_op,
}
