#!/usr/bin/env python3
"""The memory that a step of a ResNet needed, by the profile that it wrote."""
import argparse
import json
import pathlib

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("profiles", nargs="+", type=pathlib.Path, metavar="FOLDER/profile.json")
profiles = parser.parse_args().profiles
for path in profiles:
    if not path.is_file():
        parser.error(f"{path} does not exist; the runs above write it")
print("MiB in use    after forward of                after backward of       |  most")
print("                 bn1  layer1  layer2  layer3  layer3  layer2  layer1  |")
for path in profiles:
    events = [e for e in json.loads(path.read_text())["traceEvents"] if e["tid"] == 0 and "live bytes" in e.get("args", {})]
    events.sort(key=lambda e: e["ts"] + e["dur"])  # "live bytes" is the memory in use at the end of an event
    forward, backward, mib = {}, {}, [(e["args"]["live bytes"] - events[0]["args"]["live bytes"]) / 2**20 for e in events]
    for e, now in zip(events, mib):
        if e["cat"] == "module":
            forward.setdefault(e["name"], now)  # a module may run again in backward
        elif e["cat"] == "backward" and "module" in e["args"]:
            backward[e["args"]["module"].split(".")[0]] = now
    shown = [*(forward[m] for m in ("bn1", "layer1", "layer2", "layer3")), *(backward[m] for m in ("layer3", "layer2", "layer1"))]
    print(f"{path.parent.name:12}", *(f"{now:7.1f}" for now in shown), f" | {max(mib):5.1f}")
