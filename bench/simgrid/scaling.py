#!/usr/bin/env python3
"""All-reduce and data-parallel training on simulated clusters of 8 to 1,024 ranks, with rondo's own
algorithms.

    bench/simgrid/scaling.py [--build build] [--json FILE] [--figure FILE.svg] [--quick] [--check]
    bench/simgrid/scaling.py --draw FILE.json --figure FILE.svg

simulated_all_reduce (bench/simgrid/all_reduce.cpp) runs dist/collectives/algorithms unchanged on SimGrid's MPI,
over fat trees without oversubscription of 10 and 100 Gbit/s, 1 us a link, one rank a node or eight.
Ranks add received data at 10 GB/s (a core) on the slower network and at 1,000 GB/s (a GPU) on the faster.
The network's model is CM02 without cross-traffic, in which a link has exactly its nominal bandwidth. The
default model, LV08 with cross-traffic, was fitted to TCP on Gigabit Ethernet; it is printed as well for
one number of ranks. The bound is 2 (n - 1) / n of the data over the link.

Weak scaling of ResNet-50 is computed from these times. Gradients become complete during backward, in
proportion to their bytes. The buckets of DDP are reduced one after the other, by the algorithm that is
fastest for their size. A step ends when both backward and the last bucket are complete. --step-ms is the
computing time of a rank: 160 ms, of which 2/3 are backward, is a batch of 64 at 400 img/s.

Needs smpirun (package libsimgrid-dev) and, for the figure, python3-matplotlib.
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

# Memory bandwidth of a rank, for adding received data: a core's on the slower network, a GPU's on the faster one.
MEMORY_GB_S = {10: 10, 100: 1000}
MODELS = {
    "CM02": ["--cfg=network/model:CM02", "--cfg=network/crosstraffic:0"],
    "LV08": [],
}
PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="world" routing="Full">
  <cluster id="cluster" prefix="node-" suffix="" radical="0-{last}" speed="1Gf" core="8" bw="{gbit}Gbps" lat="1us"
           loopback_bw="800GBps" loopback_lat="0.5us" sharing_policy="SPLITDUPLEX"
           topology="FAT_TREE" topo_parameters="2;{leaves},{switches};1,{leaves};1,1"/>
</zone></platform>
"""


