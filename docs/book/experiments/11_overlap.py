#!/usr/bin/env python3
"""When rank 0 launched the all-reduces of a step, by the timeline that it wrote."""
import argparse
import json

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("timeline", type=argparse.FileType(), metavar="trace.json")
events = [e for e in json.load(parser.parse_args().timeline)["traceEvents"] if e["ph"] == "X" and e["pid"] == 0]
wait = next(e for e in events if e["name"] == "wait for gradients")  # it begins when backward has computed everything
for e in events:
    if "bucket" in e["name"]:
        left = (wait["ts"] - e["ts"]) / 1000 + e["args"]["queued ms"]
        when = f"{left:.0f} ms before" if left > 0 else "after"
        print(f"{e['name'].removeprefix('all_reduce of ')}: launched {when} the end of backward")
print(f"the step waits {wait['dur'] / 1000:.0f} ms for gradients")
