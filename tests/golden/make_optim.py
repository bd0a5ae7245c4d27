"""Goldens for optim/: python3 tests/golden/make_optim.py (needs torch).

Gradients and initial parameters are not stored: both sides compute them exactly from one integer hash,
so only PyTorch's results are stored (tests/support/hashed.h is the other side).
"""

import torch
from torch.optim import SGD, Adam, AdamW
from torch.optim import lr_scheduler as S

import golden

STEPS = 200
KEPT = (1, 2, 10, 50, 200)
SHAPES = ((7,), (3, 5), ())
MASK = 0xFFFFFFFF


def hashed(stream, step, i):
    """A number in [-1, 1), a multiple of 2^-23."""
    x = (stream * 0x9E3779B1 ^ step * 0x85EBCA6B ^ i * 0xC2B2AE35) & MASK
    for multiplier, shift in ((0x7FEB352D, 16), (0x846CA68B, 15)):
        x = ((x ^ x >> shift) * multiplier) & MASK
    x ^= x >> 16
    return (x >> 8) * 2.0**-23 - 1


def tensor(stream, step, shape, dtype):
    n = torch.Size(shape).numel()
    return torch.tensor([hashed(stream, step, i) for i in range(n)], dtype=dtype).reshape(shape)


def parameters(dtype=torch.float32):
    return [torch.nn.Parameter(tensor(k, 0, shape, dtype)) for k, shape in enumerate(SHAPES)]


def set_gradients(params, step):
    for k, p in enumerate(params):
        skipped = k == 1 and step % 7 == 3  # a parameter that this step did not use
        p.grad = None if skipped else tensor(k, step, p.shape, p.dtype) * 0.5**k


out = {}


def trajectory(name, optimizer, params, schedule=None):
    for step in range(1, STEPS + 1):
        set_gradients(params, step)
        optimizer.step()
        if schedule:
            schedule.step()
        if step in KEPT:
            flat = torch.cat([p.detach().reshape(-1) for p in params])
            out[f"{name}.{step}"] = flat.clone()


def optimizers():
    rows = {
        "sgd": (SGD, dict(lr=0.1)),
        "sgd.decay": (SGD, dict(lr=0.1, weight_decay=0.05)),
        "sgd.momentum": (SGD, dict(lr=0.1, momentum=0.9)),
        "sgd.dampening": (SGD, dict(lr=0.1, momentum=0.9, dampening=0.3)),
        "sgd.nesterov": (SGD, dict(lr=0.1, momentum=0.9, nesterov=True)),
        "sgd.nesterov.decay": (SGD, dict(lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4)),
        "sgd.maximize": (SGD, dict(lr=0.1, momentum=0.9, weight_decay=0.01, maximize=True)),
        "sgd.dampening.decay": (SGD, dict(lr=0.1, momentum=0.8, dampening=0.5, weight_decay=0.01)),
        "adam": (Adam, dict()),
        "adam.fast": (Adam, dict(lr=0.01, betas=(0.8, 0.95), eps=1e-4)),
        "adam.decay": (Adam, dict(lr=0.01, weight_decay=0.1)),
        "adam.amsgrad": (Adam, dict(lr=0.01, amsgrad=True, betas=(0.9, 0.9))),
        "adam.maximize": (Adam, dict(lr=0.01, maximize=True, weight_decay=0.01)),
        "adamw": (AdamW, dict()),
        "adamw.decay": (AdamW, dict(lr=0.01, weight_decay=0.3)),
        "adamw.amsgrad": (AdamW, dict(lr=0.01, amsgrad=True, betas=(0.9, 0.9))),
        "adamw.maximize": (AdamW, dict(lr=0.01, maximize=True)),
    }
    for name, (kind, options) in rows.items():
        params = parameters()
        trajectory(name, kind(params, **options), params)
    for name in ("sgd.nesterov.decay", "adamw.decay"):
        kind, options = rows[name]
        params = parameters(torch.float64)
        trajectory(name + ".f64", kind(params, **options), params)
    params = parameters()
    groups = [dict(params=params[:1], lr=0.2), dict(params=params[1:], momentum=0.5)]
    trajectory("sgd.groups", SGD(groups, lr=0.1, momentum=0.9), params)
    params = parameters()
    groups = [dict(params=params[:1], lr=0.02), dict(params=params[1:], weight_decay=0.2)]
    trajectory("adamw.groups", AdamW(groups, lr=0.01), params)


