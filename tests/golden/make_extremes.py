"""Goldens for ops at extreme values: python3 tests/golden/make_extremes.py (needs torch).

A case is NAME.in0 …, the inputs in f32 or i64; NAME.out, the output of the op; NAME.grad0 …, the gradients of
sum(out) for the inputs that are floats; and NAME.out64, NAME.grad64_0 …, the same computed in f64 and rounded to f32.
If the two differ, f32 has overflowed, underflowed or lost digits in an intermediate result: either is accepted.
"""

import torch
import torch.nn.functional as F

import golden

torch.set_num_threads(1)
out = {}
nan, inf = float("nan"), float("inf")
largest, smallest = 3.4028234663852886e38, 1.1754943508222875e-38
UNARY = [inf, -inf, nan, largest, -largest, smallest, -smallest, 0.0, -0.0, 1.0, -1.0, 0.5, 88.75, -88.75, 1e30, -1e-30]
BINARY = [inf, -inf, nan, 0.0, -0.0, 1.0, -2.5, largest, -largest, smallest]
ROWS = [[1.0, nan, 3.0], [inf, 1.0, -inf], [inf, inf, 2.0], [-inf, -inf, -inf], [1e30, -1e30, 0.0],
        [1e-30, -1e-30, 0.0], [1e-25, -1e-25, 0.0], [largest, -largest, largest], [0.0, 0.0, 0.0], [-0.0, 1.0, 1.0],
        [1e6, 1e6, 1e6], [2.0, 2.0, -2.0]]


def run(f, inputs, dtype):
    inputs = [x.to(dtype).requires_grad_() for x in inputs]
    y = f(*inputs)
    grads = torch.autograd.grad(y, inputs, torch.ones_like(y), allow_unused=True) if y.requires_grad else [None] * len(inputs)
    return y, [torch.zeros_like(x) if g is None else g for x, g in zip(inputs, grads)]


def case(name, f, *inputs):
    inputs = [torch.tensor(x, dtype=torch.float32) for x in inputs]
    for i, x in enumerate(inputs):
        out[f"{name}.in{i}"] = x
    for dtype, suffix in ((torch.float32, ""), (torch.float64, "64_")):
        y, grads = run(f, inputs, dtype)
        out[f"{name}.out{suffix.rstrip('_')}"] = y.detach().float() if y.is_floating_point() else y
        for i, g in enumerate(grads):
            out[f"{name}.grad{suffix}{i}"] = g.float()


def integers(name, f, *inputs):
    inputs = [torch.tensor(x) for x in inputs]
    for i, x in enumerate(inputs):
        out[f"{name}.in{i}"] = x
    out[f"{name}.out"] = f(*inputs)


for name in ["neg", "abs", "sign", "exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "reciprocal", "square", "sin", "cos",
             "tan", "exp2", "log2", "log10", "asinh", "acosh", "atanh", "erfc", "sinh", "cosh", "asin", "acos", "atan", "erf", "erfinv", "lgamma", "frac", "floor", "ceil", "round", "trunc", "relu", "sigmoid",
             "tanh"]:
    case(name, getattr(torch, name), UNARY)
case("clamp", lambda x: x.clamp(-2, 3), UNARY)
case("leaky_relu", F.leaky_relu, UNARY)
case("silu", F.silu, UNARY)
case("gelu", F.gelu, UNARY)
case("gelu.tanh", lambda x: F.gelu(x, approximate="tanh"), UNARY)
case("softplus", F.softplus, UNARY)
case("pow.3", lambda x: x.pow(3), UNARY)
case("pow.quarter", lambda x: x.pow(0.25), UNARY)  # 0.5 is sqrt in PyTorch

