"""Goldens for optim/: python3 tests/golden/make_optim.py (needs torch).

Gradients and initial parameters are not stored: both sides compute them exactly from one integer hash,
so only PyTorch's results are stored (tests/support/hashed.h is the other side).
"""

import numpy as np
import torch
from torch.optim import SGD, Adadelta, Adagrad, Adam, Adamax, AdamW, LBFGS, Muon, NAdam, RAdam, RMSprop
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


def composed_optimizers():
    betas = (0.8, 0.95)
    rows = {
        "rmsprop": (RMSprop, dict()),
        "rmsprop.momentum": (RMSprop, dict(lr=0.003, alpha=0.9, eps=1e-4, momentum=0.8, weight_decay=0.1)),
        "rmsprop.centered": (RMSprop, dict(lr=0.003, alpha=0.9, centered=True, momentum=0.5, maximize=True)),
        "adagrad": (Adagrad, dict()),
        "adagrad.decay": (Adagrad, dict(lr=0.05, lr_decay=0.01, weight_decay=0.1,
                                        initial_accumulator_value=0.3, eps=1e-6, maximize=True)),
        "adadelta": (Adadelta, dict()),
        "adadelta.decay": (Adadelta, dict(lr=0.5, rho=0.8, eps=1e-4, weight_decay=0.1, maximize=True)),
        "nadam": (NAdam, dict()),
        "nadam.decay": (NAdam, dict(lr=0.01, betas=betas, eps=1e-4, weight_decay=0.1, momentum_decay=0.02)),
        "nadam.decoupled": (NAdam, dict(lr=0.01, weight_decay=0.3, decoupled_weight_decay=True, maximize=True)),
        "radam": (RAdam, dict()),
        "radam.decay": (RAdam, dict(lr=0.01, betas=betas, eps=1e-4, weight_decay=0.1)),
        "radam.decoupled": (RAdam, dict(lr=0.01, weight_decay=0.3, decoupled_weight_decay=True, maximize=True)),
        "adamax": (Adamax, dict()),
        "adamax.decay": (Adamax, dict(lr=0.01, betas=betas, eps=1e-4, weight_decay=0.1, maximize=True)),
        "lion": (Lion, dict()),
        "lion.decay": (Lion, dict(lr=0.003, betas=betas, weight_decay=0.3, maximize=True)),
        "lars": (LARS, dict(lr=0.1)),
        "lars.decay": (LARS, dict(lr=0.3, momentum=0.8, weight_decay=0.1, trust_coefficient=0.02, maximize=True)),
        "lamb": (LAMB, dict()),
        "lamb.decay": (LAMB, dict(lr=0.01, betas=betas, eps=1e-4, weight_decay=0.1, maximize=True)),
    }
    for name, (kind, options) in rows.items():
        precisions = (torch.float32, torch.float64) if len(options) > 1 else (torch.float32,)
        for dtype in precisions:
            params = parameters(dtype)
            optimizer = kind(params, **options)
            # With options, also under a schedule.
            schedule = S.StepLR(optimizer, 40, gamma=0.5) if len(options) > 1 else None
            trajectory(name + ("" if dtype == torch.float32 else ".f64"), optimizer, params, schedule)


class ClosedForm(torch.optim.Optimizer):
    """The formula of a paper in NumPy: update(p, g, state, **options) returns the new p."""

    def __init__(self, params, **options):
        super().__init__(params, {**self.defaults_of_kind, **options})

    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                state["t"] = state.get("t", 0) + 1
                for name in ("m", "v"):
                    state.setdefault(name, np.zeros(p.shape, p.detach().numpy().dtype))
                g = -p.grad.numpy() if group["maximize"] else p.grad.numpy()
                p.data = torch.as_tensor(self.update(p.detach().numpy(), g, state, group), dtype=p.dtype)


class Lion(ClosedForm):
    """Chen et al. 2023, algorithm 2."""

    defaults_of_kind = dict(lr=1e-4, betas=(0.9, 0.99), weight_decay=0, maximize=False)

    def update(self, p, g, state, o):
        c = o["betas"][0] * state["m"] + (1 - o["betas"][0]) * g
        state["m"] = o["betas"][1] * state["m"] + (1 - o["betas"][1]) * g
        return p - o["lr"] * (np.sign(c) + o["weight_decay"] * p)


class LARS(ClosedForm):
    """You et al. 2017, algorithm 1, with a constant rate."""

    defaults_of_kind = dict(lr=1e-3, momentum=0.9, weight_decay=0, trust_coefficient=1e-3, maximize=False)

    def update(self, p, g, state, o):
        size, slope = np.sqrt((p**2).sum()), np.sqrt((g**2).sum())
        rate = o["lr"] * o["trust_coefficient"] * size / (slope + o["weight_decay"] * size)
        state["m"] = o["momentum"] * state["m"] + rate * (g + o["weight_decay"] * p)
        return p - state["m"]


