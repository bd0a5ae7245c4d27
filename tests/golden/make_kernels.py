"""Goldens for the kernels of tensor/: python3 tests/golden/make_kernels.py (needs torch)."""

import torch
import torch.nn.functional as F

import golden

torch.manual_seed(7)
torch.set_num_threads(1)
out = {}
nan, inf = float("nan"), float("inf")


def reductions():
    x = torch.randn(3, 4, 5, 2)
    out["reduce.x"] = x
    spoiled = x.clone()
    spoiled[1, 2, 3, 1], spoiled[0, 0, 0, 0] = nan, inf
    out["reduce.spoiled"] = spoiled
    integers = torch.randint(-9, 10, (3, 4, 5, 2))
    out["reduce.integers"] = integers
    for dims in ((0,), (1,), (3,), (0, 2), (2, 3), (0, 2, 3), (1, 2, 3), (0, 1, 2, 3)):
        tag = "".join(map(str, dims))
        for name, source in (("x", x), ("spoiled", spoiled)):
            out[f"reduce.{name}.sum.{tag}"] = source.double().sum(dims, keepdim=True)
            out[f"reduce.{name}.sum_squares.{tag}"] = source.double().square().sum(dims, keepdim=True)
            out[f"reduce.{name}.max.{tag}"] = source.amax(dims, keepdim=True)
            out[f"reduce.{name}.min.{tag}"] = source.amin(dims, keepdim=True)
            prod = source.double()
            for d in dims:
                prod = prod.prod(d, keepdim=True)
            out[f"reduce.{name}.prod.{tag}"] = prod
        out[f"reduce.integers.sum.{tag}"] = integers.sum(dims, keepdim=True)
        out[f"reduce.integers.max.{tag}"] = integers.amax(dims, keepdim=True)
        out[f"reduce.integers.all.{tag}"] = integers.all(dims, keepdim=True)
        out[f"reduce.integers.any.{tag}"] = (integers > 8).any(dims, keepdim=True)
    ties = torch.randint(0, 3, (4, 7)).float()
    ties[1, 3], ties[1, 5] = nan, nan
    out["extremum.x"] = ties
    for dim in (0, 1):
        out[f"extremum.argmax.{dim}"] = ties.argmax(dim, keepdim=True)
        out[f"extremum.argmin.{dim}"] = ties.argmin(dim, keepdim=True)
        out[f"extremum.max.{dim}"] = ties.amax(dim, keepdim=True)
        out[f"extremum.min.{dim}"] = ties.amin(dim, keepdim=True)


def lines():
    x = torch.randn(3, 5, 4)
    out["line.x"] = x
    for dim in (0, 1, 2):
        out[f"cumsum.{dim}"] = x.double().cumsum(dim)
        out[f"cumsum.reverse.{dim}"] = x.double().flip(dim).cumsum(dim).flip(dim)
        out[f"softmax.{dim}"] = x.double().softmax(dim)
        out[f"log_softmax.{dim}"] = x.double().log_softmax(dim)
    odd = torch.tensor([[1e4, 0, -1e4], [nan, 1, 2], [inf, 1, 2], [-inf, 1, 2], [-inf, -inf, -inf]])
    out["softmax.odd.x"] = odd
    out["softmax.odd"] = odd.softmax(1)
    out["log_softmax.odd"] = odd.log_softmax(1)
    ties = torch.randint(-3, 4, (3, 11)).float()
    ties[0, 2], ties[0, 7], ties[1, 1], ties[2, 5] = nan, nan, inf, -inf
    out["sort.x"] = ties
    for dim in (0, 1):
        for descending in (False, True):
            values, indices = ties.sort(dim=dim, descending=descending, stable=True)
            out[f"sort.values.{dim}.{int(descending)}"] = values
            out[f"sort.indices.{dim}.{int(descending)}"] = indices


def indexing():
    x = torch.randn(4, 5, 3)
    out["index.x"] = x
    which = torch.tensor([3, 0, 3, 2, 1, 3, 0])
    out["index.which"] = which
    for dim in (0, 1, 2):
        chosen = which % x.shape[dim]
        out[f"index.select.{dim}"] = x.index_select(dim, chosen)
        source = torch.randint(-8, 9, x.index_select(dim, chosen).shape).float()
        out[f"index.add.source.{dim}"] = source
        out[f"index.add.{dim}"] = x.index_add(dim, chosen, source)
        sizes = [3, 4, 2]
        sizes[dim] = 6
        index = torch.randint(0, x.shape[dim], sizes)
        out[f"gather.index.{dim}"] = index
        out[f"gather.{dim}"] = x.gather(dim, index)
        addend = torch.randint(-8, 9, [max(s, 6) for s in sizes]).float()
        out[f"scatter_add.source.{dim}"] = addend
        out[f"scatter_add.{dim}"] = x.scatter_add(dim, index, addend)