# Gradients exactly at a bound, and next to it.
AT = [-2.0, 3.0, 0.0, 6.0, 2.0, -3.0, 0.25, 0.75, nan, inf, -inf, 2.9999998, -1.9999999, smallest, 1.0]
bounds = lambda *v: [torch.full((len(AT),), b, dtype=torch.float64) for b in v]
for name, f in {
        "clamp": lambda x: x.clamp(-2, 3), "clamp.crossed": lambda x: x.clamp(3, -2), "clamp.nan": lambda x: x.clamp(nan, 3),
        "clamp.zero": lambda x: x.clamp(0, 6), "clamp_min": lambda x: x.clamp_min(-2), "clamp_max": lambda x: x.clamp_max(3),
        "clamp.tensors": lambda x: x.clamp(*(b.to(x.dtype) for b in bounds(-2, 3))),
        "hardtanh": lambda x: F.hardtanh(x, -2, 3), "relu6": F.relu6, "hardsigmoid": F.hardsigmoid,
        "threshold": lambda x: F.threshold(x, 2, 9), "hardshrink": lambda x: F.hardshrink(x, 2),
        "softshrink": lambda x: F.softshrink(x, 2), "elu": F.elu, "logit": lambda x: torch.logit(x, 0.25),
        "margin_ranking_loss": lambda x: F.margin_ranking_loss(
            x, torch.zeros_like(x), torch.ones_like(x), margin=2.0, reduction="none"),
        "hinge_embedding_loss": lambda x: F.hinge_embedding_loss(x, -torch.ones_like(x), margin=2.0, reduction="none"),
        "multi_margin_loss": lambda x: F.multi_margin_loss(
            torch.stack([x, torch.ones_like(x)], 1), torch.zeros(len(x), dtype=torch.long), reduction="none"),
        "multilabel_margin_loss": lambda x: F.multilabel_margin_loss(
            torch.stack([x, torch.ones_like(x)], 1), torch.tensor([[0, -1]]).expand(len(x), 2), reduction="none")}.items():
    # Margins ignore NaN in PyTorch, and the gradient of logit is NaN; not in rondo.
    case(f"bound.{name}", f, [v for v in AT if v == v or "clamp" in name or name in ("hardtanh", "hardsigmoid")])

left = [a for a in BINARY for _ in BINARY]
right = [b for _ in BINARY for b in BINARY]
for name in ["add", "sub", "mul", "div", "pow", "maximum", "minimum", "atan2", "remainder", "fmod", "eq", "lt"]:
    case(name, getattr(torch, name), left, right)
case("floor_divide", lambda a, b: torch.floor_divide(a.detach(), b.detach()), left, right)
case("where", lambda a, b: torch.where(a > 0, a, b), left, right)
case("mse_loss", lambda x, y: F.mse_loss(x, y, reduction="none"), left, right)
case("l1_loss", lambda x, y: F.l1_loss(x, y, reduction="none"), left, right)
case("smooth_l1_loss", lambda x, y: F.smooth_l1_loss(x, y, reduction="none", beta=2.0), left, right)

for name, f in {
        "sum": lambda x: x.sum(1), "mean": lambda x: x.mean(1), "var": lambda x: x.var(1), "std": lambda x: x.std(1),
        "norm": lambda x: x.norm(dim=1), "norm.1": lambda x: torch.linalg.vector_norm(x, 1, 1),
        "norm.3": lambda x: torch.linalg.vector_norm(x, 3, 1),
        "norm.half": lambda x: torch.linalg.vector_norm(x, 0.5, 1),
        "norm.inf": lambda x: torch.linalg.vector_norm(x, inf, 1), "logsumexp": lambda x: x.logsumexp(1),
        "cumsum": lambda x: x.cumsum(1), "max": lambda x: x.max(1).values, "min": lambda x: x.min(1).values,
        "sort": lambda x: x.sort(1).values, "topk": lambda x: x.topk(2, 1).values,
        "softmax": lambda x: x.softmax(1), "log_softmax": lambda x: x.log_softmax(1),
        "max.all": lambda x: torch.stack([r.max() for r in x]), "min.all": lambda x: torch.stack([r.min() for r in x]),
        # By the product rule, while PyTorch's prod divides.
        "prod": lambda x: x[:, 0] * x[:, 1] * x[:, 2]}.items():
    # If the result overflows, PyTorch's gradient of the third norm is NaN.
    case(name, f, [r for r in ROWS if name != "norm.3" or largest not in r])

