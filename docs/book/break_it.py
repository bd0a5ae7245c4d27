#!/usr/bin/env python3
"""Breaks rondo in small ways, and checks that the test which a patch names falls.

    docs/book/break_it.py BUILD [PATCH…]     PATCH: names in docs/book/break_it without .patch; all of them by default

A patch changes one source file. Its first lines say what it breaks, which file of tests notices it, and which test
falls. The program compiles a patched copy of the source file with the command of the build, links the test's program
with it, and runs this test: it must fail, and pass in the program of the build. Neither the sources nor the build change.
It needs a build by Ninja with static libraries and tests; exit status 77 without one.
"""
import argparse
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

book = pathlib.Path(__file__).resolve().parent
root = book.parent.parent


def command_of(build, target):
    done = subprocess.run(["ninja", "-C", build, "-t", "commands", "-s", target], capture_output=True, text=True)
    lines = [line for line in done.stdout.split("\n") if line and not line.startswith("ninja: ")]
    return lines[-1] if done.returncode == 0 and lines else None


def object_of(build, source):
    """The object file that the build makes of a source file, and what it compiles: perhaps several sources together."""
    done = subprocess.run(["ninja", "-C", build, "-t", "targets", "all"], capture_output=True, text=True)
    objects = [line.split(": ")[0] for line in done.stdout.split("\n") if f"/rondo_{source.split('/')[0]}.dir/" in line]
    for name in objects:
        if name.endswith(f".dir/{source.split('/', 1)[1]}.o"):
            return name, root / source
        together = pathlib.Path(build, name.removesuffix(".o"))
        if "/Unity/" in name and together.is_file() and f'#include "{root / source}"' in together.read_text():
            return name, together
    return "", None


def replaced(command, flag, value):
    """The command with another argument of `flag`."""
    found, count = re.subn(rf"(?<= ){flag} \S+", f"{flag} {shlex.quote(str(value))}", command)
    assert count == 1, command
    return found


def run(command, folder):
    done = subprocess.run(["bash", "-c", command], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", timeout=500)
    return done.returncode, done.stdout


def check(build, patch, scratch):
    """What is wrong with the patch, or nothing."""
    text = patch.read_text()
    test, falls, source = (re.search(rf"^{key}(.+)$", text, re.M)[1] for key in ("Test: ", "Falls: ", r"--- a/"))
    program = "test_" + test.split("/")[0]
    name, compiled = object_of(build, source)
    compile_it, link = command_of(build, name) if name else None, command_of(build, f"bin/{program}")
    if not (compile_it and link):
        return f"the build has no {source} or no {program}"
    copy = scratch / source
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_bytes((root / source).read_bytes())
    status, output = run(f"patch -p1 --no-backup-if-mismatch < {shlex.quote(str(patch))}", scratch)
    if status != 0:
        return f"does not apply: {output}"
    if compiled != root / source:
        together = scratch / "together.cpp"
        together.write_text(compiled.read_text().replace(f'"{root / source}"', f'"{copy}"'))
        copy = together
    broken, tests = scratch / "broken.o", scratch / program
    compile_it = replaced(replaced(replaced(compile_it, "-o", broken), "-c", copy), "-MF", scratch / "broken.d")
    status, output = run(compile_it, build)
    if status != 0:
        return f"does not compile: {output}"
    # The object precedes the libraries, so the linker does not look for the whole one.
    link = replaced(link, "-o", tests).replace("/main.cpp.o ", f"/main.cpp.o {shlex.quote(str(broken))} ", 1)
    status, output = run(link, build)
    if status != 0:
        return f"does not link: {output}"
    only = f"--file={test} --gtest_filter={shlex.quote(falls)}"
    status, output = run(f"bin/{program} {only}", build)
    if status != 0 or f"[       OK ] {falls} " not in output:
        return f"{falls} of {test} does not pass without the patch: {output}"
    status, output = run(f"{shlex.quote(str(tests))} {only}", build)
    if status == 0 or f"[  FAILED  ] {falls}" not in output:
        return f"{falls} of {test} passes"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", metavar="BUILD", type=pathlib.Path)
    parser.add_argument("patches", metavar="PATCH", nargs="*")
    given = parser.parse_args()
    build = given.build.resolve()
    patches = {patch.stem: patch for patch in sorted((book / "break_it").glob("*.patch"))}
    for name in given.patches:
        if name not in patches:
            parser.error(f"no patch is called {name}; there are {', '.join(patches)}")
    if not (build / "build.ninja").exists() or command_of(build, "lib/librondo_tensor.a") is None:
        print("break_it.py: not a build by Ninja with static libraries")
        sys.exit(77)
    faults = 0
    for patch in (patches[name] for name in given.patches or patches):
        with tempfile.TemporaryDirectory() as scratch:
            fault = check(str(build), patch, pathlib.Path(scratch))
        faults += fault is not None
        print(f"{patch.stem}: {fault or 'the test falls'}", flush=True)
    sys.exit(faults > 0)


if __name__ == "__main__":
    main()