class LAMB(ClosedForm):
    """You et al. 2020, algorithm 2, with the identity for phi."""

    defaults_of_kind = dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0, maximize=False)

    def update(self, p, g, state, o):
        b1, b2 = o["betas"]
        state["m"] = b1 * state["m"] + (1 - b1) * g
        state["v"] = b2 * state["v"] + (1 - b2) * g**2
        m, v = state["m"] / (1 - b1 ** state["t"]), state["v"] / (1 - b2 ** state["t"])
        d = m / (np.sqrt(v) + o["eps"]) + o["weight_decay"] * p
        return p - o["lr"] * np.sqrt((p**2).sum()) / np.sqrt((d**2).sum()) * d


def muon():
    for name, options in {
        "muon": dict(lr=0.02),
        "muon.rms": dict(lr=0.02, weight_decay=0.5, momentum=0.8, nesterov=False,
                         adjust_lr_fn="match_rms_adamw"),
        "muon.spectral": dict(lr=0.02, ns_steps=3, ns_coefficients=(3.0, -3.2, 1.2),
                              adjust_lr_fn="spectral_unclamped"),
    }.items():
        params = [torch.nn.Parameter(tensor(k, 0, shape, torch.float32)) for k, shape in enumerate(((6, 4), (3, 5)))]
        optimizer = Muon(params, **options)
        for step in range(1, 21):
            set_gradients(params, step)
            optimizer.step()
        # As f16, because the bf16 products inside round differently on each processor.
        out[name] = torch.cat([p.detach().reshape(-1) for p in params]).half()


