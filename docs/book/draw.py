#!/usr/bin/env python3
"""Draws the figures of the book: docs/book/figures/.

    docs/book/draw.py            writes them
    docs/book/draw.py --check    exit status 1 if a file there is not what this program draws

Each figure is a function that returns a Figure. It is drawn from traces and JSON that an experiment wrote (figures/*.json), or from
the output of an experiment on its page, which a test compares with the program's (docs/book/check.py).
"""
import argparse
import html
import json
import math
import pathlib
import re
import sys

book = pathlib.Path(__file__).resolve().parent

# Legible on a light background, which each figure brings with it. Ranks, and other things in a row, take these colours.
COLOURS = ["#4c78a8", "#f58518", "#54a24b", "#b279a2"]
PALE = ["#c9d8e8", "#fcdcb8", "#cbe3c8", "#e3d2df"]
INK, GREY, LINE = "#1a1c1e", "#6b7075", "#9ca0a5"


class Figure:
    """An SVG. Positions are in pixels."""

    def __init__(self, width, height, title):
        assert width <= 720
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            'font-family="sans-serif" font-size="13" role="img">',
            f"<title>{html.escape(title)}</title>",
            f'<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            f'<path d="M0 0L8 4L0 8z" fill="{GREY}"/></marker></defs>',
        ]
        self.rect(0, 0, width, height, "#ffffff", radius=6)

    def rect(self, x, y, width, height, fill, stroke="none", radius=3):
        self.parts.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius}" fill="{fill}" '
                          f'stroke="{stroke}"/>')

    def text(self, x, y, text, anchor="middle", colour=INK, size=13, bold=False):
        weight = ' font-weight="bold"' if bold else ""
        self.parts.append(f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{colour}" font-size="{size}"{weight}>'
                          f"{html.escape(text)}</text>")

    def line(self, x1, y1, x2, y2, colour=GREY, arrow=False, width=1.3):
        end = ' marker-end="url(#head)"' if arrow else ""
        self.parts.append(f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{colour}" '
                          f'stroke-width="{width:g}"{end}/>')

    def circle(self, x, y, radius, fill, stroke="none"):
        self.parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" fill="{fill}" stroke="{stroke}"/>')

    def svg(self):
        return "\n".join([*self.parts, "</svg>\n"])


def output_of(page, command):
    """The lines that the page shows below a command."""
    text = (book / page).read_text()
    return text.split(f"\n{command}\n```\n```text\n")[1].split("\n```")[0].split("\n")


def layout(nodes, edges, middle, dx):
    """Rows for a graph: a node is as far from the loss as its longest path. Returns the row and the x of each place, and the places of each
    edge: an arrow that crosses rows has a place of its own in each of them."""
    row = dict.fromkeys(nodes, 0)
    for _ in nodes:
        for a, b in edges:
            row[b] = max(row[b], row[a] + 1)
    chains = [[a, *((a, b, r) for r in range(row[a] + 1, row[b])), b] for a, b in edges]
    above, x = {}, {}
    for chain in chains:
        for r, (a, b) in enumerate(zip(chain, chain[1:]), row[chain[0]]):
            above.setdefault(b, []).append(a)
            row[b] = r + 1
    for r in range(max(row.values()) + 1):
        centre = lambda place: sum(x[a] for a in above.get(place, [])) / max(len(above.get(place, [])), 1)
        places = sorted((place for place in row if row[place] == r), key=centre)
        for i, place in enumerate(places):
            x[place] = middle + dx * (i - (len(places) - 1) / 2)
    return row, x, chains