def pooling():
    x = torch.randint(-20, 21, (2, 3, 7, 6)).float() / 4
    out["pool.x"] = x
    spoiled = x.clone()
    spoiled[0, 1, 2, 3], spoiled[1, 0, 6, 5] = nan, -inf
    out["pool.spoiled"] = spoiled
    cases = {"a": (2, 2, 0, False), "b": (3, 2, 1, False), "c": ((2, 3), (1, 2), (1, 1), False),
             "d": (3, 2, 1, True), "e": (1, 3, 0, False)}
    for tag, (kernel, stride, padding, ceil) in cases.items():
        for name, source in (("x", x), ("spoiled", spoiled)):
            y, indices = F.max_pool2d(source, kernel, stride, padding, ceil_mode=ceil,
                                      return_indices=True)
            out[f"max_pool.{tag}.{name}"], out[f"max_pool.{tag}.{name}.indices"] = y, indices
        leaf = x.clone().requires_grad_()
        y = F.max_pool2d(leaf, kernel, stride, padding, ceil_mode=ceil)
        dy = torch.randint(-8, 9, y.shape).float()
        y.backward(dy)
        out[f"pool.{tag}.dy"], out[f"max_pool.{tag}.dx"] = dy, leaf.grad
        for include in (False, True):
            leaf = x.double().requires_grad_()
            y = F.avg_pool2d(leaf, kernel, stride, padding, ceil_mode=ceil,
                             count_include_pad=include)
            y.backward(dy.double())
            out[f"avg_pool.{tag}.{int(include)}"] = y
            out[f"avg_pool.{tag}.{int(include)}.dx"] = leaf.grad
    for p, q in ((1, 1), (3, 2), (7, 6), (9, 8), (4, 5)):
        leaf = x.double().requires_grad_()
        y = F.adaptive_avg_pool2d(leaf, (p, q))
        dy = torch.randint(-8, 9, y.shape).double()
        y.backward(dy)
        tag = f"adaptive.{p}{q}"
        out[tag], out[tag + ".dy"], out[tag + ".dx"] = y, dy, leaf.grad


def optimizers():
    steps, n = 10, 7
    start, gradients = torch.randn(n), torch.randn(steps, n)
    out["optim.start"], out["optim.gradients"] = start, gradients
    rates = torch.linspace(0.1, 0.01, steps, dtype=torch.float64)
    out["optim.rates"] = rates

    def run(tag, make):
        for dtype in (torch.float32, torch.float64):
            p = start.clone().to(dtype).requires_grad_()
            optimizer = make(p)
            for step in range(steps):
                optimizer.param_groups[0]["lr"] = rates[step].item()
                p.grad = gradients[step].to(dtype)
                optimizer.step()
            out[f"optim.{tag}.{golden.NAMES[dtype]}"] = p

    for tag, options in {
        "sgd.plain": {}, "sgd.decay": {"weight_decay": 0.05},
        "sgd.momentum": {"momentum": 0.9, "weight_decay": 0.05},
        "sgd.dampening": {"momentum": 0.9, "dampening": 0.3},
        "sgd.nesterov": {"momentum": 0.9, "nesterov": True, "weight_decay": 0.05},
        "sgd.maximize": {"momentum": 0.9, "maximize": True, "weight_decay": 0.05},
    }.items():
        run(tag, lambda p: torch.optim.SGD([p], lr=0.1, **options))
    for tag, kind, options in (
        ("adam.plain", torch.optim.Adam, {}),
        ("adam.decay", torch.optim.Adam, {"weight_decay": 0.05, "betas": (0.8, 0.99), "eps": 1e-6}),
        ("adam.amsgrad", torch.optim.Adam, {"amsgrad": True}),
        ("adam.maximize", torch.optim.Adam, {"maximize": True}),
        ("adamw", torch.optim.AdamW, {"weight_decay": 0.05}),
    ):
        run(tag, lambda p: kind([p], lr=0.1, **options))


def creation():
    for i, (dtype, arguments) in enumerate((
        (None, (5,)), (None, (2.5,)), (None, (1, 8, 3)), (None, (1, 2, 0.3)), (None, (5, -4, -2)),
        (None, (0, 1, 0.1)), (torch.float64, (0, 1, 0.1)), (torch.bfloat16, (0, 4, 0.5)),
        (torch.int32, (0.5, 4.5, 1)), (torch.uint8, (3, 11, 2)), (None, (4, 4)), (None, (7, 8, 9)),
        (torch.int64, (1.5, 7.5, 2)), (torch.float32, (3, 7)),
    )):
        out[f"arange.{i}"] = torch.arange(*arguments, dtype=dtype)
    for i, (dtype, arguments) in enumerate((
        (torch.float32, (0, 1, 5)), (torch.float32, (-3, 7, 12)), (torch.float64, (2, -1, 7)),
        (torch.float32, (2, 9, 1)), (torch.float32, (2, 9, 0)), (torch.int64, (0, 10, 5)),
        (torch.float32, (0, 1, 2)),
    )):
        out[f"linspace.{i}"] = torch.linspace(*arguments, dtype=dtype)


for make in (reductions, lines, indexing, pooling, optimizers, creation):
    make()
golden.write("kernels.txt", out)
