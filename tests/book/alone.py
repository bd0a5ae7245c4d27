#!/usr/bin/env python3
"""alone.py COMPILER… EXERCISES: each file of each exercise names all headers that it needs.

The tests compile six exercises as one program (group.py), in which a file finds what its neighbours include. Here each file is
checked alone, without code for it and without a precompiled header. COMPILER is a command with its options.
"""
import concurrent.futures
import os
import pathlib
import subprocess
import sys

*compiler, exercises = sys.argv[1:]
files = sorted(pathlib.Path(exercises).glob("*/*.cpp"))


def check(file):
    return subprocess.run([*compiler, "-fsyntax-only", str(file)], capture_output=True, text=True)


with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    faults = [result.stderr for result in pool.map(check, files) if result.returncode != 0]
print(*faults, sep="\n", end="")
sys.exit(not files or bool(faults))