def valley(params):
    """Rosenbrock's function of the first parameter, and simple ones of the others."""
    x = params[0]
    rosenbrock = (25 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()
    return rosenbrock + torch.cosh(params[1] - 0.5).sum() + (params[2] - 1) ** 2


def lbfgs():
    for name, sign, options in (
        ("lbfgs", 1, dict(lr=0.05)),
        ("lbfgs.short", -1, dict(lr=0.1, max_iter=4, history_size=3, tolerance_change=1e-12, maximize=True)),
        ("lbfgs.wolfe", 1, dict(max_iter=5, line_search_fn="strong_wolfe")),
        ("lbfgs.wolfe.evals", -1, dict(max_iter=6, max_eval=5, history_size=2, line_search_fn="strong_wolfe",
                                       maximize=True)),
    ):
        for dtype in (torch.float64, torch.float32):
            params = parameters(dtype)
            optimizer = LBFGS(params, **options)

            def closure():
                optimizer.zero_grad()
                loss = sign * valley(params)
                loss.backward()
                return loss

            losses, values = [], []
            for _ in range(6):
                losses.append(optimizer.step(closure).detach())
                values.append(torch.cat([p.detach().reshape(-1) for p in params]))
            # In f32, rounding errors grow too fast for more steps.
            suffix, steps = ("", 6) if dtype == torch.float64 else (".f32", 2)
            out[name + suffix] = torch.stack(values[:steps])
            out[name + suffix + ".losses"] = torch.stack(losses[:steps])
        state = optimizer.state[params[0]]
        out[name + ".counts"] = torch.tensor([state["func_evals"], state["n_iter"]])


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
        "constant": lambda o: S.ConstantLR(o),
        "constant.long": lambda o: S.ConstantLR(o, factor=0.01, total_iters=90),
        "polynomial": lambda o: S.PolynomialLR(o),
        "polynomial.long": lambda o: S.PolynomialLR(o, total_iters=150, power=2.5),
        "multiplicative": lambda o: S.MultiplicativeLR(o, lambda step: 1 - 1 / (1 + step)),
        "restarts": lambda o: S.CosineAnnealingWarmRestarts(o, 30),
        "restarts.longer": lambda o: S.CosineAnnealingWarmRestarts(o, 9, T_mult=3, eta_min=0.01),
        "sequential.constant": lambda o: S.SequentialLR(o, [
            S.ConstantLR(o, total_iters=10), S.CosineAnnealingWarmRestarts(o, 20, T_mult=2),
            S.PolynomialLR(o, total_iters=40)], [15, 100]),
        "cyclic": lambda o: S.CyclicLR(o, 0.01, 0.3, step_size_up=20),
        "cyclic.triangular2": lambda o: S.CyclicLR(o, 0.01, 0.3, step_size_up=20, step_size_down=7,
                                                   mode="triangular2", cycle_momentum=False),
        "cyclic.exp_range": lambda o: S.CyclicLR(o, 0.01, 0.3, step_size_up=5, step_size_down=31,
                                                 mode="exp_range", gamma=0.99, base_momentum=0.5),
        "cyclic.groups": lambda o: S.CyclicLR(o, [0.01, 0.02], [0.3, 0.1], step_size_up=13, base_momentum=[0.7, 0.8],
                                              max_momentum=[0.9, 0.95]),
        "cyclic.scaled": lambda o: S.CyclicLR(o, 0.01, 0.3, step_size_up=20, scale_fn=lambda x: 1 / (1 + x),
                                              scale_mode="iterations"),
        "sequential.cyclic": lambda o: S.SequentialLR(o, [
            S.StepLR(o, 10), S.CyclicLR(o, 0.01, 0.3, step_size_up=20)], [25]),
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
        if "onecycle" in name or "cyclic" in name:
            out[f"momentum.{name}"] = torch.tensor(momenta, dtype=torch.float64).t().contiguous()


def plateaus():
    """The metric falls, by less and less, with noise."""
    for name, options in {
        "plateau": dict(),
        "plateau.max": dict(mode="max", factor=0.5, patience=3, cooldown=4, threshold=0.01),
        "plateau.abs": dict(factor=0.3, patience=5, threshold=0.05, threshold_mode="abs", min_lr=1e-4),
        "plateau.max.abs": dict(mode="max", factor=0.9, patience=0, threshold_mode="abs", min_lr=[0.1, 0.05]),
        "plateau.eps": dict(factor=0.5, patience=1, eps=0.01),
    }.items():
        params = parameters()
        optimizer = SGD([dict(params=params[:1], lr=0.4), dict(params=params[1:])], lr=0.1)
        schedule = S.ReduceLROnPlateau(optimizer, **options)
        lrs = []
        for step in range(STEPS + 1):
            lrs.append([g["lr"] for g in optimizer.param_groups])
            metric = 10.0 / (1 + step) + 0.2 * hashed(9, step, 0)
            schedule.step(-metric if "max" in name else metric)
        out[f"lr.{name}"] = torch.tensor(lrs, dtype=torch.float64).t().contiguous()
    for longer in (1, 3):
        params = parameters()
        optimizer = SGD(params, lr=0.4)
        schedule = S.CosineAnnealingWarmRestarts(optimizer, 5, T_mult=longer, eta_min=0.01)
        lrs = []
        for step in range(100):
            if step % 10 == 9:
                schedule.step()
            else:
                schedule.step(step * 0.37)
            lrs.append(optimizer.param_groups[0]["lr"])
        out[f"lr.restarts.fractions{longer}"] = torch.tensor(lrs, dtype=torch.float64)


def averages():
    """SWALR, and averages of a net with a batch norm."""
    from torch.optim import swa_utils

    for name, options in {
        "swa": dict(swa_lr=0.05),
        "swa.linear": dict(swa_lr=[0.05, 0.2], anneal_epochs=15, anneal_strategy="linear"),
        "swa.at_once": dict(swa_lr=0.05, anneal_epochs=0),
    }.items():
        params = parameters()
        optimizer = SGD([dict(params=params[:1], lr=0.4), dict(params=params[1:])], lr=0.1)
        before, schedule = S.ExponentialLR(optimizer, 0.9), None
        lrs = []
        for step in range(40):
            lrs.append([g["lr"] for g in optimizer.param_groups])
            if step == 10:
                schedule = swa_utils.SWALR(optimizer, **options)
            (schedule or before).step()
        out[f"lr.{name}"] = torch.tensor(lrs, dtype=torch.float64).t().contiguous()

    for name, options in {
        "average.equal": dict(),
        "average.ema": dict(multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.75)),
        "average.buffers": dict(multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.75), use_buffers=True),
    }.items():
        net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
        average = swa_utils.AveragedModel(net, **options)
        for step in range(5):
            with torch.no_grad():
                for k, p in enumerate(net.parameters()):
                    p.copy_(tensor(k, step, p.shape, p.dtype))
            net(tensor(20, step, (6, 3), torch.float32))  # updates the running statistics
            average.update_parameters(net)
        for key, value in average.state_dict().items():
            out[f"{name}.{key}"] = value.clone()
        swa_utils.update_bn([tensor(21, step, (6, 3), torch.float32) for step in range(3)], average)
        for key in ("running_mean", "running_var", "num_batches_tracked"):
            out[f"{name}.updated.{key}"] = average.state_dict()[f"module.1.{key}"].clone()


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
        "norm3": lambda p: torch.nn.utils.clip_grad_norm_(p, 0.5, norm_type=3),
        "norm0.5": lambda p: torch.nn.utils.clip_grad_norm_(p, 2.0, norm_type=0.5),
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
composed_optimizers()
muon()
lbfgs()
schedules()
plateaus()
averages()
together()
clipping()
golden.write("optim.txt", out)
