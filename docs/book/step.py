#!/usr/bin/env python3
"""Writes a page that steps through one training step, event by event.

    docs/book/step.py TRACE… PAGE

The traces are those of one run: a profile of a rank (Profiler::write_chrome_trace with record_shapes and profile_memory, or
--profile), and, for the collectives, a timeline of all ranks (TimelineTrace::write, or --trace). PAGE is one HTML file that
needs neither a server nor a network. It contains the sources that it shows. Each event is shown at its line, which is found
by a text in it; if a source no longer has that text, nothing is written. Exit status 1 and a sentence if anything is wrong.
"""
import argparse
import json
import pathlib
import re
import sys

book = pathlib.Path(__file__).resolve().parent
root = book.parent.parent
LINES = {  # where a kind of event happens: a file, and a text that one line of it contains
    "module": ("nn/module.h", "virtual Tensor forward(const Tensor& x) = 0;"),
    "range": ("tensor/record_function.h", "explicit RecordFunction(std::string_view name, EventKind kind = EventKind::range) {"),
    "zero_grad": ("autograd/autograd_meta.cpp", "void Tensor::zero_grad() const {"),
    "record": ("autograd/record.h", "attach(std::make_shared<N>(std::forward<Args>(args)...), in, {&output, 1});"),
    "tape": ("autograd/engine.cpp", "void count_dependencies("),
    "run": ("autograd/engine.cpp", "return node.backward(gradients);"),
    "leaf": ("autograd/accumulate_grad.cpp", "meta.grad_defined = true;"),
    "slot": ("autograd/accumulate_grad.cpp", "backend(dy).copy(dy, meta.grad_slot);"),
    "fill": ("dist/data_parallel/ddp.cpp", "if (--buckets_[b].pending > 0) return;"),
    "launch": ("dist/data_parallel/ddp.cpp", "bucket.works = {comm_->all_reduce_async(bucket.flat, ReduceOp::avg)};"),
    "now": ("dist/data_parallel/ddp.cpp", "comm_->all_reduce(buckets_[index].flat, ReduceOp::avg);"),
    "wait": ("dist/data_parallel/ddp.cpp", "/// Waits for all launched buckets."),
    "collective": ("dist/collectives/progress.cpp", "Pace pace = poll_once(lock);"),
    "optimizer": ("optim/optimizer.cpp", 'range.open(concat(type(), " step"), EventKind::optimizer);'),
}


def stop(*words):
    sys.exit("step.py: " + " ".join(map(str, words)))


def line_of(kind):
    path, text = LINES[kind]
    found = [n for n, line in enumerate((root / path).read_text().split("\n"), 1) if text in line]
    if len(found) != 1:
        stop(f'{len(found)} lines of {path} contain "{text}", but one must: change LINES in docs/book/step.py')
    return [path, found[0]]


def lines_of(name, folder, pattern):
    """The line that defines op `name`; none for an op that is not rondo's."""
    for file in sorted((root / folder).rglob("*.cpp")) if (root / folder).is_dir() else [root / folder]:
        if found := re.search(pattern.replace("NAME", re.escape(name)), text := file.read_text(), re.M):
            return [[str(file.relative_to(root)), text[: found.start()].count("\n") + 1]]
    return []


def lines_of_op(name):
    return (lines_of(name, "autograd/ops", r"^(Tensor|Tensors) NAME\(") or lines_of(name.rstrip("_"), "tensor/backend.h", r'"NAME_?"|do_NAME\(')
            or lines_of(name.rstrip("_"), "tensor/ops_table.h", r"\bNAME\b"))


def read(path):
    """The complete events of a trace, in the order of their begin."""
    try:
        events = json.loads(pathlib.Path(path).read_text())["traceEvents"]
        events = [e for e in events if e["ph"] == "X"]
        for e in events:
            e["end"] = e["ts"] + e["dur"]
            e["args"] = dict(e.get("args", {}))
            e["name"], e["cat"], e["pid"], e["tid"] = e["name"] + "", e["cat"] + "", e["pid"] + 0, e["tid"] + 0
            for key, kind in ("shapes", ""), ("module", ""), ("queued ms", 0), ("live bytes", 0):
                kind + e["args"].get(key, kind)  # a TypeError if it is of another type
    except OSError as error:
        stop(f"{path}: {error.strerror}")
    except (ValueError, KeyError, TypeError) as error:
        stop(f"{path} is not a trace in Chrome's format: {type(error).__name__}: {error}")
    if not events:
        stop(f"{path} has no events")
    return sorted(events, key=lambda e: e["ts"])


def window_of(profile):
    """The profile's root event, and the events of its thread in the first step."""
    whole = next(e for e in profile if e["cat"] == "profile")
    step = next((e for e in profile if e["cat"] == "step"), whole)
    return whole, step["ts"], step["end"], [e for e in profile if e["tid"] == whole["tid"] and e["pid"] == whole["pid"] and
                                            e["cat"] not in ("profile", "communication") and step["ts"] <= e["ts"] <= step["end"]]


