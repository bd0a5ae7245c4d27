#!/usr/bin/env python3
"""Lists which public names of PyTorch rondo has, for docs/reference/pytorch_coverage.md.

    docs/pytorch_coverage.py            writes the page
    docs/pytorch_coverage.py --check    exit status 1 if the page is not current, or if a name is neither in rondo nor
                                        in docs/reference/pytorch_coverage.txt

PyTorch's names are in tests/golden/torch_names.txt (make_torch_names.py). A name that rondo's headers declare needs
nothing else. The text file has three columns for the others: names of PyTorch (* stands for anything), rondo's name or
"-", and a remark, which says why if the name is left out. A name after ! is a function of rondo, too, but another one.
"""
import argparse
import collections
import fnmatch
import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parent.parent
table = root / "docs/reference/pytorch_coverage.txt"
page = root / "docs/reference/pytorch_coverage.md"
KINDS = {
    "nn": "torch.nn",
    "nn.functional": "torch.nn.functional",
    "optim": "torch.optim",
    "optim.lr_scheduler": "torch.optim.lr_scheduler",
    "Tensor": "torch.Tensor",
    "torch": "torch",
    "linalg": "torch.linalg",
    "fft": "torch.fft",
    "special": "torch.special",
    "nn.init": "torch.nn.init",
    "nn.utils": "torch.nn.utils",
}


def text_of(*patterns):
    return "\n".join(file.read_text() for pattern in patterns for file in sorted(root.glob(pattern)))


CLASSES = set(re.findall(r"^(?:struct|class|using) (\w+)", text_of("nn/*.h", "optim/*.h", "dist/*/*.h"), re.M))


def functions_of(*patterns):
    return set(re.findall(r"^(?:[\w:<>]+[ &*]+)+(\w+)\(", text_of(*patterns), re.M))


FUNCTIONS = functions_of("autograd/*.h", "autograd/ops/*.h", "tensor/*.h")
IN_NAMESPACE = {
    "linalg": functions_of("extras/linalg/linalg.h"),
    "fft": functions_of("extras/fft/fft.h"),
    "nn.init": functions_of("nn/init.h"),
    "nn.utils": functions_of("nn/*.h", "optim/*.h"),
}
METHODS = set(re.findall(r"^  (?:[\w:<>]+[ &*]+)+(\w+)\(", text_of("tensor/tensor.h"), re.M))
WORDS = set(re.findall(r"\w+", text_of(*(f"{folder}/**/*.h" for folder in ("tensor", "autograd", "nn", "optim", "dist", "extras")))))


def is_found(kind, name, others):
    """Whether a header of rondo declares a name of PyTorch. `others` mean something else in rondo."""
    if f"{kind}.{name}" in others:
        return False
    if kind in ("nn", "optim", "optim.lr_scheduler"):
        return name in CLASSES
    return name in IN_NAMESPACE.get(kind, FUNCTIONS) or (kind == "Tensor" and name in METHODS)


def is_declared(name):
    """Whether a name in the second column, such as linalg::inv, occurs in a header of rondo."""
    return name.startswith("operator") or all(word in WORDS for word in name.split("::"))


def names_by_kind():
    kinds, kind = {}, None
    for line in (root / "tests/golden/torch_names.txt").read_text().splitlines():
        if line.startswith("=== "):
            kind = kinds.setdefault(line[4:], [])
        else:
            kind.append(line)
    return kinds


def rows():
    for number, line in enumerate(table.read_text().splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            columns = [column.strip() for column in line.split("|")]
            if len(columns) != 3:
                sys.exit(f"{table.name}:{number}: expected three columns, separated by |")
            yield number, columns


def listed(names):
    return ", ".join(f"`{name}`" for name in names)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    problems, used, lines = [], set(), []
    exceptions = list(rows())
    for number, (_, ours, remark) in exceptions:
        if ours == "-" and not remark:
            problems.append(f"{table.name}:{number}: the third column must say why the name is left out")
        if ours != "-" and not is_declared(ours):
            problems.append(f"{table.name}:{number}: no header of rondo declares {ours}")
    others = {name[1:] for _, (names, _, _) in exceptions for name in names.split() if name.startswith("!")}
    counts = []
    for kind, names in names_by_kind().items():
        same, other, absent = [], collections.defaultdict(list), collections.defaultdict(list)
        for name in names:
            if is_found(kind, name, others):
                same.append(name)
                continue
            for number, (pattern, ours, remark) in exceptions:
                if any(fnmatch.fnmatchcase(f"{kind}.{name}", one.lstrip("!")) for one in pattern.split()):
                    used.add(number)
                    if ours == "-":
                        absent[remark].append(name)
                    else:
                        other[ours, remark].append(name)
                    break
            else:
                problems.append(f"{kind}.{name} is neither in rondo's headers nor in {table.name}")
        renamed, missing = (sum(map(len, groups.values())) for groups in (other, absent))
        counts.append(f"| `{KINDS[kind]}` | {len(same)} | {renamed} | {missing} |")
        lines += ["", f"## {KINDS[kind]}", "", f"Under the same name: {listed(same)}."]
        if other:
            lines += ["", f"| {KINDS[kind]} | rondo | remark |", "| --- | --- | --- |"]
            lines += [f"| {listed(names)} | `{ours}` | {remark} |" for (ours, remark), names in other.items()]
        if absent:
            lines += ["", "| not in rondo | because |", "| --- | --- |"]
            lines += [f"| {listed(names)} | {remark} |" for remark, names in absent.items()]
    problems += [f"{table.name}:{number}: matches no name that rondo lacks; delete the row"
                 for number, _ in exceptions if number not in used]
    text = "\n".join([
        "# PyTorch's names in rondo", "",
        "`docs/pytorch_coverage.py` writes this page from rondo's headers, from `tests/golden/torch_names.txt` and from",
        "`docs/reference/pytorch_coverage.txt`. To change it, edit that text file or add the function, and run the script.", "",
        "A method of `torch.Tensor` may be a function of the tensor in rondo: `x.hypot(y)` is `hypot(x, y)`.", "",
        "| | same name | another name | not in rondo |", "| --- | --- | --- | --- |", *counts, *lines, ""])
    if not check:
        page.write_text(text)
    elif not page.exists() or page.read_text() != text:
        problems.append(f"{page.relative_to(root)} is not current: run docs/pytorch_coverage.py")
    print("\n".join(problems), end="\n" if problems else "")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
