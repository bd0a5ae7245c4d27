"""compare.py COMMITTED FRESH: are the goldens of two folders equal, up to rounding?

Another processor or another PyTorch rounds differently, so numbers may differ slightly. Names, dtypes,
sizes, integers and texts may not.
"""

import filecmp
import math
import pathlib
import sys

TOLERANCE = {"f64": 1e-9, "f32": 1e-4, "f16": 4e-3, "bf16": 3e-2}


def differs(a, b):
    """The difference between two lines, or None."""
    a, b = a.split(" "), b.split(" ")
    if a[:3] != b[:3] or len(a) != len(b):
        return f"'{' '.join(a[:3])}' is now '{' '.join(b[:3])}'"
    tolerance = TOLERANCE.get(a[1], 0)
    for i, (x, y) in enumerate(zip(a[3:], b[3:])):
        if x != y and not math.isclose(float(x), float(y), rel_tol=tolerance, abs_tol=tolerance):
            return f"element {i} of {a[0]} was {x} and is now {y}"
    return None


def main():
    committed, fresh = map(pathlib.Path, sys.argv[1:3])
    failures = compared = 0
    for new in sorted(path for path in fresh.iterdir() if path.is_file() and path.suffix != ".py"):
        if new.name == "torch_files_hex.txt":
            continue  # PyTorch's older format contains addresses, which differ in each run
        old = committed / new.name
        compared += 1
        if not old.exists():
            print(f"{new.name}: is made, but not committed")
            failures += 1
            continue
        if filecmp.cmp(old, new, shallow=False):
            continue
        if not new.read_bytes().startswith(b"# Made by PyTorch"):
            print(f"{new.name}: the text differs")
            failures += 1
            continue
        a, b = (path.read_text(encoding="utf-8").splitlines()[1:] for path in (old, new))
        found = [d for d in map(differs, a, b) if d] + (["the number of lines"] if len(a) != len(b) else [])
        for difference in found[:5]:
            print(f"{new.name}: {difference}")
        failures += bool(found)
    print(f"{100 * (compared - failures) // max(compared, 1)}% tests passed, {failures} tests failed out of {compared}")
    sys.exit(failures > 0 or compared == 0)


if __name__ == "__main__":
    main()
