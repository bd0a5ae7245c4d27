"""Measures torch.distributed's all-reduce over gloo between two processes of this machine: median seconds per call."""

import argparse
import json
import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def rank_main(rank, args, file, results):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
    x = torch.ones(args.bytes // 4)
    times = []
    for i in range(args.repeat + 3):
        x.fill_(1)
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(x)
        if i >= 3:
            times.append(time.perf_counter() - start)
    if rank == 0:
        results.put(statistics.median(times))
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, default=1 << 20, help="of f32")
    parser.add_argument("--repeat", type=int, default=51)
    parser.add_argument("--json", metavar="FILE", help="- is standard output")
    args = parser.parse_args()
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with tempfile.TemporaryDirectory() as folder:
        results = mp.get_context("spawn").SimpleQueue()
        mp.spawn(rank_main, (args, f"{folder}/store", results), nprocs=2)
        seconds = results.get()
    if args.json == "-":
        print(json.dumps({"bytes": args.bytes, "seconds": seconds}))
    else:
        print(f"{args.bytes} bytes: {1e3 * seconds:.3f} ms")


if __name__ == "__main__":
    main()