wide = [2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 0, 1, -1, 2**24 + 1]
integers("integers.clamp", lambda x: x.clamp(-(2**53) - 1, 2**53 + 1), wide)
integers("integers.sum", lambda x: x.sum(0), wide)
integers("integers.max", lambda x: x.max(), wide)
integers("integers.min", lambda x: x.min(), wide)
integers("integers.sort", lambda x: x.sort().values, wide)
integers("integers.cumsum", lambda x: x.cumsum(0), wide)
integers("integers.sign", torch.sign, wide)
integers("integers.square", torch.square, wide)
a = [x for x in wide for _ in wide]
b = [y for _ in wide for y in wide]
for name in ["add", "sub", "mul", "maximum", "minimum", "eq", "lt"]:
    integers(f"integers.{name}", getattr(torch, name), a, b)
pairs = [(x, y) for x, y in zip(a, b) if y not in (0, -1)]
integers("integers.floor_divide", torch.floor_divide, [x for x, _ in pairs], [y for _, y in pairs])
integers("integers.remainder", torch.remainder, [x for x, _ in pairs], [y for _, y in pairs])

golden.write("extremes.txt", out)

# Normalisations and losses in f32, f16 and bf16: DTYPE.NAME.…, as above, of the inputs DTYPE.rows.in0 or DTYPE.pairs.in0
# and DTYPE.pairs.in1. A row without a value in f64 has the result in DTYPE.
out = {}
LAYERS = {
    "layer_norm": lambda x: F.layer_norm(x, [3]),
    "group_norm": lambda x: F.group_norm(x.unsqueeze(2), 1).squeeze(2),
    "instance_norm": lambda x: F.instance_norm(x.unsqueeze(1)).squeeze(1),
    "batch_norm": lambda x: F.batch_norm(x.t(), None, None, training=True).t(),
    "rms_norm": lambda x: F.rms_norm(x, [3]),
    "local_response_norm": lambda x: F.local_response_norm(x.unsqueeze(2), 3).squeeze(2),
    "normalize": lambda x: F.normalize(x, dim=1),
    "softmax": lambda x: x.softmax(1),
    "log_softmax": lambda x: x.log_softmax(1),
}
LOSSES = {
    "mse_loss": F.mse_loss,
    "l1_loss": F.l1_loss,
    "smooth_l1_loss": F.smooth_l1_loss,
    "huber_loss": lambda x, y, **k: F.huber_loss(x, y, delta=2.0, **k),
    # Of the targets 0 and 1; PyTorch's is NaN for infinite logits.
    "bce_with_logits": lambda x, y, **k: F.softplus(torch.where(y > 0, -x, x)),
    "kl_div": lambda x, y, **k: F.kl_div(x, y.detach().abs().clamp(max=1), **k),
    "kl_div.log": lambda x, y, **k: F.kl_div(x, y, log_target=True, **k),
    "poisson_nll_loss": F.poisson_nll_loss,
    "soft_margin_loss": lambda x, y, **k: F.softplus(-(x * y.detach())),  # PyTorch's overflows
    "hinge_embedding_loss": lambda x, y, **k: F.hinge_embedding_loss(x, y.detach().sign(), **k),
    "margin_ranking_loss": lambda x, y, **k: F.margin_ranking_loss(x, y, torch.ones_like(x), margin=1.0, **k),
    "gaussian_nll_loss": lambda x, y, **k: F.gaussian_nll_loss(x, y, torch.ones_like(x), **k),
    "cross_entropy": lambda x, y, **k: F.cross_entropy(torch.stack([x, y], 1), torch.zeros(len(x), dtype=torch.long), **k),
}