def one_cycle(optimizer, **options):
    return S.OneCycleLR(optimizer, total_steps=STEPS, **options)


def schedules():
    rows = {
        "step": lambda o: S.StepLR(o, 30),
        "step.gamma": lambda o: S.StepLR(o, 7, gamma=0.9),
        "multistep": lambda o: S.MultiStepLR(o, [20, 50, 50, 120]),
        "exponential": lambda o: S.ExponentialLR(o, 0.98),
        "linear": lambda o: S.LinearLR(o),
        "linear.long": lambda o: S.LinearLR(o, start_factor=0.01, end_factor=0.7, total_iters=90),
        "cosine": lambda o: S.CosineAnnealingLR(o, 200),
        "cosine.again": lambda o: S.CosineAnnealingLR(o, 30, eta_min=0.01),
        "lambda": lambda o: S.LambdaLR(o, lambda step: 1 / (1 + step)),
        "onecycle": lambda o: one_cycle(o, max_lr=0.3),
        "onecycle.linear": lambda o: one_cycle(o, max_lr=0.3, anneal_strategy="linear", pct_start=0.25),
        "onecycle.three": lambda o: one_cycle(o, max_lr=0.3, three_phase=True, final_div_factor=100.0),
        "onecycle.groups": lambda o: one_cycle(o, max_lr=[0.3, 0.1], base_momentum=[0.8, 0.7],
                                               max_momentum=[0.9, 0.95], div_factor=10.0),
        "onecycle.fixed": lambda o: one_cycle(o, max_lr=0.3, cycle_momentum=False, pct_start=0.0),
        "chained": lambda o: S.ChainedScheduler([S.LinearLR(o, total_iters=20), S.ExponentialLR(o, 0.99),
                                                 S.StepLR(o, 50)]),
        "sequential": lambda o: S.SequentialLR(o, [S.LinearLR(o, total_iters=10), S.CosineAnnealingLR(o, 100),
                                                   S.ExponentialLR(o, 0.97)], [10, 110]),
        "sequential.onecycle": lambda o: S.SequentialLR(o, [S.StepLR(o, 10), one_cycle(o, max_lr=0.3)], [25]),
    }
    for name, make in rows.items():
        params = parameters()
        optimizer = SGD([dict(params=params[:1], lr=0.4), dict(params=params[1:])], lr=0.1, momentum=0.9)
        schedule = make(optimizer)
        kept = 2 if "groups" in name else 1  # groups whose values are stored
        lrs, momenta = [], []
        for step in range(STEPS + 1):
            lrs.append([g["lr"] for g in optimizer.param_groups[:kept]])
            momenta.append([g["momentum"] for g in optimizer.param_groups[:kept]])
            optimizer.step()
            if step < STEPS:
                schedule.step()
        out[f"lr.{name}"] = torch.tensor(lrs, dtype=torch.float64).t().contiguous()
        if "onecycle" in name:
            out[f"momentum.{name}"] = torch.tensor(momenta, dtype=torch.float64).t().contiguous()


def together():
    params = parameters()
    optimizer = SGD(params, lr=0.1, nesterov=True, momentum=0.9, weight_decay=5e-4)
    trajectory("sgd.onecycle", optimizer, params, one_cycle(optimizer, max_lr=0.3))
    params = parameters()
    optimizer = AdamW(params, lr=0.1)
    trajectory("adamw.onecycle", optimizer, params, one_cycle(optimizer, max_lr=0.03))


def clipping():
    for name, call in {
        "norm2": lambda p: torch.nn.utils.clip_grad_norm_(p, 0.5),
        "norm2.loose": lambda p: torch.nn.utils.clip_grad_norm_(p, 100.0),
        "norm1": lambda p: torch.nn.utils.clip_grad_norm_(p, 1.5, norm_type=1),
        "norminf": lambda p: torch.nn.utils.clip_grad_norm_(p, 0.25, norm_type=float("inf")),
        "value": lambda p: torch.nn.utils.clip_grad_value_(p, 0.125),
    }.items():
        params = parameters()
        set_gradients(params, 1)
        norm = call(params)
        if norm is not None:
            out[f"clip.{name}"] = norm
        out[f"clipped.{name}"] = torch.cat([p.grad.reshape(-1) for p in params])


optimizers()
schedules()
together()
clipping()
golden.write("optim.txt", out)
