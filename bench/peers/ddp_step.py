"""PyTorch's DistributedDataParallel over gloo, measured as bench/ddp_step measures rondo's.

It starts its ranks itself. It tries every combination of memory layout and gradient_as_bucket_view, and the
fastest one counts. It does not try torch.compile, whose start-up is longer than the measurement; DDP also splits
its graphs. bf16 is autocast, with f32 weights. glibc keeps memory, as in train_step.py.
"""

import argparse
import itertools
import json
import os
import socket
import statistics
import sys
import time

KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 31), "MALLOC_TOP_PAD_": str(1 << 26)}
if not KEEP_MEMORY.items() <= os.environ.items():
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **KEEP_MEMORY})

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as mp  # noqa: E402
import torch.nn.functional as F  # noqa: E402

import models  # noqa: E402


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="resnet20")
    parser.add_argument("--batch", type=int, default=128, help="images in a step, all ranks together")
    parser.add_argument("--dtype", default="f32", choices=["f32", "bf16"])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="threads of a rank")
    parser.add_argument("--seconds", type=float, default=10, help="time for each setting")
    parser.add_argument("--setting", help="LAYOUT,VIEW: measure only this setting, named as in the result")
    parser.add_argument("--json", metavar="FILE", help="one JSON object; - is standard output")
    return parser.parse_args()


def measure(args, layout, view):
    torch.manual_seed(dist.get_rank())
    model, shape = models.make(args.model, "cifar")
    x = torch.randn(args.batch // args.ranks, *shape)
    target = torch.randint(0, 10, (args.batch // args.ranks,))
    if layout == "channels_last":
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    ddp = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=view)
    sgd = torch.optim.SGD(ddp.parameters(), lr=1e-3, momentum=0.9, fused=True)

    def step():
        sgd.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.dtype == "bf16"):
            loss = F.cross_entropy(ddp(x).float(), target)
        loss.backward()
        sgd.step()

    for _ in range(3):
        step()
    dist.barrier()
    times, total, goes_on = [], 0.0, True
    while goes_on:
        for _ in range(10):
            start = time.perf_counter()
            step()
            times.append(time.perf_counter() - start)
            total += times[-1]
        more = torch.tensor([1 if total < args.seconds else 0])
        dist.broadcast(more, 0)
        goes_on = bool(more.item())
    seconds = statistics.median(times)
    return {"setting": f"{layout},{view}", "img_per_s": args.batch / seconds, "ms_per_step": 1e3 * seconds}


def rank_main(rank, args, port, results):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(args.threads)
    dist.init_process_group("gloo", rank=rank, world_size=args.ranks)
    settings = itertools.product(["contiguous"] if args.model == "mlp" else ["channels_last", "contiguous"], [True, False])
    rows = []
    for layout, view in settings:
        if args.setting and args.setting != f"{layout},{view}":
            continue
        rows.append(measure(args, layout, view))
        dist.barrier()
    if rank == 0:
        results.put(rows)
    dist.destroy_process_group()


def main():
    args = parse()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    results = mp.get_context("spawn").SimpleQueue()
    context = mp.spawn(rank_main, (args, port, results), nprocs=args.ranks, join=False)
    rows = results.get()
    while not context.join():
        pass
    best = max(rows, key=lambda row: row["img_per_s"])
    result = {"framework": f"pytorch {torch.__version__}", "model": args.model, "batch": args.batch,
              "dtype": args.dtype, "ranks": args.ranks, "threads": args.threads, **best, "rows": rows}
    if args.json == "-":
        print(json.dumps(result))
    else:
        print(f"{args.model} {args.dtype}: {best['img_per_s']:.1f} img/s with {best['setting']}")
        if args.json:
            with open(args.json, "w", encoding="utf-8") as file:
                json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