def layer(name, f, dtype, inputs):
    try:
        y, grads = run(f, inputs, dtype)
    except RuntimeError:  # PyTorch's CPU kernels lack it
        y = None
    y64, grads64 = run(f, inputs, torch.float64)
    y64, grads64 = y64.to(dtype), [g.to(dtype) for g in grads64]
    if y is None:
        y, grads = y64, grads64
    for key, a, b in [("out", y, y64)] + [(f"grad{i}", g, h) for i, (g, h) in enumerate(zip(grads, grads64))]:
        out[f"{name}.{key}"] = a
        if not torch.equal(a.nan_to_num(12345.0), b.nan_to_num(12345.0)):
            out[f"{name}.{key.replace('out', 'out64').replace('grad', 'grad64_')}"] = b


weights = [1.0, -2.0, 0.5]
for dtype in (torch.float32, torch.float16, torch.bfloat16):
    prefix = golden.NAMES[dtype]
    large, small = torch.finfo(dtype).max, torch.finfo(dtype).smallest_normal
    wide = min(large, 1e18)  # in f32, the square of a larger number overflows
    rows = [[1.0, nan, 3.0], [inf, 1.0, -inf], [inf, inf, 2.0], [-inf, -inf, -inf], [wide, -wide, wide],
            [wide, wide, 0.0], [wide / 2, 0.0, 1.0], [small, -small, 0.0], [small, 0.0, 0.0], [0.0, 0.0, 0.0],
            [1e4, 1e4, 1e4], [300.0, -300.0, 0.5], [1e-3, -1e-3, 0.0], [2.0, 2.0, -2.0]]
    x = out[f"{prefix}.rows.in0"] = torch.tensor(rows, dtype=dtype)
    for name, f in LAYERS.items():
        layer(f"{prefix}.{name}", lambda x: f(x) * torch.tensor(weights, dtype=x.dtype), dtype, [x])
    values = torch.tensor([inf, -inf, nan, 0.0, -2.5, large, -large, small], dtype=dtype)
    a = out[f"{prefix}.pairs.in0"] = values.repeat_interleave(len(values))
    b = out[f"{prefix}.pairs.in1"] = values.repeat(len(values))
    for name, f in LOSSES.items():
        layer(f"{prefix}.{name}", lambda x, y: f(x, y, reduction="none"), dtype, [a, b])

# DTYPE.huge.NAME.…: the normalisations of numbers whose squares overflow or underflow f32, computed in f64. In f32
# PyTorch's results are 0 or NaN, except those of batch_norm for some strides.
HUGE = [[1e30, -1e30, 0.0], [1e20, 1e20, 0.0], [1e19, -3e19, 2e19], [1e36, -2e36, 1e36], [1e-25, -1e-25, 0.0]]
for dtype in (torch.float32, torch.bfloat16):
    prefix = golden.NAMES[dtype] + ".huge"
    x = out[f"{prefix}.in0"] = torch.tensor(HUGE, dtype=dtype)
    running = torch.zeros(len(HUGE), dtype=torch.float64), torch.ones(len(HUGE), dtype=torch.float64)
    F.batch_norm(x.double().t(), *running, training=True)
    out[f"{prefix}.running_mean"], out[f"{prefix}.running_var"] = (v.float() for v in running)
    for name in ["layer_norm", "group_norm", "instance_norm", "batch_norm", "rms_norm"]:
        eps = {"eps": torch.finfo(torch.float32).eps} if name == "rms_norm" else {}  # that of f32
        f = (lambda x: F.rms_norm(x, [3], **eps)) if eps else LAYERS[name]
        y, (g,) = run(lambda x: f(x) * torch.tensor(weights, dtype=x.dtype), [x], torch.float64)
        out[f"{prefix}.{name}.out"], out[f"{prefix}.{name}.grad0"] = y.to(dtype), g.to(dtype)

golden.write("extreme_layers.txt", out)
