"""Goldens for autograd/autocast.cpp: python3 tests/golden/make_autocast.py (needs torch).

cpu     for each op: its name and the dtype of its result under torch.autocast("cpu", bfloat16), for f32 operands
        and for bf16 operands
cuda    the same for a GPU, from the lists in PyTorch's autocast_mode.h
"""

import pathlib
import re
import warnings

import torch
import torch.nn.functional as F

import golden

warnings.filterwarnings("ignore")
names = golden.NAMES
index = torch.tensor([[0, 1, 2], [2, 1, 0]])
target = torch.tensor([0, 1])
image, pair = (2, 4, 4, 4), [(2, 3), (2, 3)]

# rondo's name: (PyTorch's name in the lists, the function, shapes of its operands)
ops = {
    "conv2d": ("conv2d", F.conv2d, [image, (3, 4, 2, 2)]),
    "conv1d": ("conv1d", F.conv1d, [(2, 4, 4), (3, 4, 2)]),
    "conv_transpose2d": ("conv_transpose2d", F.conv_transpose2d, [image, (4, 3, 2, 2)]),
    "conv_transpose1d": ("conv_transpose1d", F.conv_transpose1d, [(2, 4, 4), (4, 3, 2)]),
    "conv3d": ("conv3d", F.conv3d, [(2, 4, 4, 4, 4), (3, 4, 2, 2, 2)]),
    "conv_transpose3d": ("conv_transpose3d", F.conv_transpose3d, [(2, 4, 4, 4, 4), (4, 3, 2, 2, 2)]),
    "scaled_dot_product_attention": (
        "scaled_dot_product_attention",
        F.scaled_dot_product_attention,
        [(2, 3, 4), (2, 5, 4), (2, 5, 4)],
    ),
    "linear": ("linear", F.linear, [(2, 3), (4, 3)]),
    "matmul": ("matmul", torch.matmul, [(2, 3), (3, 2)]),
    "bmm": ("bmm", torch.bmm, [(2, 2, 3), (2, 3, 2)]),
    "prod": ("prod", torch.prod, [(2, 3)]),
    "nll_loss": ("nll_loss", lambda x: F.nll_loss(x, target), [(2, 3)]),
    "cross_entropy": ("nll_loss", lambda x: F.cross_entropy(x, target), [(2, 3)]),
    "mse_loss": ("mse_loss", F.mse_loss, pair),
    "l1_loss": ("l1_loss", F.l1_loss, pair),
    "smooth_l1_loss": ("smooth_l1_loss", F.smooth_l1_loss, pair),
    "bce_with_logits": ("binary_cross_entropy_with_logits", F.binary_cross_entropy_with_logits, pair),
    "kl_div": ("kl_div", F.kl_div, pair),
    "huber_loss": ("huber_loss", F.huber_loss, pair),
    "poisson_nll_loss": ("poisson_nll_loss", F.poisson_nll_loss, pair),
    "hinge_embedding_loss": ("hinge_embedding_loss", lambda x: F.hinge_embedding_loss(x, torch.ones_like(x)), [(2, 3)]),
    "soft_margin_loss": ("soft_margin_loss", F.soft_margin_loss, pair),
    "triplet_margin_loss": ("triplet_margin_loss", F.triplet_margin_loss, [(2, 3), (2, 3), (2, 3)]),
    "multi_margin_loss": ("multi_margin_loss", lambda x: F.multi_margin_loss(x, target), [(2, 3)]),
    "pow": ("pow", lambda x: torch.pow(x, 2.0), [(2, 3)]),
    "pow_tensor": ("pow", torch.pow, pair),
    "softplus": ("softplus", F.softplus, [(2, 3)]),
    "softmax": ("softmax", lambda x: F.softmax(x, 1), [(2, 3)]),
    "log_softmax": ("log_softmax", lambda x: F.log_softmax(x, 1), [(2, 3)]),
    "layer_norm": ("layer_norm", lambda x: F.layer_norm(x, (3,), torch.ones(3), torch.zeros(3)), [(2, 3)]),
    "group_norm": ("group_norm", lambda x: F.group_norm(x, 2, torch.ones(4), torch.zeros(4)), [image]),
    "batch_norm": (
        "batch_norm",
        lambda x: F.batch_norm(x, torch.zeros(4), torch.ones(4), torch.ones(4), torch.zeros(4), True),
        [image],
    ),
    "sum": ("sum", torch.sum, [(2, 3)]),
    "mean": ("mean", torch.mean, [(2, 3)]),
    "var": ("var", torch.var, [(2, 3)]),
    "std": ("std", torch.std, [(2, 3)]),
    "norm": ("norm", torch.linalg.vector_norm, [(2, 3)]),
    "vector_norm": ("linalg_vector_norm", lambda x: torch.linalg.vector_norm(x, 3), [(2, 3)]),
    "logsumexp": ("logsumexp", lambda x: torch.logsumexp(x, 1), [(2, 3)]),
    "cumsum": ("cumsum", lambda x: torch.cumsum(x, 1), [(2, 3)]),
    "scatter_add": ("scatter_add", lambda x, y: torch.scatter_add(x, 1, index, y), pair),
    "max_pool2d": ("max_pool2d", lambda x: F.max_pool2d(x, 2), [image]),
    "avg_pool2d": ("avg_pool2d", lambda x: F.avg_pool2d(x, 2), [image]),
    "adaptive_avg_pool2d": ("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, 1), [image]),
    "upsample_nearest2d": ("upsample_nearest2d", lambda x: F.interpolate(x, scale_factor=2), [image]),
    "add": ("add", torch.add, pair),
    "mul": ("mul", torch.mul, pair),
    "div": ("div", torch.div, pair),
    "atan2": ("atan2", torch.atan2, pair),
    "leaky_relu": ("leaky_relu", F.leaky_relu, [(2, 3)]),
    "gelu": ("gelu", F.gelu, [(2, 3)]),
    "silu": ("silu", F.silu, [(2, 3)]),
    "elu": ("elu", F.elu, [(2, 3)]),
    "mish": ("mish", F.mish, [(2, 3)]),
    "logsigmoid": ("log_sigmoid", F.logsigmoid, [(2, 3)]),
    "hardswish": ("hardswish", F.hardswish, [(2, 3)]),
    "rms_norm": ("rms_norm", lambda x: F.rms_norm(x, (3,)), [(2, 3)]),
    "instance_norm": ("instance_norm", F.instance_norm, [image]),
}
for name in """acos asin asinh atan atanh cos cosh digamma erf erfc erfinv exp exp2 expm1 lgamma log log10 log1p log2 reciprocal rsqrt relu sigmoid sin sinh sqrt square tan
               tanh""".split():
    ops[name] = (name, getattr(torch, name), [(2, 3)])

header = pathlib.Path(torch.__file__).parent / "include/ATen/autocast_mode.h"


def listed(macro):
    """The ops that a macro of the header lists."""
    body = header.read_text().split(f"#define {macro}(_)")[1]
    body = re.match(r"(?:[^\n]*\\\n)*[^\n]*", body).group()
    return set(re.findall(r"_\((?:ADD_NS\()?(\w+)", body))


lower = listed("AT_FORALL_LOWER_PRECISION_FP")
widened = set.union(*map(listed, ["AT_FORALL_FP32", "AT_FORALL_FP32_SET_OPT_DTYPE"]))
widened |= listed("AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE")
assert "linear" in lower and "softmax" in widened and "norm" in widened

texts = {"cpu": [], "cuda": []}
for name, (listed_as, run, shapes) in ops.items():
    got, wanted = [], []
    for dtype in (torch.float32, torch.bfloat16):
        with torch.autocast("cpu", torch.bfloat16):
            got.append(names[run(*[(torch.rand(*s) / 2 + 0.2).to(dtype) for s in shapes]).dtype])
        on_gpu = torch.bfloat16 if listed_as in lower else torch.float32 if listed_as in widened else dtype
        wanted.append(names[on_gpu])
    texts["cpu"].append(" ".join([name, *got]))
    texts["cuda"].append(" ".join([name, *wanted]))
golden.write_texts("autocast.txt", {device: "\n".join(lines) for device, lines in texts.items()})
