"""PyTorch's single ops, measured as bench/ops measures rondo's. The list is the same.

They run without torch.compile, which has nothing to fuse in a single op.
"""

import argparse
import json
import os
import statistics
import sys
import time

import keep_memory

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--op", required=True)
parser.add_argument("--backward", action="store_true")
parser.add_argument("--threads", type=int, required=True)
parser.add_argument("--seconds", type=float, default=1)
parser.add_argument("--turns", action="store_true")
parser.add_argument("--json", choices=["-"])
args = parser.parse_args()
keep_memory.or_start_anew()
os.environ["OMP_NUM_THREADS"] = str(args.threads)

import torch  # noqa: E402  (after OMP_NUM_THREADS)
import torch.nn.functional as F  # noqa: E402

torch.manual_seed(1)
HIDDEN, LOGITS, HEADS, IMAGE = (32, 128, 768), (512, 1000), (8, 12, 128, 64), (32, 64, 56, 56)
CLASSES, WORDS = torch.randint(0, 1000, (512,)), torch.randint(0, 50_000, (64, 128))


def rotary(x):
    """As in the models of Hugging Face."""
    angle = torch.arange(x.shape[-2])[:, None] * 10000 ** -(torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    angle = torch.cat([angle, angle], -1)
    a, b = x.chunk(2, -1)
    return x * angle.cos() + torch.cat([-b, a], -1) * angle.sin()


OPS = {
    "exp": ([HIDDEN], torch.exp),
    "tanh": ([HIDDEN], torch.tanh),
    "relu": ([HIDDEN], F.relu),
    "silu": ([HIDDEN], F.silu),
    "gelu": ([HIDDEN], F.gelu),
    "pow3": ([HIDDEN], lambda x: x**3),
    "add": ([HIDDEN, (768,)], torch.add),
    "mul": ([HIDDEN, (32, 128, 1)], torch.mul),
    "sum": ([HIDDEN], torch.sum),
    "mean_rows": ([HIDDEN], lambda x: x.mean(-1)),
    "sum_columns": ([(4096, 768)], lambda x: x.sum(0)),
    "softmax": ([(8, 12, 128, 128)], lambda x: F.softmax(x, -1)),
    "log_softmax": ([LOGITS], lambda x: F.log_softmax(x, -1)),
    "cross_entropy": ([LOGITS], lambda x: F.cross_entropy(x, CLASSES)),
    "layer_norm": ([HIDDEN, (768,), (768,)], lambda x, w, b: F.layer_norm(x, (768,), w, b)),
    "group_norm": ([IMAGE, (64,), (64,)], lambda x, w, b: F.group_norm(x, 8, w, b)),
    "batch_norm": ([IMAGE, (64,), (64,)], lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True)),
    "matmul": ([(512, 512), (512, 512)], torch.matmul),
    "bmm": ([(96, 128, 64), (96, 64, 128)], torch.bmm),
    "attention": ([HEADS] * 3, F.scaled_dot_product_attention),
    "rotary_embedding": ([(8, 8, 512, 64)], rotary),
    "embedding": ([(50_000, 512)], lambda w: F.embedding(WORDS, w)),
    "cat": ([HIDDEN, HIDDEN], lambda a, b: torch.cat([a, b], -1)),
    "transpose": ([(2048, 2048)], lambda x: x.t().contiguous()),
    "max_pool2d": ([IMAGE], lambda x: F.max_pool2d(x, 3, 2, 1)),
    "avg_pool2d": ([IMAGE], lambda x: F.avg_pool2d(x, 2)),
    "global_avg_pool2d": ([IMAGE], lambda x: F.adaptive_avg_pool2d(x, 1)),
    "upsample": ([IMAGE], lambda x: F.interpolate(x, scale_factor=2)),
}


def main():
    torch.set_num_threads(args.threads)
    sizes, op = OPS[args.op]
    inputs = [torch.randn(size, requires_grad=args.backward) for size in sizes]
    if args.backward:
        dy = torch.randn_like(op(*inputs))

    def step():
        if not args.backward:
            with torch.no_grad():
                return op(*inputs)
        for x in inputs:
            x.grad = None
        return op(*inputs).backward(dy)

    def turn():
        times = []
        while sum(times) < args.seconds or len(times) < 3:
            start = time.perf_counter()
            step()
            times.append(time.perf_counter() - start)
        row = {"framework": f"pytorch {torch.__version__}", "op": args.op, "backward": args.backward}
        print(json.dumps({**row, "threads": args.threads, "ms": 1e3 * statistics.median(times)}), flush=True)

    for _ in range(3):
        step()
    if not args.turns:
        return turn()
    for _ in sys.stdin:
        turn()


if __name__ == "__main__":
    main()
