"""The rows of bench/compare.sh: what is measured, and the goal.

A goal is the ratio of rondo's figure to PyTorch's best; for memory, where less is better, it is an upper bound. Rows
without a goal are for information.
"""

import dataclasses
import fnmatch


@dataclasses.dataclass(frozen=True)
class Row:
    kind: str  # train, infer, load, all_reduce, start_up, memory; op: forward, grad: with backward
    model: str = ""  # the model, or the op of bench/ops
    dtype: str = "f32"
    batch: int = 128
    goal: float | None = None
    bytes: int = 0  # for all_reduce

    @property
    def name(self):
        parts = {"load": ["load", "cifar10"], "all_reduce": ["all_reduce", f"{self.bytes >> 20}MiB"]}
        if self.kind in ("op", "grad"):
            return f"{self.kind}:{self.model}"
        return ":".join(parts.get(self.kind, [self.kind, self.model, self.dtype, str(self.batch)]))

    @property
    def unit(self):
        return {"memory": "MiB", "start_up": "s", "all_reduce": "ms", "op": "ms", "grad": "ms"}.get(self.kind, "img/s")

    def ratio(self, rondo, pytorch):
        """The speed of rondo relative to PyTorch; for memory, rondo's share of PyTorch's."""
        return pytorch / rondo if self.kind in ("start_up", "all_reduce", "op", "grad") else rondo / pytorch


OPS = ["exp", "tanh", "relu", "silu", "gelu", "pow3", "add", "mul", "sum", "mean_rows", "sum_columns", "softmax",
       "log_softmax", "cross_entropy", "layer_norm", "group_norm", "batch_norm", "matmul", "bmm", "attention",
       "embedding", "cat", "transpose", "max_pool2d", "avg_pool2d", "global_avg_pool2d", "upsample", "sqrt",
       "sigmoid", "erf", "softplus", "div", "maximum", "clamp", "where", "equal", "to_bf16", "dropout", "randn",
       "add_transposed", "add_small", "exp_small", "sum_small", "softmax_small", "layer_norm_small",
       "matmul_small", "add_huge", "exp_huge", "sum_huge", "softmax_huge", "max_rows", "argmax", "var",
       "logsumexp", "cumsum", "sort", "topk", "index_select", "gather", "scatter_add", "pad", "conv2d",
       "conv_1x1", "conv_grouped", "conv_narrow_groups", "conv_depthwise", "conv_dilated", "conv_transpose2d",
       "bilinear", "rotary_embedding", "add_channels", "less", "hardswish", "elu", "prelu", "smooth_l1",
       "bce_with_logits", "flip", "softmax_channels", "prod_rows", "cdist", "both", "to_i64", "to_f32_bf16",
       "batch_norm_channels_last", "conv2d_channels_last", "max_pool2d_channels_last",
       "avg_pool2d_channels_last", "global_avg_pool2d_channels_last", "upsample_channels_last",
       "group_norm_channels_last", "add_channels_channels_last", "pad_channels_last", "add_bf16", "exp_bf16",
       "sum_bf16", "softmax_bf16", "layer_norm_bf16", "cat_bf16", "transpose_bf16", "remainder", "fmod",
       "atan2", "hypot", "logaddexp", "lerp", "addcmul", "erfinv", "log1p", "sin", "rsqrt", "abs", "nan_to_num",
       "threshold", "hardshrink", "softshrink", "hardtanh", "softsign", "mish", "logsigmoid", "glu",
       "masked_fill", "cumprod", "cummax", "logcumsumexp", "cumsum_columns", "std", "norm", "normalize",
       "cosine_similarity", "median", "searchsorted", "bincount", "unique", "one_hot", "nonzero",
       "masked_select", "roll", "softmax_causal", "attention_causal", "tril", "repeat_interleave", "stack",
       "pixel_shuffle", "unfold",
       "instance_norm", "rms_norm", "mse_loss", "l1_loss", "any", "outer", "einsum"]
FORWARD_ONLY = ["equal", "argmax", "randn", "less", "to_i64", "both", "searchsorted", "bincount", "unique", "one_hot", "nonzero",
                "any"]

ROWS = [
    Row("train", "resnet20", "f32", 128, 1.5),
    Row("train", "resnet20", "bf16", 128, 1.5),
    Row("train", "resnet18", "f32", 128, 1.9),
    Row("train", "resnet18", "bf16", 128, 1.5),
    Row("train", "resnet50", "f32", 16, 1.4),
    Row("train", "resnet50", "bf16", 16, 1.3),
    Row("train", "mlp", "f32", 64, 1.5),
    Row("train", "mlp", "f32", 1024, 1.15),
    Row("train", "mlp", "bf16", 64, 1.5),
    Row("train", "mlp", "bf16", 1024, 1.15),
    *(Row("train", f"lm{length}", dtype, 2048 // length, goal)
      for length, goal in ((128, 1.5), (512, 1.5), (2048, 2)) for dtype in ("f32", "bf16")),
    Row("train", "lstm64", "f32", 8, 1.3),
    Row("train", "lstm64", "f32", 32, 1.3),
    Row("infer", "mlp", "f32", 1, 1.5),
    Row("infer", "resnet20", "f32", 1, 1.5),
    Row("infer", "resnet18", "f32", 1, 1.5),
    Row("infer", "mlp", "f32", 64),
    Row("infer", "resnet20", "f32", 64),
    Row("infer", "resnet18", "f32", 64),
    Row("load", goal=10),
    Row("all_reduce", bytes=1 << 20),
    Row("all_reduce", bytes=16 << 20),
    Row("start_up", "resnet20", "f32", 128, 10),
    Row("memory", "resnet18", "f32", 128, 0.7),
    *(Row(kind, op, goal=1.0) for op in OPS for kind in ("op", "grad") if kind == "op" or op not in FORWARD_ONLY),
]


def chosen(patterns):
    """Returns the rows whose name begins with one of the comma-separated patterns: train, infer:resnet*:f32:1, …"""
    wanted = patterns.split(",")
    for pattern in wanted:
        if not any(matches(row, pattern) for row in ROWS):
            raise SystemExit(f"compare.sh: --rows {pattern}: there are {', '.join(row.name for row in ROWS)}")
    return [row for row in ROWS if any(matches(row, pattern) for pattern in wanted)]


def matches(row, pattern):
    return fnmatch.fnmatchcase(row.name, f"{pattern}*")
