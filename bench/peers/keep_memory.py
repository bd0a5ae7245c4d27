"""Tells glibc to keep memory, so that PyTorch is as fast as possible (unless RONDO_BENCH_MALLOC=default).

By default glibc returns large buffers to the system after each step, and the page faults of the next step cost a
third of PyTorch's time on ResNet-20.
"""

import os
import sys

KEPT = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 31), "MALLOC_TOP_PAD_": str(1 << 26)}


def or_start_anew():
    """Restarts the process if necessary, since glibc reads the variables only when a process starts."""
    if os.environ.get("RONDO_BENCH_MALLOC") != "default" and not KEPT.items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **KEPT})
