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
parser.add_argument("--op", help="default: all, one line each")
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
SQUARE, SMALL, HUGE, FEATURE = (2048, 2048), (32, 64), (64, 512, 1024), (16, 64, 28, 28)
ROW, PLACE = torch.randint(0, 2048, (1024,)), torch.randint(0, 2048, SQUARE)
ENDS, LATER = torch.randn(1000).sort().values, torch.ones(128, 128).triu(1) == 1
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
    "sqrt": ([HIDDEN], lambda x: torch.sqrt(x * x)),
    "sigmoid": ([HIDDEN], torch.sigmoid),
    "erf": ([HIDDEN], torch.erf),
    "softplus": ([HIDDEN], F.softplus),
    "div": ([HIDDEN, HIDDEN], torch.div),
    "maximum": ([HIDDEN, HIDDEN], torch.maximum),
    "clamp": ([HIDDEN], lambda x: x.clamp(-1, 1)),
    "where": ([HIDDEN, HIDDEN], lambda a, b: torch.where(a > 0, a, b)),
    "equal": ([HIDDEN, HIDDEN], torch.eq),
    "to_bf16": ([HIDDEN], lambda x: x.bfloat16()),
    "dropout": ([HIDDEN], lambda x: F.dropout(x, 0.1)),
    "randn": ([], lambda: torch.randn(HIDDEN)),
    "add_transposed": ([SQUARE, SQUARE], lambda a, b: a + b.t()),
    "add_small": ([SMALL, SMALL], torch.add),
    "exp_small": ([SMALL], torch.exp),
    "sum_small": ([SMALL], torch.sum),
    "softmax_small": ([SMALL], lambda x: F.softmax(x, -1)),
    "layer_norm_small": ([SMALL], lambda x: F.layer_norm(x, (64,))),
    "matmul_small": ([SMALL, (64, 64)], torch.matmul),
    "add_huge": ([HUGE, HUGE], torch.add),
    "exp_huge": ([HUGE], torch.exp),
    "sum_huge": ([HUGE], torch.sum),
    "softmax_huge": ([HUGE], lambda x: F.softmax(x, -1)),
    "max_rows": ([HIDDEN], lambda x: x.max(-1).values),
    "argmax": ([HIDDEN], lambda x: x.argmax(-1)),
    "var": ([HIDDEN], lambda x: x.var(-1)),
    "logsumexp": ([LOGITS], lambda x: x.logsumexp(-1)),
    "cumsum": ([SQUARE], lambda x: x.cumsum(-1)),
    "sort": ([LOGITS], lambda x: x.sort(-1).values),
    "topk": ([LOGITS], lambda x: x.topk(5).values),
    "index_select": ([SQUARE], lambda x: x.index_select(0, ROW)),
    "gather": ([SQUARE], lambda x: x.gather(1, PLACE)),
    "scatter_add": ([SQUARE, SQUARE], lambda x, y: x.scatter_add(1, PLACE, y)),
    "pad": ([IMAGE], lambda x: F.pad(x, (1, 1, 1, 1))),
    "conv2d": ([FEATURE, (64, 64, 3, 3)], lambda x, w: F.conv2d(x, w, padding=1)),
    "conv_1x1": ([FEATURE, (256, 64, 1, 1)], F.conv2d),
    "conv_grouped": ([FEATURE, (64, 16, 3, 3)], lambda x, w: F.conv2d(x, w, padding=1, groups=4)),
    "conv_narrow_groups": ([FEATURE, (64, 4, 3, 3)], lambda x, w: F.conv2d(x, w, padding=1, groups=16)),
    "conv_depthwise": ([FEATURE, (64, 1, 3, 3)], lambda x, w: F.conv2d(x, w, padding=1, groups=64)),
    "conv_dilated": ([FEATURE, (64, 64, 3, 3)], lambda x, w: F.conv2d(x, w, padding=2, dilation=2)),
    "conv_transpose2d": ([FEATURE, (64, 32, 2, 2)], lambda x, w: F.conv_transpose2d(x, w, stride=2)),
    "bilinear": ([FEATURE], lambda x: F.interpolate(x, scale_factor=2, mode="bilinear")),
    "hardswish": ([HIDDEN], F.hardswish),
    "elu": ([HIDDEN], F.elu),
    "prelu": ([IMAGE, (64,)], F.prelu),
    "smooth_l1": ([HIDDEN, HIDDEN], F.smooth_l1_loss),
    "bce_with_logits": ([HIDDEN, HIDDEN], F.binary_cross_entropy_with_logits),
    "flip": ([HIDDEN], lambda x: x.flip(0)),
    "softmax_channels": ([IMAGE], lambda x: x.softmax(1)),
    "prod_rows": ([HIDDEN], lambda x: x.prod(-1)),
    "cdist": ([LOGITS, LOGITS], torch.cdist),
    "both": ([HIDDEN, HIDDEN], lambda a, b: (a > 0).logical_and(b > 0)),
    "add_channels": ([IMAGE, (64, 1, 1)], torch.add),
    "less": ([HIDDEN, HIDDEN], torch.lt),
    "remainder": ([HIDDEN, HIDDEN], torch.remainder),
    "fmod": ([HIDDEN], lambda x: torch.fmod(x, 0.3)),
    "atan2": ([HIDDEN, HIDDEN], torch.atan2),
    "hypot": ([HIDDEN, HIDDEN], torch.hypot),
    "logaddexp": ([HIDDEN, HIDDEN], torch.logaddexp),
    "lerp": ([HIDDEN, HIDDEN], lambda a, b: torch.lerp(a, b, 0.3)),
    "addcmul": ([HIDDEN] * 3, torch.addcmul),
    "erfinv": ([HIDDEN], torch.erfinv),
    "log1p": ([HIDDEN], torch.log1p),
    "sin": ([HIDDEN], torch.sin),
    "rsqrt": ([HIDDEN], torch.rsqrt),
    "abs": ([HIDDEN], torch.abs),
    "nan_to_num": ([HIDDEN], torch.nan_to_num),
    "threshold": ([HIDDEN], lambda x: F.threshold(x, 0.1, 20)),
    "hardshrink": ([HIDDEN], F.hardshrink),
    "softshrink": ([HIDDEN], F.softshrink),
    "hardtanh": ([HIDDEN], F.hardtanh),
    "softsign": ([HIDDEN], F.softsign),
    "mish": ([HIDDEN], F.mish),
    "logsigmoid": ([HIDDEN], F.logsigmoid),
    "glu": ([HIDDEN], F.glu),
    "masked_fill": ([HIDDEN, HIDDEN], lambda a, b: a.masked_fill(b > 0, 0)),
    "cumprod": ([SQUARE], lambda x: x.cumprod(-1)),
    "cummax": ([SQUARE], lambda x: x.cummax(-1).values),
    "logcumsumexp": ([SQUARE], lambda x: x.logcumsumexp(-1)),
    "cumsum_columns": ([SQUARE], lambda x: x.cumsum(0)),
    "std": ([HIDDEN], torch.std),
    "norm": ([HIDDEN], torch.norm),
    "normalize": ([HIDDEN], lambda x: F.normalize(x, dim=-1)),
    "cosine_similarity": ([LOGITS, LOGITS], F.cosine_similarity),
    "median": ([LOGITS], lambda x: x.median(-1).values),
    "searchsorted": ([HIDDEN], lambda x: torch.searchsorted(ENDS, x.flatten())),
    "bincount": ([], lambda: PLACE.flatten().bincount()),
    "unique": ([], lambda: torch.unique(WORDS, return_inverse=True, return_counts=True)[0]),
    "one_hot": ([], lambda: F.one_hot(CLASSES, 1000)),
    "nonzero": ([HIDDEN], lambda x: (x > 1).nonzero()),
    "masked_select": ([HIDDEN], lambda x: x.masked_select(x > 1)),
    "roll": ([HIDDEN], lambda x: x.roll(5, -1)),
    "softmax_causal": ([(8, 12, 128, 128)], lambda x: x.masked_fill(LATER, -torch.inf).softmax(-1)),
    "attention_causal": ([(2, 12, 512, 64)] * 3, lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)),
    "tril": ([SQUARE], torch.tril),
    "repeat_interleave": ([SQUARE], lambda x: x.repeat_interleave(2, 1)),
    "stack": ([HIDDEN, HIDDEN], lambda a, b: torch.stack([a, b], -1)),
    "pixel_shuffle": ([IMAGE], lambda x: F.pixel_shuffle(x, 2)),
    "unfold": ([FEATURE], lambda x: F.unfold(x, 3, padding=1)),
    "instance_norm": ([IMAGE], F.instance_norm),
    "rms_norm": ([HIDDEN, (768,)], lambda x, w: F.rms_norm(x, (768,), w)),
    "mse_loss": ([HIDDEN, HIDDEN], F.mse_loss),
    "l1_loss": ([HIDDEN, HIDDEN], F.l1_loss),
    "any": ([HIDDEN], lambda x: (x > 10).any()),
    "outer": ([(2048,), (2048,)], torch.outer),
    "einsum": ([HEADS, HEADS], lambda a, b: torch.einsum("bhqd,bhkd->bhqk", a, b)),
    "to_i64": ([HIDDEN], lambda x: x.long()),
    "to_f32_bf16": ([HIDDEN], lambda x: x.float()),
    # Inputs of four dimensions in channels_last; inputs in bf16.
    "batch_norm_channels_last": ([IMAGE, (64,), (64,)], lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True)),
    "conv2d_channels_last": ([FEATURE, (64, 64, 3, 3)], lambda x, w: F.conv2d(x, w, padding=1)),
    "max_pool2d_channels_last": ([IMAGE], lambda x: F.max_pool2d(x, 3, 2, 1)),
    "avg_pool2d_channels_last": ([IMAGE], lambda x: F.avg_pool2d(x, 2)),
    "global_avg_pool2d_channels_last": ([IMAGE], lambda x: F.adaptive_avg_pool2d(x, 1)),
    "upsample_channels_last": ([IMAGE], lambda x: F.interpolate(x, scale_factor=2)),
    "group_norm_channels_last": ([IMAGE, (64,), (64,)], lambda x, w, b: F.group_norm(x, 8, w, b)),
    "add_channels_channels_last": ([IMAGE, (64, 1, 1)], torch.add),
    "pad_channels_last": ([IMAGE], lambda x: F.pad(x, (1, 1, 1, 1))),
    "add_bf16": ([HIDDEN, (768,)], torch.add),
    "exp_bf16": ([HIDDEN], torch.exp),
    "sum_bf16": ([HIDDEN], torch.sum),
    "softmax_bf16": ([(8, 12, 128, 128)], lambda x: F.softmax(x, -1)),
    "layer_norm_bf16": ([HIDDEN, (768,), (768,)], lambda x, w, b: F.layer_norm(x, (768,), w, b)),
    "cat_bf16": ([HIDDEN, HIDDEN], lambda a, b: torch.cat([a, b], -1)),
    "transpose_bf16": ([(2048, 2048)], lambda x: x.t().contiguous()),
}


def measure(name):
    sizes, op = OPS[name]
    dtype = torch.bfloat16 if name.endswith("_bf16") and name != "to_bf16" else torch.float32
    inputs = [torch.randn(size, dtype=dtype) for size in sizes]
    if name.endswith("_channels_last"):
        inputs = [x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x for x in inputs]
    for x in inputs:
        x.requires_grad_(args.backward)
    if args.backward:
        y = op(*inputs)
        if not y.requires_grad:
            return
        dy = torch.randn_like(y)

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
        row = {"framework": f"pytorch {torch.__version__}", "op": name, "backward": args.backward}
        print(json.dumps({**row, "threads": args.threads, "ms": 1e3 * statistics.median(times)}), flush=True)

    for _ in range(3):
        step()
    if not args.turns:
        return turn()
    for _ in sys.stdin:
        turn()


def main():
    torch.set_num_threads(args.threads)
    for name in [args.op] if args.op else OPS:
        measure(name)


if __name__ == "__main__":
    main()
