#!/usr/bin/env python3
"""Draws which folder includes which, for docs/architecture.md.

    docs/draw_includes.py            writes the figures into docs/architecture.md
    docs/draw_includes.py --check    exit status 1 if a figure there is not what the includes say, or if a
                                     `file: symbol` that the document names is not in that file

A figure stands between the lines "<!-- figure NAME -->" and "<!-- end -->". An arrow A --> B means that a file of A
includes a file of B. Arrows that follow from others are left out of the first figure.
"""
import argparse
import collections
import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parent.parent
page = root / "docs/architecture.md"
CORE = ["tensor", "autograd", "nn", "optim", "data", "dist", "io", "train"]
ROOMS = ["collectives", "transports", "data_parallel", "failure", "launch"]


def folder_of(path, depth):
    return path.split("/")[depth] if path.count("/") > depth else None


def edges(names, start, depth):
    found = collections.defaultdict(set)
    for file in sorted((root / start).rglob("*")):
        if file.suffix not in (".h", ".cpp", ".cu", ".cuh"):
            continue
        own = folder_of(str(file.relative_to(root)), depth)
        for path in re.findall(r'^\s*#\s*include "([^"]+)"', file.read_text(), re.M):
            if start != "." and not path.startswith(start + "/"):
                continue
            other = folder_of(path, depth)
            if own in names and other in names and own != other:
                found[own].add(other)
    return found


def reduced(graph):
    """Without the edges that follow from others. For graphs without cycles."""

    def reaches(a, b, without):
        seen, todo = set(), [a]
        while todo:
            node = todo.pop()
            for other in graph.get(node, ()):
                if (node, other) == without or other in seen:
                    continue
                if other == b:
                    return True
                seen.add(other)
                todo.append(other)
        return False

    return {a: {b for b in graph[a] if not reaches(a, b, (a, b))} for a in list(graph)}


def figure(names, start, depth):
    graph = edges(names, start, depth)
    if start == ".":
        graph = reduced(graph)
    lines = ["```mermaid", "graph TD"]
    for a in names:
        both = {b for b in graph.get(a, []) if a in graph.get(b, [])}
        lines += [f"  {a} <--> {b}" for b in sorted(both) if a < b]
        lines += [f"  {a} --> {b}" for b in sorted(graph.get(a, ())) if b not in both]
    return "\n".join([*lines, "```"])


FIGURES = {"folders": lambda: figure([*CORE, "extras"], ".", 0), "rooms": lambda: figure(ROOMS, "dist", 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    text = page.read_text()
    new = text
    for name, draw in FIGURES.items():
        pattern = re.compile(rf"(<!-- figure {name} -->\n).*?(\n<!-- end -->)", re.S)
        if not pattern.search(new):
            sys.exit(f"{page}: figure {name} is missing")
        new = pattern.sub(lambda m: m.group(1) + draw() + m.group(2), new)
    if not check:
        page.write_text(new)
        return
    status = 0
    if new != text:
        print("docs/architecture.md: a figure is not what the includes say; run docs/draw_includes.py")
        status = 1
    for path, symbol in re.findall(r"`([\w/]+\.(?:h|cpp|cu)): ([^`]+)`", text):
        file = root / path
        if not file.exists() or symbol not in file.read_text():
            print(f"docs/architecture.md: {path} has no {symbol}")
            status = 1
    sys.exit(status)


main()