def diamond():
    """The tape of chapter 4's experiment, as experiments/04_order.cpp prints it, and the counters that the engine's rules give it."""
    numbers, edges = {}, []
    for line in output_of("04_backwards.md", "build/bin/book/04_order"):
        name, number, others = re.fullmatch(r"(\w+), number (\d+|∞)(?:, to (.*))?", line).groups()
        numbers[name] = float(number.replace("∞", "inf"))
        edges += [(name, other) for other in (others or "").split(" and ") if other]
    counters = {name: sum(other == name for _, other in edges) for name in numbers}
    initial, steps, ready = dict(counters), [], [next(iter(numbers))]
    rows = [(None, dict(counters), list(ready))]
    while ready:
        name = max(ready, key=numbers.get)
        ready.remove(name)
        steps.append(name)
        counters[name] = None  # has run
        for other in (other for a, other in edges if a == name):
            counters[other] -= 1
            if counters[other] == 0:
                ready.append(other)
        rows.append((name, dict(counters), list(ready)))
    if steps != list(numbers):
        sys.exit(f"draw.py: by the engine's rules the order is {steps}, but 04_backwards.md shows {list(numbers)}")

    f = Figure(720, 390, "A tape with a diamond, and the engine's counters after each step")
    row, x, chains = layout(numbers, edges, 165, 126)
    y = {place: 20 + 75 * row[place] for place in row}
    for chain in chains:
        for a, b in zip(chain, chain[1:]):
            f.line(x[a], y[a] + (36 if a in numbers else 0), x[b], y[b] - (3 if b in numbers else 0), arrow=b in numbers)
    for name, number in numbers.items():
        is_leaf = number == float("inf")
        f.rect(x[name] - 52, y[name], 104, 36, PALE[is_leaf], COLOURS[is_leaf])
        f.text(x[name], y[name] + 16, "accumulate_grad" if is_leaf else name, size=12 - is_leaf, bold=not is_leaf)
        f.text(x[name], y[name] + 30, f"leaf {name}, number ∞" if is_leaf else f"number {number:g}", size=10, colour=GREY)
        if initial[name]:
            f.circle(x[name] + 52, y[name], 10, "#ffffff", COLOURS[is_leaf])
            f.text(x[name] + 52, y[name] + 4, str(initial[name]), size=12, bold=True)

    left, width, top, height = 330, 50, 58, 36
    order = steps[1:]
    f.text(left, 24, "counters after each step of backward", "start", bold=True)
    f.text(left, top - 8, "runs", "start", GREY, 12)
    for i, name in enumerate(order):
        f.text(left + 80 + width * i + width / 2, top - 8, name, colour=GREY, size=12)
    for r, (name, values, ready) in enumerate(rows):
        at = top + height * r
        text = "(start)" if name is None else f"leaf {name}" if numbers[name] == float("inf") else name
        f.text(left, at + 23, text, "start", INK if name else GREY)
        for i, column in enumerate(order):
            cell, value = left + 80 + width * i, values[column]
            fill, stroke = (PALE[2], COLOURS[2]) if column in ready else ("#f3f4f5", "none")
            f.rect(cell + 2, at + 2, width - 4, height - 4, fill, stroke)
            f.text(cell + width / 2, at + 23, "ran" if value is None else str(value), colour=GREY if value is None else INK,
                   size=11 if value is None else 14)
    f.rect(left, 360, 14, 14, PALE[2], COLOURS[2])
    f.text(left + 20, 372, "ready: all gradients have arrived. The highest number runs next.", "start", GREY, 11)
    return f


def tape():
    """The graph of chapter 4's last tape, as experiments/04_graph.cpp prints it."""
    text = "\n".join(output_of("04_backwards.md", "build/bin/book/04_graph"))
    labels = dict(re.findall(r'^  (\w+) \[.*label="(.*)"\];$', text, re.M))
    edges = re.findall(r"^  (\w+) -> (\w+)", text, re.M)
    row, x, chains = layout(labels, edges, 255, 126)
    y = {place: 20 + 62 * row[place] for place in row}

    f = Figure(510, 62 * max(row.values()) + 72, "The tape of the circle's loss, with a block that is used twice")
    for chain, (_, end) in zip(chains, edges):
        for a, b in zip(chain, chain[1:]):
            f.line(x[a], y[a] + (32 if a in labels else 16), x[b], y[b] - 3 if b in labels else y[b] + 16, arrow=b == end)
            if isinstance(a, tuple):
                f.line(x[a], y[a] + 15.5, x[a], y[a] + 16.5)
    for node, label in labels.items():
        is_leaf = all(node != a for a, _ in edges)
        f.rect(x[node] - 56, y[node], 112, 32, PALE[is_leaf], COLOURS[is_leaf], 12 if is_leaf else 3)
        for i, line in enumerate(label.split("\\n")):
            f.text(x[node], y[node] + (14 + 13 * i if is_leaf else 20), line, size=11 if is_leaf else 12, bold=not is_leaf)
        if arrive := sum(b == node for _, b in edges):  # at the side: arrows pass the corners
            f.circle(x[node] + 56, y[node] + 16, 10, "#ffffff", COLOURS[is_leaf])
            f.text(x[node] + 56, y[node] + 20, str(arrive), size=12, bold=True)
    return f