def page_of(traces):
    files = [read(path) for path in traces]
    profiles = [f for f in files if any(e["cat"] == "profile" for e in f)]
    if len(profiles) != 1:
        stop(f"{len(profiles)} of the files {', '.join(traces)} are profiles, but one must be (Profiler::write_chrome_trace)")
    whole, start, end, events = window_of(profiles[0])
    tape = next((e for e in events if e["name"] == "backward" and e["cat"] == "backward"), None)
    if tape is None:
        stop("the profile has no backward: it must contain a training step")
    timeline = [e for f in files if f is not profiles[0] for e in f if start <= e["ts"] <= end]
    steps, nodes, buckets = [], [], {}

    def add(at, title, text, lines, event=None, **more):
        live = event["args"].get("live bytes", 0) if event else 0
        shapes = event["args"].get("shapes", "").split(" by ")[0] if event else ""
        steps.append({"at": at - start, "title": title, "text": text, "shapes": shapes, "live": live, "lines": lines, "born": [], "dies": [], **more})
        return steps[-1]

    modules, ops = [], []
    for e in events:
        name, module = e["name"], e["args"].get("module", "")
        modules = [m for m in modules if m["end"] >= e["end"]]
        if e["cat"] == "module":
            modules.append(e)
            add(e["ts"], f"module {name}", "The forward of this module begins.", [line_of("module")], None)
        elif e is tape:
            begin = add(e["ts"], "backward begins", "The engine visits the tape and counts how many gradients each node waits for. It runs nothing yet.", [line_of("tape")])
        elif e["cat"] == "op":
            inside = "" if not modules or modules[-1]["name"] == "model" else modules[-1]["name"]
            step = add(e["end"], name, "This op computes. It leaves no node on the tape.", lines_of_op(name), e)
            if e["ts"] < tape["ts"]:
                ops.append((name, inside, step))
        elif e["cat"] == "backward" and name.endswith(" backward"):
            op = name.removesuffix(" backward")
            made = next((o for o in reversed(ops) if o[:2] == (op, module)), None)
            if made:
                ops.remove(made)
                made[2]["text"] = "This op computes. An input needs a gradient, so a node goes on the tape."
                made[2]["lines"].append(line_of("record"))
            nodes.append({"name": op, "module": module})
            (made[2] if made else begin)["born"].append(len(nodes) - 1)
            add(e["end"], name, "All gradients of this node have arrived. It runs, and frees what it saved.",
                lines_of(op, "autograd", r'return "NAME"; \}') + [line_of("run")], e, dies=[len(nodes) - 1])
        elif name == "accumulate_grad":
            found = re.search(r"DDP: (\S+) in bucket (\d+) of (\d+)", e["args"].get("shapes", ""))
            leaf = found[1] if found else f"a parameter of {module}"
            nodes.append({"name": leaf, "module": module, "leaf": 1})
            step = add(e["ts"], f"the gradient of {leaf}", "It is complete." + (f" It is written to its slot in bucket {found[2]}." if found else ""),
                       [line_of("slot"), line_of("fill")] if found else [line_of("leaf")], e, dies=[len(nodes) - 1])
            if found:
                buckets.setdefault(int(found[2]), []).append([leaf, step["at"]])
        elif e["cat"] == "optimizer":
            add(e["end"], name, "The optimizer updates the parameters.", [line_of("optimizer")], e)
        else:
            add(e["ts"], name, "This part of the program begins.", [line_of("zero_grad" if name == "zero_grad" else "range")])
    firsts = {}  # a leaf appears with the first node of its module
    for step in steps:
        for n in step["born"]:
            firsts.setdefault(nodes[n]["module"], step)
    for n, node in enumerate(nodes):
        if "leaf" in node:
            firsts.get(node["module"], begin)["born"].append(n)

    collectives = []
    for e in timeline:
        label, about = e["name"], re.search(r"bucket (\d+) of (\d+)", e["name"])
        if label == "wait for gradients" and e["pid"] == whole["pid"]:
            add(e["ts"], label, "The tape has run. This thread has nothing to compute until all gradients are averaged.", [line_of("wait")])
        elif e["cat"] == "communication":
            issued = e["ts"] - e["args"].get("queued ms", 0) * 1000
            times = [issued - start, e["ts"] - start, e["end"] - start]
            collectives.append({"rank": e["pid"], "label": label, "bucket": int(about[1]) if about else 0, "times": times})
            if e["pid"] != whole["pid"]:
                continue
            is_last = about and about[1] == about[2]
            add(issued, f"{label} is launched", "No work is left to hide this all-reduce, so the thread that ran backward does it." if is_last else
                "It goes into the queue of the thread that communicates. Backward continues.",
                [line_of("now" if is_last else "launch")] if about else [line_of("collective")])
            add(e["end"], f"{label} is done", "All ranks have the average." if about else "", [line_of("collective")])
    steps.sort(key=lambda step: step["at"])
    for before, step in zip(steps, steps[1:]):
        step["live"] = step["live"] or before["live"]
    sources = {path: (root / path).read_text() for path in sorted({path for step in steps for path, _ in step["lines"]})}
    return {"rank": whole["pid"], "steps": steps, "nodes": nodes, "buckets": sorted(buckets.items()), "collectives": collectives,
            "tape": [tape["ts"] - start, tape["end"] - start], "sources": sources}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", metavar="TRACE", nargs="+")
    parser.add_argument("page", metavar="PAGE")
    given = parser.parse_args()
    traces, page = given.traces, given.page
    data = json.dumps(page_of(traces), ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    template = (book / "step_page.html").read_text()
    try:
        pathlib.Path(page).write_text(template.replace("/* DATA */ null", data))
    except OSError as error:
        stop(f"{page}: {error.strerror}")


if __name__ == "__main__":
    main()
