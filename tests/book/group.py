#!/usr/bin/env python3
"""group.py OUTPUT EXERCISE…: one program of several exercises, which compiles in a quarter of the time of two programs for each.

`OUTPUT's program NAME_start` and `… NAME_solution` do what an exercise's own programs do. EXERCISE is the folder of exercise
NAME. Each version is in a namespace of its own; all includes precede them.
"""
import pathlib
import re
import sys

includes, parts, calls = {}, [], []
for folder in map(pathlib.Path, sys.argv[2:]):
    for version in ("start", "solution"):
        name = f"{folder.name}_{version}"
        parts.append(f"namespace exercise_{name} {{")
        for file in (folder / "exercise.h", folder / f"{version}.cpp", folder / "test.cpp"):
            if not file.exists():
                continue
            text = file.read_text()
            includes |= dict.fromkeys(re.findall(r'^#include (?!"exercise.h").*$', text, re.M))
            text = re.sub(r"^#(include|pragma once).*$", "", text, flags=re.M)  # an empty line keeps the numbers of the others
            parts.append(f'#line 1 "{file}"\n{text}')
        parts.append(f"}}  // namespace exercise_{name}")
        calls.append(f'  if (name == "{name}") return exercise_{name}::exercise_main();')
text = "\n".join(["// Written by tests/book/group.py.", *includes, "#include <string_view>", "#define main exercise_main", *parts, "#undef main",
                  "int main(int argc, char** argv) {", '  const std::string_view name = argc > 1 ? argv[1] : "";', *calls, "  return 2;", "}", ""])
pathlib.Path(sys.argv[1]).write_text(text)