def ring():
    """The data of four ranks after each step of a ring all-reduce, as examples/03_ring.cpp prints them."""
    panels = []  # title, rows of values, segment that each rank sent
    for line in output_of("09_ring.md", "mpirun -np 4 build/bin/03_ring"):
        words = line.replace(":", "").split()
        if line.startswith(("start", "step")):
            panels.append((line.split(":")[0], [], []))
        elif words[:1] == ["rank"]:
            panels[-1][1].append(words[2:6])
            panels[-1][2].append(int(words[8]) if len(words) > 6 else None)
    n = len(panels[0][1])
    cell, gap, across = 36, 20, 4
    f = Figure(720, 415, "The segments of four ranks after each step of a ring all-reduce")
    for i, (title, rows, sent) in enumerate(panels):
        left, top = 30 + i % across * (n * cell + gap + 10), 50 + i // across * 205
        f.text(left, top - 24, title, "start", bold=True, size=12)
        for s in range(n):
            f.text(left + (s + 0.5) * cell, top - 6, str(s), colour=GREY, size=11)
        for r, values in enumerate(rows):
            f.text(left - 5, top + (r + 0.5) * cell + 4, str(r), "end", COLOURS[r], 12, bold=True)
            arrived = sent[(r - 1) % n]
            for s, value in enumerate(values):
                x, y = left + s * cell, top + r * cell
                f.rect(x + 1.5, y + 1.5, cell - 3, cell - 3, "#f3f4f5", INK if s == arrived else "none")
                for rank in range(n):  # digit k of the value, from the right, is 1 if rank k's value is in the sum
                    if value[::-1][rank : rank + 1] == "1":
                        f.rect(x + 5 + rank % 2 * 13.5, y + 5 + rank // 2 * 13.5, 12, 12, COLOURS[rank], radius=2)
    left, top = 30 + 3 * (n * cell + gap + 10), 255
    for rank in range(n):
        f.rect(left, top + 24 * rank, 12, 12, COLOURS[rank], radius=2)
        f.text(left + 20, top + 24 * rank + 10, f"the value of rank {rank}", "start", size=11)
    f.rect(left, top + 24 * n, 12, 12, "#f3f4f5", INK)
    f.text(left + 20, top + 24 * n + 10, "arrived in this step", "start", size=11)
    f.text(left, top + 24 * (n + 1) + 10, "rows: ranks 0 to 3", "start", GREY, 11)
    f.text(left, top + 24 * (n + 1) + 26, "columns: segments 0 to 3", "start", GREY, 11)
    return f


def overlap():
    """A step of ResNet-20 on rank 0 of two, with and without overlap: the timelines that ddp_step wrote."""
    left, width, lane, top, longest = 112, 560, 28, 46, 200
    f = Figure(720, 296, "One training step with and without overlap")
    for panel, (name, title) in enumerate((("11_overlap", "with overlap"), ("11_no_overlap", "without overlap"))):
        events = [e for e in data_of(name)["traceEvents"] if e["ph"] == "X" and e["pid"] == 0]
        forward, backward, waits = (next(e for e in events if e["name"] == n) for n in ("forward", "backward", "wait for gradients"))
        y, x = top + 128 * panel, lambda ts: left + (ts - forward["ts"]) / 1000 * width / longest
        f.text(left, y - 12, title, "start", bold=True)
        f.text(left - 8, y + 19, "main thread", "end", GREY, 12)
        f.text(left - 8, y + lane + 23, "collectives", "end", GREY, 12)
        end = waits["ts"] + waits["dur"]
        for colour, text, begin, until in ((3, "forward", forward["ts"], backward["ts"]), (0, "backward computes", backward["ts"], waits["ts"]),
                                           (1, "waits", waits["ts"], end)):
            f.rect(x(begin), y, x(until) - x(begin), lane, PALE[colour], COLOURS[colour])
            f.text((x(begin) + x(until)) / 2, y + 18, text, size=12 if x(until) - x(begin) > 40 else 10)
        for e in events:
            if e["name"].startswith("all_reduce of bucket"):
                begin, until = x(e["ts"]), x(e["ts"] + e["dur"])
                f.rect(begin, y + lane + 4, max(until - begin, 1), lane, PALE[2], COLOURS[2])
                place = ((begin + until) / 2, "middle") if until - begin > 12 else (begin - 4, "end")
                f.text(place[0], y + lane + 22, e["name"].split()[3], place[1], size=12)
        f.line(x(end), y - 4, x(end), y + 2 * lane + 8, INK)
        f.text(x(end) + 5, y + 2 * lane + 3, f"{(end - forward['ts']) / 1000:.0f} ms", "start", size=12, bold=True)
        f.line(left, y + 2 * lane + 8, left + width, y + 2 * lane + 8, LINE)
        for ms in range(0, longest + 1, 50):
            at = left + ms * width / longest
            f.line(at, y + 2 * lane + 8, at, y + 2 * lane + 12, LINE)
            f.text(at, y + 2 * lane + 24, f"{ms}", colour=GREY, size=10)
    f.text(left, 286, "milliseconds since the start of forward; the numbers in the green boxes are those of the buckets", "start", GREY, 11)
    return f


def milliseconds_in(path, pattern):
    """A duration that a source file defines."""
    found = re.search(pattern, (book.parent.parent / path).read_text())
    if not found:
        sys.exit(f"draw.py: {path} has nothing like {pattern}")
    return int(found[1])


def death():
    """Who did what when, after rank 2 of four had been killed: the times of the files, and lines of the flight records, that the last
    command of the experiment shows. They must agree with the constants in the sources."""
    run = "dist/launch/run.cpp"
    heard = milliseconds_in("dist/failure/watch.h", r"launcher_time\{\s*(\d+)\}")
    abort = heard + milliseconds_in(run, r"head_start = std::chrono::milliseconds\((\d+)\)")
    found = re.findall(r"^runs/(?:record/)?(\w+)(?:\.txt)? ([\d.]+)(?:\n(rank .*)\n(.*))?$", (book / "figures/12_death.txt").read_text(), re.M)
    data = {name: ((float(time) - float(found[0][1])) * 1000, sentence, last) for name, time, sentence, last in found}
    ended = data["end"][0]
    left, scale, lane, top = 100, 0.97, 44, 62
    f = Figure(720, 300, "Who knows what when, after rank 2 has been killed")
    x = lambda ms: left + ms * scale
    for ms, title, text in ((0, "kill -9 of rank 2", "its sockets close"), (heard, f"{heard} ms later", "a rank may report the death"),
                            (abort, f"{abort} ms", "rank 0 may abort")):
        f.text(x(ms), 24, title, "start", bold=True)
        f.text(x(ms), 41, text, "start", GREY, 11)
        f.line(x(ms), 48, x(ms), top + 4 * lane + 8, INK)
    for place, rank in enumerate((2, 0, 1, 3)):
        y = top + lane * place
        f.text(x(0) - 42, y + 22, f"rank {rank}", "end", COLOURS[rank], bold=True)
        if rank == 2:
            f.rect(x(0) - 34, y, 34, lane - 10, PALE[rank], COLOURS[rank])
            f.text(x(0) + 8, y + 22, "dead", "start", GREY, 11)
            continue
        wrote, sentence, last = data[f"rank{rank}"]
        begun, over = (wrote - 1000 * float(re.search(rf"{word} ([0-9.]+) s ago", last)[1]) for word in ("begun", "over"))
        if not (begun < heard < over <= wrote < abort < ended and "rank 2 " in sentence):
            sys.exit(f"draw.py: rank {rank} in 12_death.txt did not do what the sources say: {data}")
        f.rect(x(0) - 34, y, 34 + begun * scale, lane - 10, PALE[rank], COLOURS[rank])
        f.rect(x(begun), y, (over - begun) * scale, lane - 10, "#f3f4f5", COLOURS[rank])
        f.text(x((begun + over) / 2), y + 22, "waits in " + re.match(r"\S+ \d+", last)[0], size=11)
        f.rect(x(over), y, (ended - over) * scale, lane - 10, PALE[rank], COLOURS[rank])
        f.text(x((over + ended) / 2), y + 15, f"at {wrote:.0f} ms writes its record, and says", size=11)
        f.text(x((over + ended) / 2), y + 28, sentence.split("failed: ")[1], size=11)
    f.line(x(ended), top - 4, x(ended), top + 4 * lane + 8, INK)
    f.text(x(ended) + 5, top + 22, f"{ended:.0f} ms: end", "start", GREY, 11)
    y = top + 4 * lane + 8
    f.line(x(0) - 34, y, x(600), y, LINE)
    for ms in range(0, 601, 100):
        f.line(x(ms), y, x(ms), y + 4, LINE)
        f.text(x(ms), y + 17, str(ms), colour=GREY, size=10)
    f.text(x(0) - 34, y + 40, "milliseconds after the kill. Without the side channel the ranks would wait until the deadline: five minutes.",
           "start", GREY, 11)
    return f


def data_of(name):
    return json.loads((book / "figures" / f"{name}.json").read_text())


def step():
    """One step of README's twenty lines: the trace that experiments/01_step.cpp wrote."""
    events = [e for e in data_of("01_step")["traceEvents"] if e["ph"] == "X"]
    whole = next(e for e in events if e["name"] == "step")
    left, width, lane, top = 92, 610, 34, 50
    x = lambda e: left + (e["ts"] - whole["ts"]) * width / whole["dur"]
    w = lambda e: max(e["dur"] * width / whole["dur"], 1)
    f = Figure(720, 240, "Where the time of one training step goes")
    f.text(left, 24, f"one step: {whole['dur']:.0f} microseconds, one thread", "start", bold=True)
    for row, title in enumerate(("phase", "module", "op or node")):
        f.text(left - 10, top + row * (lane + 6) + 21, title, "end", GREY, 12)
    forward = {"ts": whole["ts"], "name": "forward"}
    backward = next(e for e in events if e["name"] == "backward" and e["cat"] == "backward" and e["dur"] > 80)
    forward["dur"] = backward["ts"] - forward["ts"]
    optimizer = next(e for e in events if e["cat"] == "optimizer")
    for colour, e in enumerate((forward, backward, optimizer)):
        f.rect(x(e), top, w(e), lane, PALE[colour], COLOURS[colour])
        if e is not optimizer:
            f.text(x(e) + w(e) / 2, top + 21, f"{e['name']} {e['dur']:.0f} µs")
        for inner in events:
            if not e["ts"] <= inner["ts"] < e["ts"] + e["dur"] or inner["cat"] in ("range", "profile") or inner is backward:
                continue
            row = 1 if inner["cat"] == "module" else 2
            if inner["name"] == "model":
                continue
            y = top + row * (lane + 6)
            f.rect(x(inner), y, w(inner), lane, PALE[colour], COLOURS[colour], radius=1)
            name = inner["name"].removesuffix(" backward")
            if w(inner) > 70:
                f.text(x(inner) + w(inner) / 2, y + 21, name, size=11)
            elif w(inner) > 22:
                f.text(x(inner) + w(inner) / 2, y + 21, name, size=10 if row == 1 else 9)
    y = top + 3 * (lane + 6)
    f.line(x(optimizer) + w(optimizer) / 2, y - 2, x(optimizer) + w(optimizer) / 2, y + 20)
    f.text(left + width, y + 34, f"Adam {optimizer['dur']:.0f} µs", "end", COLOURS[2], 12)
    f.line(left, y, left + width, y, LINE)
    for us in range(0, int(whole["dur"]) + 1, 50):
        at = left + us * width / whole["dur"]
        f.line(at, y, at, y + 4, LINE)
        f.text(at, y + 17, str(us), colour=GREY, size=10)
    f.text(left, y + 50, "microseconds. Gaps between the boxes: the tape, the allocator, and the record itself.", "start", GREY, 11)
    return f


def views():
    """The circle's batch and four views of it: the shapes, strides and bytes that experiments/02_views.cpp prints. Only the first points."""
    shown = {"x": 36, "x.t()": 138, "x.narrow(0, 2, 4)": 332, "x.select(1, 1)": 456, "x[1].expand({1000, 2})": 562}  # name: place
    rows, points = {}, 6
    for line in output_of("02_views.md", "build/bin/book/02_views"):
        found = re.match(r"(x.*?)\s+\[([\d, ]+)\]\s+\[([\d, ]+)\]\s+view, byte (\d+)", line)
        if found:
            sizes, strides = ([int(v) for v in found[k].split(", ")] for k in (2, 3))
            rows[found[1]] = (sizes, strides, int(found[4]) // 4)
    shade = lambda i: (["#dce6f1", "#b9cfe4", "#8fb3d6"] if i % 2 == 0 else ["#fde7cf", "#fbcf9d", "#f7b267"])[i // 4]
    f = Figure(720, 392, "The points of the circle, and four views of them")
    left, cell, top = 36, 54, 58
    f.text(left, 24, f"one storage: the first {2 * points} of 2,000 elements of 4 bytes; a point is two of them", "start", bold=True)
    for i in range(2 * points):
        f.rect(left + cell * i, top, cell, 34, shade(i), "#ffffff", radius=0)
        f.text(left + cell * (i + 0.5), top + 22, str(i), bold=True)
        f.text(left + cell * i, top - 8, f"byte {4 * i}" if i % 4 == 0 else str(4 * i), "start", GREY, 10)
    f.text(left + cell * 2 * points + 8, top + 22, "\u2026", "start", GREY)
    top, small = 140, 28
    for name, x in shown.items():
        sizes, strides, offset = rows[name]
        f.text(x, top - 12, name, "start", bold=True, size=12)
        columns = min(sizes[1], points) if len(sizes) > 1 else 1
        for i in range(min(sizes[0], points)):
            for j in range(columns):
                element = offset + i * strides[0] + (j * strides[1] if len(sizes) > 1 else 0)
                f.rect(x + small * j, top + small * i, small, small, shade(element), "#ffffff", radius=0)
                f.text(x + small * (j + 0.5), top + small * i + 19, str(element))
        if sizes[0] > points:
            f.text(x + small * columns / 2, top + small * points + 16, "\u22ee", colour=GREY)
        elif columns < sizes[1]:
            f.text(x + small * columns + 4, top + small * sizes[0] / 2 + 4, "\u2026", "start", GREY)
        y = top + points * small + 40
        for k, (what, value) in enumerate((("shape", sizes), ("strides", strides), ("offset", offset))):
            f.text(x, y + 16 * k, f"{what} {value}", "start", GREY, 12)
    return f


def isa():
    """The times of some kernels with each instruction set, as experiments/03_times.cpp wrote them."""
    runs = data_of("03_times")
    names = [name for name in runs[0] if name != "instruction_set"]
    left, scale, top, bar = 110, 34, 54, 14
    f = Figure(720, 352, "The time of five kernels with three instruction sets")
    f.text(left, 24, "microseconds for 64 · 256 floats, one thread", "start", bold=True)
    for k, run in enumerate(runs):
        f.rect(left + 346 + 90 * k, 14, 12, 12, COLOURS[k], radius=2)
        f.text(left + 363 + 90 * k, 24, run["instruction_set"], "start", size=12)
    for row, name in enumerate(names):
        y = top + row * (3 * bar + 15)
        f.text(left - 10, y + 1.5 * bar + 4, name, "end")
        for k, run in enumerate(runs):
            f.rect(left, y + k * bar, run[name] * scale, bar - 2, COLOURS[k], radius=1)
            text = f"{run[name]:.1f}" if k == 0 else f"{run[name]:.1f}   ({runs[0][name] / run[name]:.1f} times as fast)"
            f.text(left + run[name] * scale + 6, y + k * bar + 10, text, "start", GREY, 11)
    f.text(left, 344, "The shortest of 300 runs on an AMD EPYC with AVX-512. The operands are in the second-level cache.", "start", GREY, 11)
    return f


def circle():
    """The answers of the net on a grid, after some steps: what experiments/05_circle.cpp wrote."""
    data = data_of("05_circle")
    side, pixel, gap = data["side"], 4, 34
    losses = {int(row.split()[0]): row.split()[1].rstrip("…") for row in output_of("05_step.md", "build/bin/book/05_circle")[1:]
              if row.split()[0].isdigit()}
    f = Figure(720, 456, "Where the net answers inside, after 0 to 300 steps")
    for i, grid in enumerate(data["grids"]):
        left, top = 60 + i % 3 * (side * pixel + gap + 24), 44 + i // 3 * (side * pixel + gap + 8)
        f.text(left, top - 10, f"step {grid['step']}", "start", bold=True)
        f.text(left + side * pixel, top - 10, f"loss {losses[grid['step']]}", "end", GREY, 12)
        f.rect(left, top, side * pixel, side * pixel, PALE[1], radius=0)
        for row in range(side):
            for run in re.finditer("1+", grid["inside"][row * side : (row + 1) * side]):
                f.rect(left + run.start() * pixel, top + row * pixel, (run.end() - run.start()) * pixel, pixel, PALE[0], radius=0)
        middle = side * pixel / 2
        f.parts.append(f'<circle cx="{left + middle:g}" cy="{top + middle:g}" r="{0.6 ** 0.5 * (side - 1) / 2 * pixel:.1f}" '
                       f'fill="none" stroke="{INK}" stroke-dasharray="4 3"/>')
    f.rect(60, 436, 12, 12, PALE[0], COLOURS[0])
    f.text(78, 446, "the net answers: inside", "start", GREY, 11)
    f.rect(230, 436, 12, 12, PALE[1], COLOURS[1])
    f.text(248, 446, "outside", "start", GREY, 11)
    f.text(320, 446, "dashed: the true circle, x² + y² = 0.6", "start", GREY, 11)
    return f


def crossings():
    """The time of four algorithms by size on a simulated cluster: the times that experiments/10_crossings.py wrote."""
    rows = data_of("10_crossings")
    left, top, width, height = 70, 50, 500, 270
    low, high, least, most = math.log2(256), math.log2(16 << 20), 1, 5.2  # log2 of bytes, log10 of microseconds
    x = lambda size: left + (math.log2(size) - low) / (high - low) * width
    y = lambda us: top + height - (math.log10(us) - least) / (most - least) * height
    f = Figure(720, 384, "The time of four all-reduces by size")
    f.text(left, 24, "microseconds for an all-reduce of 16 ranks, 10 Gbit/s", "start", bold=True)
    for power in range(1, 6):
        f.line(left, y(10**power), left + width, y(10**power), "#e4e6e8", width=1)
        f.text(left - 8, y(10**power) + 4, f"{10**power:,}", "end", GREY, 11)
    for k in range(9):
        size = 256 * 4**k
        f.line(x(size), top + height, x(size), top + height + 4, LINE)
        text = f"{size}" if size < 1024 else f"{size >> 10} KiB" if size < 1 << 20 else f"{size >> 20} MiB"
        f.text(x(size), top + height + 18, text, colour=GREY, size=10)
    names, labels = ["doubling", "tree", "halving", "ring"], {}
    for colour, name in enumerate(names):
        points = [(row["bytes"], row["us"]) for row in rows if row["algorithm"] == name]
        for (a, b), (c, d) in zip(points, points[1:]):
            f.line(x(a), y(b), x(c), y(d), COLOURS[colour], width=2)
        for size, us in points:
            f.circle(x(size), y(us), 3, COLOURS[colour])
        labels[name] = points[-1][1]
    at = -100
    for name in sorted(names, key=lambda name: -labels[name]):
        at = max(y(labels[name]) + 4, at + 17)
        f.text(left + width + 10, at, f"{name}, {labels[name] / 1000:.1f} ms", "start", COLOURS[names.index(name)], 12, bold=True)
    fastest, at = None, top + height + 30
    for size in sorted({row["bytes"] for row in rows}):
        best = min((row for row in rows if row["bytes"] == size), key=lambda row: row["us"])["algorithm"]
        f.rect(x(size) - width / 16 + 1, at, width / 8 - 2, 14, PALE[names.index(best)], COLOURS[names.index(best)], 2)
        if best != fastest:
            f.text(x(size) - width / 16 + 1, at + 26, best, "start", GREY, 10)
        fastest = best
    f.text(left + width + 40, at + 11, "the fastest", "start", GREY, 11)
    return f


def roofline():
    """The kernels of a step of ResNet-20, and the limits of the machine: what build/bin/roofline --json wrote, once with --each."""
    data = data_of("06_roofline")
    f = Figure(720, 508, "Where the time of a ResNet-20 step goes, and how near each kernel is to the limits")
    kinds = {"conv2d": "forward", "conv2d_backward_input": "gradient of x", "conv2d_backward_weight": "gradient of w"}
    kind_of = lambda row: row["kernel"].split()[0]
    left, width = 70, 620
    f.text(left, 24, f"one step of ResNet-20, batch 128, one thread: {data['ms_per_step']:.0f} ms", "start", bold=True)
    parts = [(f"conv: {text}", sum(row["ms"] for row in data["rows"] if kind_of(row) == kind)) for kind, text in kinds.items()]
    parts.append(("batch norm", sum(row["ms"] for row in data["rows"] if kind_of(row).startswith("batch_norm"))))
    parts.append(("rest", data["ms_per_step"] - sum(ms for _, ms in parts)))
    x = left
    for colour, (text, ms) in enumerate(parts):
        w = ms / data["ms_per_step"] * width
        f.rect(x, 36, w, 34, (PALE + ["#f3f4f5"])[colour], (COLOURS + [LINE])[colour], 1)
        f.text(x + w / 2, 50, text, size=10)
        f.text(x + w / 2, 63, f"{ms:.0f} ms", colour=GREY, size=10)
        x += w

    top, height = 112, 250
    low, high, least, most = -1.5, 2.5, 0.3, 3
    px = lambda intensity: left + (math.log10(intensity) - low) / (high - low) * width
    py = lambda gflops: top + height - (math.log10(gflops) - least) / (most - least) * height
    f.text(left, 98, "GFLOP per second, by FLOP per byte", "start", bold=True)
    for gflops in (10, 100, 1000):
        f.line(left, py(gflops), left + width, py(gflops), "#e4e6e8", width=1)
        f.text(left - 8, py(gflops) + 4, f"{gflops:,}", "end", GREY, 11)
    for intensity in (0.1, 1, 10, 100):
        f.line(px(intensity), top + height, px(intensity), top + height + 4, LINE)
        f.text(px(intensity), top + height + 17, f"{intensity}", colour=GREY, size=10)
    f.line(left, top + height, left + width, top + height, LINE)
    peak, copy = data["matmul_gflops"], data["copy_gb_per_s"]
    ridge = peak / copy
    start = 10**least / copy
    f.line(px(start), py(copy * start), px(ridge), py(peak), INK, width=2)
    f.line(px(ridge), py(peak), left + width, py(peak), INK, width=2)
    f.text(px(0.35), py(copy * 0.35) - 14, f"memory: {copy:.0f} GB/s", "end", size=11)
    f.text(px(ridge) - 4, py(peak) - 8, f"matrix product: {peak:.0f} GFLOP/s", "end", size=11)
    names = [*kinds, "add_"]
    for row in data["rows"]:
        if kind_of(row) in names and row["ms"] > 0.5 and row["flops"] > 0:
            colour = names.index(kind_of(row)) if kind_of(row) in kinds else 3
            f.parts.append(f'<circle cx="{px(row["flops"] / row["bytes"]):.1f}" cy="{py(row["flops"] / row["ms"] / 1e6):.1f}" '
                           f'r="{3 + row["ms"] ** 0.5 * 1.6:.1f}" fill="{COLOURS[colour]}" fill-opacity="0.55" stroke="{COLOURS[colour]}"/>')
    x = left
    for colour, text in enumerate([*(f"conv: {text}" for text in kinds.values()), "add_ (residual connections)"]):
        f.circle(x + 6, 400, 5, COLOURS[colour])
        f.text(x + 16, 404, text, "start", GREY, 11)
        x += 28 + 6.1 * len(text)
    f.text(left, 432, "time in convolutions, by RONDO_CONV (the shortest of six runs)", "start", bold=True)
    for k, (name, text) in enumerate((("implicit_gemm", "implicit_gemm,onednn"), ("onednn", "onednn"), ("default", "the default"))):
        ms = data_of(f"06_{name}")["ms_convolutions"]
        y = 442 + 20 * k
        f.text(left + 128, y + 12, text, "end", size=11)
        f.rect(left + 136, y, ms * 2.2, 15, PALE[0], COLOURS[0], 1)
        f.text(left + 142, y + 12, f"{ms:.0f} ms", "start", size=11)
    return f


def workers():
    """A loop over a loader with two workers: the trace that experiments/08_workers.cpp wrote."""
    events = [e for e in data_of("08_loader")["traceEvents"] if e["ph"] == "X" and e["name"] != "profile"]
    start, end = min(e["ts"] for e in events), max(e["ts"] + e["dur"] for e in events)
    left, width, lane, top = 96, 606, 36, 50
    x = lambda ts: left + (ts - start) / (end - start) * width
    loads = sorted((e for e in events if e["name"] == "load batch"), key=lambda e: e["ts"])  # claimed in this order
    trains = sorted((e for e in events if e["name"] == "train"), key=lambda e: e["ts"])
    f = Figure(720, 292, "Two workers make batches, and the loop takes them in order")
    f.text(left, 24, "twelve batches, two workers, four slots; batch 4 takes three times as long", "start", bold=True)
    for row, name in enumerate(("worker 1", "worker 2", "slots in use", "loop")):
        f.text(left - 8, top + row * (lane + 8) + 23, name, "end", GREY, 12)
    for number, e in enumerate(loads):
        y = top + (e["tid"] - 1) * (lane + 8)
        f.rect(x(e["ts"]), y, x(e["ts"] + e["dur"]) - x(e["ts"]), lane, PALE[0], COLOURS[0])
        f.text((x(e["ts"]) + x(e["ts"] + e["dur"])) / 2, y + 23, str(number), bold=number == 4)
    # A slot is in use from the claim of a batch until the loop takes it.
    changes = sorted([(e["ts"], 1) for e in loads] + [(e["ts"], -1) for e in trains])
    used, y = 0, top + 2 * (lane + 8)
    for (at, change), (until, _) in zip(changes, changes[1:]):
        used += change
        w = x(until) - x(at)
        if used > 0 and w > 0.2:
            f.rect(x(at), y + lane - used * 9, w, used * 9, COLOURS[1] if used == 4 else PALE[1], radius=0)
    f.line(left, y + lane - 36, left + width, y + lane - 36, LINE)
    y = top + 3 * (lane + 8)
    for e in events:
        if e["name"] == "wait for batch" and e["dur"] > 1000:
            f.rect(x(e["ts"]), y, x(e["ts"] + e["dur"]) - x(e["ts"]), lane, "#ffffff", LINE)
            f.text((x(e["ts"]) + x(e["ts"] + e["dur"])) / 2, y + 22, "waits", colour=GREY, size=11)
    for number, e in enumerate(trains):
        f.rect(x(e["ts"]), y, x(e["ts"] + e["dur"]) - x(e["ts"]), lane, PALE[2], COLOURS[2])
        f.text((x(e["ts"]) + x(e["ts"] + e["dur"])) / 2, y + 23, str(number), bold=number == 4)
    y += lane + 8
    f.line(left, y, left + width, y, LINE)
    for ms in range(0, int((end - start) / 1000) + 1, 20):
        at = x(start + 1000 * ms)
        f.line(at, y, at, y + 4, LINE)
        f.text(at, y + 17, str(ms), colour=GREY, size=10)
    f.text(left, y + 44, "milliseconds. Dark: all four slots are in use, so a worker that is done must wait.", "start", GREY, 11)
    return f


def memory():
    """The memory in use over one step of ResNet-20, in three ways: the profiles that cifar_resnet wrote. The events of a block are evenly
    spaced, so the time of a kernel does not matter."""
    blocks = ["bn1", *(f"layer{stage}.{block}" for stage in (1, 2, 3) for block in range(3))]
    left, top, width, height, most = 66, 52, 560, 250, 45
    x = lambda part: left + part / 22 * width
    y = lambda mib: top + height - mib / most * height
    f = Figure(720, 372, "Memory in use over one training step of ResNet-20")
    f.text(left, 24, "MiB in use during one step of ResNet-20, 32 images", "start", bold=True)
    for mib in range(0, most, 10):
        f.line(left, y(mib), left + width, y(mib), "#e4e6e8", width=1)
        f.text(left - 8, y(mib) + 4, str(mib), "end", GREY, 11)
    f.line(left, y(0), left + width, y(0), LINE)
    f.line(x(11), top - 6, x(11), y(0) + 4, LINE)
    labels = {"f32": (11.3, 41.8), "bf16": (11.3, 22.6), "checkpoints": (11.3, 4.5)}  # where no curve crosses the text
    for colour, (name, place) in enumerate(labels.items()):
        events = [e for e in data_of(f"07_{name}")["traceEvents"] if e["tid"] == 0 and "live bytes" in e.get("args", {})]
        events.sort(key=lambda e: e["ts"] + e["dur"])
        mib = [(e["args"]["live bytes"] - events[0]["args"]["live bytes"]) / 2**20 for e in events]
        first = lambda fits: next(i for i, e in enumerate(events) if fits(e))
        last = lambda fits: max(i for i, e in enumerate(events) if fits(e))
        ends = [0, *(first(lambda e: e["cat"] == "module" and e["name"] == block) for block in blocks), first(lambda e: e["name"] == "cross_entropy")]
        for part in ["avgpool", *reversed(blocks)]:
            ends.append(last(lambda e: e["cat"] == "backward" and (e["args"].get("module", "") + ".").startswith(part + ".")))
        points = [(part + (i - a) / (b - a), mib[i]) for part, (a, b) in enumerate(zip(ends, ends[1:])) for i in range(a + (part > 0), b + 1)]
        f.parts.append(f'<polyline points="{" ".join(f"{x(part):.1f},{y(now):.1f}" for part, now in points)}" fill="none" '
                       f'stroke="{COLOURS[colour]}" stroke-width="2"/>')
        f.text(x(place[0]), y(place[1]), f"{name}: at most {max(mib):.0f} MiB", "start", COLOURS[colour], 12, bold=True)
    for part, text in enumerate(("layer1", "layer2", "layer3")):
        for at in (1 + 3 * part, 18 - 3 * part):
            f.line(x(at), y(0), x(at), y(0) + 5, LINE)
            f.line(x(at + 3), y(0), x(at + 3), y(0) + 5, LINE)
            f.text(x(at + 1.5), y(0) + 17, text, colour=GREY, size=11)
    f.text(x(5.5), y(0) + 36, "forward", colour=GREY, size=12)
    f.text(x(16.5), y(0) + 36, "backward", colour=GREY, size=12)
    f.text(left, 362, "Above what was in use before the step. Each layer has three blocks.", "start", GREY, 11)
    return f


FIGURES = {  # file name: function
    "01_step": step, "02_views": views, "03_isa": isa, "04_diamond": diamond, "04_tape": tape, "05_circle": circle, "06_roofline": roofline,
    "07_memory": memory, "08_workers": workers, "09_ring": ring,
    "10_crossings": crossings, "11_overlap": overlap, "12_death": death,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    status = 0
    for name, draw in FIGURES.items():
        file, svg = book / "figures" / f"{name}.svg", draw().svg()
        if not check:
            file.write_text(svg)
        elif not file.exists() or file.read_text() != svg:
            print(f"docs/book/figures/{name}.svg is not what draw.py draws; run docs/book/draw.py")
            status = 1
    for file in sorted((book / "figures").glob("*.svg")):
        if file.stem not in FIGURES:
            print(f"docs/book/figures/{file.name} is not drawn by draw.py")
            status = 1
    sys.exit(status)


main()
