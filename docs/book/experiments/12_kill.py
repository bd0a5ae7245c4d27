#!/usr/bin/env python3
"""Trains on four ranks, kills rank 2, and resumes the run.

    docs/book/experiments/12_kill.py MPIRUN…               in the clone; MPIRUN is the command before -np
    docs/book/experiments/12_kill.py --json FILE MPIRUN…   also writes what each rank did when: the data of chapter 12's figure

A rank's flight record and its error message have the times of their files, in milliseconds after the kill; the end of a
process is when it was seen.
"""
import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--json", type=pathlib.Path)
parser.add_argument("mpirun", nargs=argparse.REMAINDER)
arguments = parser.parse_args()
mpirun, file = arguments.mpirun, arguments.json and arguments.json.resolve()
if not mpirun or mpirun[0].startswith("-"):
    parser.error("expected the command that starts ranks, such as mpirun; --help describes it")
program = str(pathlib.Path("build/bin/fashion_mlp").resolve())
victim, ranks = 2, range(4)
scratch = tempfile.TemporaryDirectory()
os.chdir(scratch.name)

# Each rank notes its process and writes its errors to a file: after a death mpirun may lose them.
pathlib.Path("rank").write_text("""#!/bin/sh
rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}
echo $$ >process.$rank
exec "$@" 2>>said.$rank
""")
os.chmod("rank", 0o755)
options = ["--limit", "192", "--batch", "24", "--epochs", "3", "--threads", "1", "--all-reduce", "ring"]
train = [*mpirun, "-np", "4", "./rank", program, *options]
log = open("log", "w")


def text_of(name):
    """Empty if the file does not exist. A file of /proc vanishes with its process."""
    try:
        return pathlib.Path(name).read_text()
    except OSError:
        return ""


def is_alive(process):
    state = re.search(r"\) (\w)", text_of(f"/proc/{process}/stat"))
    return state is not None and state[1] not in "ZX"


def run(*more):
    if subprocess.run([*train, *more], stdout=log, stderr=log).returncode != 0:
        sys.exit(f"12_kill.py: {train} {more} fails:\n" + text_of("log") + text_of("said.0"))


def kill():
    """What happens when, in seconds after the kill."""
    job = subprocess.Popen([*train, "--checkpoint-dir", "killed", "--checkpoint-every", "1"], stdout=log, stderr=log,
                           env={**os.environ, "RONDO_FLIGHT_RECORD": "record"})
    while not pathlib.Path("killed/checkpoint.safetensors").exists() and job.poll() is None:
        time.sleep(0.01)
    processes = {rank: int(text_of(f"process.{rank}")) for rank in ranks}
    killed = time.time()
    os.kill(processes[victim], signal.SIGKILL)
    when = {}
    while job.poll() is None:
        for rank in ranks:
            if not is_alive(processes[rank]):
                when.setdefault((rank, "ended"), time.time() - killed)
        time.sleep(0.001)
    for rank in ranks:
        for event, name in (("record", f"record/rank{rank}.txt"), ("said", f"said.{rank}")):
            if text_of(name):
                when[rank, event] = os.stat(name).st_mtime - killed
        when.setdefault((rank, "ended"), time.time() - killed)  # the launcher has seen it
    if job.returncode == 0:
        sys.exit("12_kill.py: a job of which a rank was killed reports success")
    return when


run("--checkpoint-dir", "straight", "--json", "straight.json")
when = kill()
said = {rank: re.sub("^error: rank .: ", "", text_of(f"said.{rank}").strip()) for rank in ranks}
doing = {rank: next((line for line in text_of(f"record/rank{rank}.txt").split("\n") if line.endswith(", failed")), "") for rank in ranks}
for rank in sorted(ranks, key=lambda rank: rank != victim):
    events = [event for event in ("record", "said", "ended") if (rank, event) in when]
    events.sort(key=lambda event: when[rank, event])
    words = {"record": "writes its record", "said": f'says "{said[rank]}"', "ended": "ends"}
    print(f"rank {rank} " + ", ".join(words[event] for event in events))
print("the collective of rank 0, by its record:\n" + doing[0])
run("--checkpoint-dir", "killed", "--resume", "--json", "resumed.json")
print(re.search(r"^resum[^;\n]*", text_of("log"), re.M)[0])
hashes = [json.loads(text_of(f"{name}.json"))["param_hash"] for name in ("straight", "resumed")]
print("the weights are " + ("those" if hashes[0] == hashes[1] else "not those") + " of a run without a death")
if file:
    rows = [{"rank": rank, **{event: round(1000 * when[rank, event]) for event in ("record", "said", "ended") if (rank, event) in when},
             "sentence": said[rank], "last_collective": doing[rank]} for rank in ranks]
    file.write_text("[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]\n")
