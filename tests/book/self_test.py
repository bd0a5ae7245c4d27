#!/usr/bin/env python3
"""self_test.py CHECK: docs/book/check.py accepts what is right and names what is wrong, in a book written here."""
import importlib.util
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
spec = importlib.util.spec_from_file_location("check", sys.argv[1])
check = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check)
wrong = []


def expect(text, what, faults):
    """`faults` is empty if `text` is, and contains it otherwise."""
    found = "\n".join(faults)
    if bool(found) != bool(text) or text not in found:
        wrong.append(f"{what}: expected '{text}', got '{found}'")


def excerpt(text, *lines, path="code.cpp"):
    page.write_text("\n".join([f"<!-- excerpt: {path} -->", *lines, ""]))
    expect(text, lines, check.check_excerpts())


def block(*lines):
    return ["```cpp", *lines, "```"]


def experiment(text, command, *output, mpirun=()):
    page.write_text("\n".join(["<!-- run -->", "```sh", command, "```", "```text", *output, "```", ""]))
    expect(text, (command, *output), check.check_experiments(page, root / "build", *mpirun))


def script(name, *lines):
    file = root / name
    file.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    file.chmod(0o755)
    return str(file)


with tempfile.TemporaryDirectory() as scratch:
    check.root = root = pathlib.Path(scratch)
    check.book = root / "docs/book"
    check.book.mkdir(parents=True)
    (root / "build/bin").mkdir(parents=True)
    page = check.book / "01_page.md"

    (root / "code.cpp").write_text("void f() {\n  int a = 1;\n\n  int b = 2;\n  int c = 3;\n}\n")
    excerpt("", *block("int a = 1;", "", "int b = 2;"))
    excerpt("", *block("void f() {", "  // …", "  int c = 3;"))
    excerpt("docs/book/01_page.md:1: code.cpp has no such lines: they do not follow", *block("int a = 1;", "int c = 3;"))
    excerpt("they do not follow", *block("int c = 3;", "// …", "int a = 1;"))
    excerpt("they do not follow", *block("int a = 1;", "", "  int b = 2;"))
    excerpt("code.cpp has no such lines: int a = 4;", *block("int a = 4;"))
    excerpt("a block of code must follow", "text")
    excerpt("gone.cpp does not exist", *block("int a = 1;"), path="gone.cpp")
    code = (root / "code.cpp").read_text().split("\n")
    place = check.place_of(["int a = 1;", "// …", "int c = 3;"], code)
    if place != (2, [(2, 2), (5, 5)]):
        wrong.append(f"the excerpt is lines 2 and 5, indented by 2, not {place}")

    script("build/bin/program", 'echo "one $1"', "echo two", "echo three")
    experiment("", "build/bin/program 1", "one 1", "two", "three")
    experiment("", "build/bin/program 1", "one …", "…", "three")
    experiment("", "build/bin/program 1", "…", "three")
    experiment("+one 1", "build/bin/program 1", "one 2", "two", "three")
    experiment("+three", "build/bin/program 1", "one 1", "two")
    experiment("exits with status 3", "build/bin/program 1 && exit 3", "one 1", "two", "three")
    experiment("", "echo text > file && cat file", "text")
    expect("", "a command wrote into the clone", [str(file) for file in root.glob("file")])
    launcher = script("launcher", "shift 2", '"$@"')
    experiment("", "mpirun -np 2 build/bin/program 1", "one 1", "two", "three", mpirun=[launcher])
    experiment("", "mpirun -np 2 build/bin/program 1", "other", mpirun=[])  # left out
    page.write_text("<!-- run -->\n```sh\nbuild/bin/program\n```\n")
    expect("a block of sh and a block of text", "no output", check.check_experiments(page, root / "build"))

    start, solution = script("start", "echo 'error: a is 1'", "exit 1"), script("solution")
    test = root / "test.cpp"
    test.write_text("// start fails: a is 1\n")
    expect("", "exercise", check.check_exercise(test, solution, start))
    expect('must fail with "a is 1". Its status is 0', "a good start", check.check_exercise(test, solution, solution))
    expect("the solution exits with status 1", "a bad solution", check.check_exercise(test, start, start))
    test.write_text("// start fails: b is 1\n")
    expect('must fail with "b is 1". Its status is 1', "another text", check.check_exercise(test, solution, start))
    test.write_text("\n")
    expect("is missing", "no text", check.check_exercise(test, solution, start))

print("\n".join(wrong))
sys.exit(bool(wrong))
