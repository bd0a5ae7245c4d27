#!/usr/bin/env python3
"""Checks the book: docs/book/README.md says how its pages are written.

    docs/book/check.py excerpts                          each excerpt is in its file
    docs/book/check.py experiments PAGE BUILD [MPIRUN…]  each command prints what the page shows
    docs/book/check.py exercise TEST SOLUTION START      SOLUTION passes; START fails as TEST says;
                                                         both are commands

Exit status 1 and the differences if not. BUILD is the build folder; MPIRUN is the command that stands for
"mpirun" in the pages, with its options. Without it, commands with mpirun are left out.
"""
import difflib
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

book = pathlib.Path(__file__).resolve().parent
root = book.parent.parent
TIMEOUT = 120  # seconds, for one command on a busy machine


def blocks(page, marker):
    """(line number, what the marker's parentheses matched, the fenced blocks that follow) for each marker."""
    lines = page.read_text().split("\n")
    for number, line in enumerate(lines, 1):
        match = re.fullmatch(marker, line)
        if not match:
            continue
        found, at = [], number
        while at < len(lines) and (lines[at].startswith("```") or not lines[at]):
            if lines[at]:
                end = lines.index("```", at + 1)
                found.append((lines[at][3:], lines[at + 1 : end]))
                at = end
            at += 1
        yield number, match.groups(), found


def parts_between(lines, mark):
    parts = [[]]
    for line in lines:
        if line.strip() == mark:
            parts.append([])
        else:
            parts[-1].append(line)
    return parts


def place_of(block, lines):
    """(what is cut off in front of each line, [(first line, last line) of each part]) of the block in `lines`, or None. The parts of the
    block between lines "// …" follow one another there, all indented equally less."""
    for indent in range(20):
        shifted = [line[indent:] if not line[:indent].strip() else None for line in lines]
        at, found = 0, []
        for part in filter(None, parts_between(block, "// …")):
            ends = [i + len(part) for i in range(at, len(lines) + 1) if shifted[i : i + len(part)] == part]
            if not ends:
                break
            at = ends[0]
            found.append((at - len(part) + 1, at))
        else:
            return indent, found
    return None


def check_excerpts():
    faults = []
    for page in sorted(book.glob("*.md")):
        for number, (path,), found in blocks(page, r"<!-- excerpt: (\S+) -->"):
            where = f"docs/book/{page.name}:{number}"
            if not (root / path).is_file():
                faults.append(f"{where}: {path} does not exist")
            elif not found:
                faults.append(f"{where}: a block of code must follow the marker")
            elif not place_of(found[0][1], lines := (root / path).read_text().split("\n")):
                known = {line.strip() for line in lines}
                new = [line for line in found[0][1] if line.strip() not in known | {"// …"}]
                faults.append(f"{where}: {path} has no such lines: " + (new[0] if new else "they do not follow one another"))
    return faults


def run(command, folder, path):
    """Its exit status and its output, errors included."""
    process = subprocess.Popen(["bash", "-c", command], cwd=folder, env={**os.environ, "PATH": path}, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, start_new_session=True, text=True, errors="replace")
    try:
        output, _ = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)
        output = process.communicate()[0] + f"check.py: stopped after {TIMEOUT} s\n"
    return process.returncode, [line.rstrip() for line in output.rstrip("\n").split("\n")]


def prints(expected, output):
    pattern = ""
    for line in expected:
        pattern += r"(?:.*\n)*?" if line == "…" else re.escape(line).replace("…", ".*?") + "\n"
    return re.fullmatch(pattern, "".join(line + "\n" for line in output))


def check_experiments(page, build, *mpirun):
    faults = []
    with tempfile.TemporaryDirectory() as scratch:
        # A folder that looks like the clone. Files that the commands write stay in it.
        clone, programs = pathlib.Path(scratch, "clone"), pathlib.Path(scratch, "programs")
        clone.mkdir()
        programs.mkdir()
        for entry in root.iterdir():
            if not entry.name.startswith((".", "build", "runs")):
                (clone / entry.name).symlink_to(entry)
        (clone / "build").symlink_to(pathlib.Path(build).resolve())
        if mpirun:
            mpirun = [shutil.which(mpirun[0]), *mpirun[1:]]  # its path, because this folder precedes it in PATH
            (programs / "mpirun").write_text(f'#!/bin/sh\nexec {shlex.join(mpirun)} "$@"\n')
            (programs / "mpirun").chmod(0o755)
        for number, _, found in blocks(pathlib.Path(page), "<!-- run -->"):
            where = f"{page}:{number}"
            if [language for language, _ in found[:2]] != ["sh", "text"]:
                faults.append(f"{where}: a block of sh and a block of text must follow the marker")
                continue
            command, expected = "\n".join(found[0][1]), [line.rstrip() for line in found[1][1]]
            if "mpirun" in command and not mpirun:
                continue
            status, output = run(command, clone, f"{programs}:{os.environ['PATH']}")
            if status != 0:
                faults.append(f"{where}: the command exits with status {status}:\n" + "\n".join(output))
            elif not prints(expected, output):
                faults += [f"{where}: the command prints something else:"]
                faults += difflib.unified_diff(expected, output, "page", "output", lineterm="")
    return faults


def check_exercise(test, solution, start):
    text = re.search(r"^// start fails: (.+)$", pathlib.Path(test).read_text(), re.M)
    if not text:
        return [f'{test}: the line "// start fails: TEXT" is missing']
    faults = []
    status, output = run(solution, ".", os.environ["PATH"])
    if status != 0:
        faults.append("the solution exits with status " + "\n".join([str(status), *output]))
    status, output = run(start, ".", os.environ["PATH"])
    if status == 0 or text[1] not in "\n".join(output):
        faults.append(f'the start must fail with "{text[1]}". Its status is ' + "\n".join([str(status), *output]))
    return faults


def main():
    checks = {"excerpts": (check_excerpts, 0, 0), "experiments": (check_experiments, 2, None), "exercise": (check_exercise, 3, 3)}
    kind, *arguments = sys.argv[1:] or [""]
    if kind in ("--help", "-h"):
        sys.exit(print(__doc__))
    check, least, most = checks.get(kind, (None, 0, 0))
    if check is None or len(arguments) < least or len(arguments[:most]) < len(arguments):
        print(f"check.py: unknown arguments '{' '.join(sys.argv[1:])}'; --help describes them", file=sys.stderr)
        sys.exit(2)
    faults = check(*arguments)
    print("\n".join(faults))
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