def simulate(program, ranks, ranks_per_node, gbit, model, wanted):
    """Returns the seconds of each (algorithm, bytes) in `wanted`."""
    nodes = ranks // ranks_per_node
    leaves = 2 ** math.ceil(math.log2(nodes) / 2)
    with tempfile.TemporaryDirectory() as folder:
        platform = pathlib.Path(folder, "platform.xml")
        platform.write_text(
            PLATFORM.format(last=nodes - 1, gbit=gbit, leaves=leaves, switches=nodes // leaves))
        hosts = pathlib.Path(folder, "hosts")
        hosts.write_text("".join(f"node-{r // ranks_per_node}\n" for r in range(ranks)))
        command = ["smpirun", "-np", str(ranks), "-platform", str(platform), "-hostfile", str(hosts),
                   *MODELS[model], "--cfg=smpi/simulate-computation:no", "--cfg=smpi/host-speed:1Gf",
                   "--log=root.thres:error", str(program), str(ranks_per_node), str(MEMORY_GB_S[gbit])]
        for algorithm, size in wanted:
            command += [algorithm, str(size)]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"scaling.py: {' '.join(command)}: {done.stderr.strip()}")
    result = {}
    for line in done.stdout.splitlines():
        words = line.split()
        if len(words) == 3:
            result[words[0], int(words[1])] = float(words[2])
    missing = [pair for pair in wanted if pair not in result]
    if missing:
        sys.exit(f"scaling.py: no time for {missing}; smpirun said: {done.stdout}{done.stderr}")
    return result


def bound(ranks, size, gbit, ranks_per_node=1):
    """Seconds that a node's link needs for the bytes that it must carry."""
    nodes = ranks // ranks_per_node
    return 2 * (nodes - 1) / nodes * size / (gbit * 1e9 / 8)


def resnet50_gradients():
    """(rows, columns) of each parameter as PowerSGD sees it; columns 0: a vector."""
    shapes = [(64, 3 * 49), (64, 0), (64, 0)]
    width_in = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            for rows, columns in ((width, width_in), (width, width * 9), (4 * width, width)):
                shapes += [(rows, columns), (rows, 0), (rows, 0)]
            if block == 0:
                shapes += [(4 * width, width_in), (4 * width, 0), (4 * width, 0)]
            width_in = 4 * width
    return shapes + [(1000, 2048), (1000, 0)]


def buckets_of(elements):
    """Bytes of the buckets that dist/data_parallel/bucket.cpp makes for so many f32, in the order of their launch."""
    total = 4 * elements
    capacity = min(max(total // 8, 64 << 10), 25 << 20)
    first = max(capacity // 8, 16 << 10)
    rest = total - first
    count = math.ceil(rest / capacity)
    return [first] + [rest // count // 4 * 4] * count


def step_seconds(ready, reduce, backward_end, overlap):
    """The time at which a step ends, if bucket i is complete at ready[i] and its all-reduce takes reduce[i]."""
    end = 0.0 if overlap else backward_end
    for at, seconds in zip(ready, reduce):
        end = max(end, at) + seconds
    return max(end, backward_end)


def weak_scaling(time_of, step_ms):
    """The efficiency of each way to train: step time of one rank over that of n. time_of(bytes): time of an all-reduce."""
    gradients = resnet50_gradients()
    elements = sum(rows * max(columns, 1) for rows, columns in gradients)
    sizes = buckets_of(elements)
    backward, total = step_ms * 2 / 3 / 1e3, 0
    step = step_ms / 1e3
    ready = []
    for size in sizes:
        total += size
        ready.append(step - backward + backward * total / sum(sizes))
    low_rank = sum((4 * (rows + columns) if columns else rows) for rows, columns in gradients) / elements
    result = {}
    for name, share, overlap in (("f32, no overlap", 1, False), ("f32", 1, True), ("bf16", 0.5, True),
                                 ("powersgd:4", low_rank, True)):
        # PowerSGD sends its two products in two rounds, half of its bytes each.
        rounds = 2 if name.startswith("powersgd") else 1
        reduce = [rounds * time_of(max(4, int(size * share / rounds) // 4 * 4)) for size in sizes]
        result[name] = step / step_seconds(ready, reduce, step, overlap)
    return result


class Interpolated:
    """The time of an all-reduce of any size: piecewise linear between the simulated sizes."""

    def __init__(self, seconds):
        self.points = sorted(seconds.items())

    def __call__(self, size):
        points = self.points
        if size <= points[0][0]:
            return points[0][1]
        for (x0, y0), (x1, y1) in zip(points, points[1:]):
            if size <= x1:
                return y0 + (y1 - y0) * (size - x0) / (x1 - x0)
        (x0, y0), (x1, y1) = points[-2:]
        return y1 + (y1 - y0) * (size - x1) / (x1 - x0)


def draw(rows, scaling, path):
    try:
        import matplotlib
    except ImportError:
        sys.exit("scaling.py: cannot draw the figure: matplotlib is missing (apt-get install python3-matplotlib)")
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "rondo"  # equal figures give equal files
    import matplotlib.pyplot as plt
    import matplotlib.ticker
    figure, axes = plt.subplots(1, 3, figsize=(15, 4.2), constrained_layout=True)
    for axis, per_node, title in ((axes[0], 1, "one rank a node"), (axes[1], 8, "eight ranks a node")):
        for algorithm in ("ring", "tree", "halving", "hierarchical"):
            points = [(row["ranks"], row["seconds"] / row["bound"]) for row in rows
                      if row["algorithm"] == algorithm and row["bytes"] == 16 << 20 and row["gbit"] == 100
                      and row["ranks_per_node"] == per_node and row["model"] == "CM02"]
            if points and not (algorithm == "hierarchical" and per_node == 1):
                axis.plot(*zip(*sorted(points)), marker="o", label=algorithm)
        axis.axhline(1, color="gray", linewidth=0.8)
        axis.set(xscale="log", xlabel="ranks", ylabel="time over the bound", title=f"all-reduce of 16 MiB, 100 Gbit/s, {title}")
        axis.set_xscale("log", base=2)
        axis.set_yscale("log", base=2)
        axis.yaxis.set_major_formatter(matplotlib.ticker.ScalarFormatter())
        axis.legend()
    for gbit, style in ((10, "--"), (100, "-")):
        for color, way in enumerate(("f32, no overlap", "f32", "bf16", "powersgd:4")):
            points = [(row["ranks"], 100 * row["efficiency"]) for row in scaling
                      if row["gbit"] == gbit and row["way"] == way]
            if points:
                axes[2].plot(*zip(*sorted(points)), style, color=f"C{color}", marker=".", label=f"{way}, {gbit} Gbit/s")
    axes[2].set_xscale("log", base=2)
    axes[2].set(xlabel="ranks, one a node", ylabel="% of n times one rank", title="ResNet-50, weak scaling", ylim=(0, 105))
    axes[2].legend(fontsize="small")
    figure.savefig(path, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", default="build", help="the build folder")
    parser.add_argument("--json", help="write all numbers to FILE")
    parser.add_argument("--figure", help="draw them into FILE.svg")
    parser.add_argument("--draw", metavar="FILE", help="draw the figure from a file of --json, without simulating")
    parser.add_argument("--step-ms", type=float, default=160, help="computing time of a rank in a step of ResNet-50")
    parser.add_argument("--quick", action="store_true", help="only 64 ranks and 16 MiB")
    parser.add_argument("--check", action="store_true",
                        help="--quick, and fail unless the ring stays within 10 %% of the bound; status 77: no simulator")
    options = parser.parse_args()
    options.quick = options.quick or options.check
    if options.draw:
        numbers = json.loads(pathlib.Path(options.draw).read_text())
        return draw(numbers["all_reduce"], numbers["resnet50"], options.figure or "scaling.svg")
    program = pathlib.Path(options.build, "bin", "simulated_all_reduce").resolve()
    if options.check and not program.exists():
        print("scaling.py: no simulated_all_reduce: libsimgrid-dev is not installed")
        sys.exit(77)
    if not program.exists():
        sys.exit(f"scaling.py: {program} is missing; install libsimgrid-dev, and build with RONDO_BENCH=ON")

    mib = 1 << 20
    rows, scaling = [], []
    print(f"{'ranks':>5} {'a node':>6} {'Gbit/s':>6} {'MiB':>8} {'algorithm':<13} {'model':<5} {'ms':>9} {'over bound':>10}")

    def measure(ranks, ranks_per_node, gbit, model, wanted):
        seconds = simulate(program, ranks, ranks_per_node, gbit, model, wanted)
        for (algorithm, size), time in seconds.items():
            least = bound(ranks, size, gbit, ranks_per_node)
            rows.append({"ranks": ranks, "ranks_per_node": ranks_per_node, "gbit": gbit, "bytes": size,
                         "algorithm": algorithm, "model": model, "seconds": time, "bound": least})
            print(f"{ranks:5} {ranks_per_node:6} {gbit:6} {size / mib:8.2f} {algorithm:<13} {model:<5} "
                  f"{time * 1e3:9.3f} {time / least:10.3f}", flush=True)
        return seconds

    for model in MODELS:
        sizes = (16 * mib,) if options.quick else (16 * mib, 64 * mib, 256 * mib)
        measure(64, 1, 10, model, [("ring", size) for size in sizes] + [("halving", 16 * mib), ("tree", 16 * mib)])
    if not options.quick:
        for gbit in (10, 100):
            for ranks in (8, 16, 32, 64, 128, 256, 512, 1024):
                # A ring of a thousand ranks sends millions of messages, so one size must be enough.
                ring = [("ring", size) for size in ((mib, 16 * mib) if ranks <= 256 else (16 * mib,))]
                others = [(algorithm, size) for algorithm in ("doubling", "halving", "tree") for size in (64 << 10, mib)]
                large = [("halving", 16 * mib), ("tree", 16 * mib)]
                times = measure(ranks, 1, gbit, "CM02", ring + others + large)
                fastest = {}
                for (_, size), time in times.items():
                    fastest[size] = min(time, fastest.get(size, time))
                for way, efficiency in weak_scaling(Interpolated(fastest), options.step_ms).items():
                    scaling.append({"ranks": ranks, "gbit": gbit, "way": way, "efficiency": efficiency})
        for ranks in (16, 64, 256, 1024):
            wanted = [("halving", 16 * mib), ("tree", 16 * mib), ("hierarchical", 16 * mib)]
            measure(ranks, 8, 100, "CM02", ([("ring", 16 * mib)] if ranks <= 256 else []) + wanted)
        print("\nResNet-50, weak scaling: % of n times one rank")
        ways = list(dict.fromkeys(row["way"] for row in scaling))
        print(f"{'ranks':>5} {'Gbit/s':>6} " + " ".join(f"{way:>16}" for way in ways))
        for gbit in (10, 100):
            for ranks in (8, 16, 32, 64, 128, 256, 512, 1024):
                values = [100 * row["efficiency"] for way in ways for row in scaling
                          if (row["ranks"], row["gbit"], row["way"]) == (ranks, gbit, way)]
                print(f"{ranks:5} {gbit:6} " + " ".join(f"{value:16.1f}" for value in values))
    if options.check:
        ring = next(row for row in rows if (row["algorithm"], row["model"]) == ("ring", "CM02"))
        if ring["seconds"] > 1.1 * ring["bound"]:
            sys.exit(f"scaling.py: the ring takes {ring['seconds'] / ring['bound']:.3f} times the bound")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"all_reduce": rows, "resnet50": scaling}, indent=1) + "\n")
    if options.figure:
        draw(rows, scaling, options.figure)


if __name__ == "__main__":
    main()
