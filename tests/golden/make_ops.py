"""Goldens for autograd/ops/: python3 tests/golden/make_ops.py (needs torch).

A case is NAME.in0 …, the inputs; NAME.out0 …, the outputs of the op; NAME.grad0 …, the gradients of
sum(w * out) for the inputs that are floats, w as in `weights`. All is computed in f64 and stored as f32.
"""

import itertools

import torch
import torch.nn.functional as F

import golden

torch.manual_seed(11)
torch.set_num_threads(1)
out = {}
nan, inf = float("nan"), float("inf")


def numbers(*sizes):
    """Multiples of 1/64 in [-2, 2]: exact in f32, short in text."""
    return torch.randint(-128, 129, sizes).double() / 64


def weights(y):
    i = torch.arange(y.numel(), dtype=torch.float64)
    return ((i * 7 % 11 - 5) / 4).reshape(y.shape)


def store(name, x):
    out[name] = x.float() if x.is_floating_point() else x


def case(name, f, *inputs):
    inputs = [x.clone().requires_grad_() if x.is_floating_point() else x for x in inputs]
    results = f(*inputs)
    results = results if isinstance(results, (tuple, list)) else [results]
    for i, x in enumerate(inputs):
        store(f"{name}.in{i}", x)
    for i, y in enumerate(results):
        store(f"{name}.out{i}", y)
    total = sum((weights(y) * y).sum() for y in results if y.requires_grad)
    if not torch.is_tensor(total):
        return
    wanted = [x for x in inputs if x.requires_grad]
    gradients = iter(torch.autograd.grad(total, wanted, allow_unused=True))
    for i, x in enumerate(inputs):
        if x.requires_grad:
            gradient = next(gradients)
            store(f"{name}.grad{i}", torch.zeros_like(x) if gradient is None else gradient)


def reductions():
    x = numbers(2, 3, 4)
    zeros = numbers(2, 3)
    zeros[0, 1] = 0
    flat = numbers(2, 3)
    flat[1] = 0.5
    ties = torch.randint(0, 3, (3, 4)).double()
    case("sum", lambda x: [x.sum(), x.sum((0, 2)), x.sum(1, keepdim=True)], x)
    case("mean", lambda x: [x.mean(), x.mean((0, 2)), x.mean(1, keepdim=True)], x)
    case("var", lambda x: [x.var(), x.var((0, 2)), x.var(1, correction=0, keepdim=True)], x)
    case("std", lambda x: [x.std(), x.std((0, 2)), x.std(1, correction=0, keepdim=True)], x)
    case("std.constant", lambda x: x.std(1), flat)
    case("prod", lambda x: x.prod(), numbers(7))
    case("prod.one_zero", lambda x: x.prod(), zeros)
    case("prod.two_zeros", lambda x: x.prod(), torch.tensor([2.0, 0, 3, 0]).double())
    case("norm", lambda x: [x.norm(), x.norm(dim=(0, 2)), x.norm(dim=1, keepdim=True)], x)
    case("norm.zero", lambda x: x.norm(dim=1), torch.tensor([[3.0, 4], [0, 0]]).double())
    case("logsumexp", lambda x: [x.logsumexp(1), x.logsumexp((0, 2), keepdim=True)], x)
    case("logsumexp.large", lambda x: x.logsumexp(0), torch.tensor([1000.0, 1001, -1000]).double())
    case("logsumexp.infinite", lambda x: x.detach().logsumexp(1),
         torch.tensor([[-inf, -inf], [inf, 1], [-inf, 2], [nan, 1]]).double())
    case("cumsum", lambda x: [x.cumsum(0), x.cumsum(1), x.cumsum(-1)], x)
    case("max.ties", lambda x: [x.amax(), x.amin()], ties)
    case("max.dim", lambda x: [*x.max(1), *x.min(0, keepdim=True)], x[0])
    case("arg", lambda x: [x.argmax(1), x.argmin(0, keepdim=True)], x[1])
    case("sort", lambda x: [*x.sort(stable=True, dim=1), *x.sort(stable=True, dim=0, descending=True)], ties)
    case("topk", lambda x: [*x.topk(2), *x.topk(2, 0, largest=False)], x[0])
    case("integers", lambda a, b: [a.sum(), a.sum(0), a.prod(), a.cumsum(1), a.max(), b.sum(0), b.all(), b.any()],
         torch.randint(-5, 6, (2, 3), dtype=torch.int32), torch.tensor([[True, False], [True, True]]))


def shapes():
    x, y = numbers(2, 3, 4), numbers(2, 1, 4)
    case("reshape", lambda x: [x.reshape(4, -1), x.transpose(0, 2).reshape(-1), x.permute(2, 0, 1).flatten(1)], x)
    case("expand", lambda y: [y.expand(3, 2, 5, 4), y.expand(-1, 2, -1)], y)
    case("permute", lambda x: [x.permute(1, 2, 0), x.transpose(-1, 0), x.unsqueeze(-1).squeeze(3)], x)
    case("flip", lambda x: [x.flip(0), x.flip(0, -1), x.flip(2)], x)
    case("cat", lambda x, y: [torch.cat([x, y, x], 1), torch.stack([x, x], -1)], x, y)
    case("split", lambda x: [*x.split(2, 2), *x.split(2, 1), *x.chunk(2, 1), *x.chunk(3, 2)], x)


def indexing():
    x, m = numbers(2, 3, 4), numbers(4, 3)
    picks = torch.tensor([2, 0, 2])
    case("slice", lambda x: [x.select(1, -1), x.narrow(2, 1, 2), x[:, 0:-1:2], x[..., -3:100], x[1:1]], x)
    case("index_select", lambda x, i: [x.index_select(1, i), x.index_select(-1, i)], x, picks)
    case("gather", lambda m, i: m.gather(0, i), m, torch.randint(0, 4, (6, 2)))
    case("scatter_add", lambda m, i, s: m.scatter_add(0, i, s[:5, :2]), m, torch.randint(0, 4, (5, 2)), numbers(6, 3))
    case("masked_fill", lambda x, mask: x.masked_fill(mask, 1.5), x, torch.rand(3, 1) < 0.5)
    words = torch.tensor([[3, 0, 3], [1, 2, 3]])
    case("embedding", F.embedding, words, m)
    case("embedding.padding", lambda words, m: F.embedding(words, m, padding_idx=3), words, m)
    case("one_hot", lambda i: F.one_hot(i, 4), words)


def pools():
    x = numbers(2, 2, 5, 6)
    for i, (k, s, p, ceil) in enumerate(
            [(2, 2, 0, False), (3, 2, 1, False), (3, 2, 1, True), ((2, 3), (1, 2), (0, 1), False), (2, 3, 1, True)]):
        case(f"max_pool2d.{i}", lambda x: F.max_pool2d(x, k, s, p, ceil_mode=ceil), x)
        for include in (False, True):
            case(f"avg_pool2d.{i}.{int(include)}",
                 lambda x: F.avg_pool2d(x, k, s, p, ceil_mode=ceil, count_include_pad=include), x)
    ties = torch.randint(0, 2, (1, 1, 4, 4)).double()
    case("max_pool2d.ties", lambda x: F.max_pool2d(x, 3, 1, 1), ties)
    for size in ((1, 1), (3, 4), (5, 6), (7, 2)):
        case(f"adaptive_avg_pool2d.{size[0]}x{size[1]}", lambda x: F.adaptive_avg_pool2d(x, size), x)
    case("upsample_nearest2d", lambda x: F.interpolate(x, scale_factor=3, mode="nearest"), x[:, :, :2, :3])


def cross_entropies():
    weight = torch.tensor([0.5, 1, 2, 0.25]).double()
    shapes = {"rows": ((5, 4), (5,)), "planes": ((2, 4, 2, 3), (2, 2, 3))}
    for (shape, (x, t)), smoothing, ignoring in itertools.product(shapes.items(), (0.0, 0.1), (0, 1)):
        logits, target = numbers(*x), torch.randint(0, 4, t)
        if ignoring:
            target.view(-1)[2] = -100
        for weighted, reduction in itertools.product((0, 1), ("none", "mean", "sum")):
            name = f"{shape}.{int(smoothing * 10)}.{ignoring}.{weighted}.{reduction}"
            w = weight if weighted else None
            case("cross_entropy." + name,
                 lambda x, t: F.cross_entropy(x, t, w, label_smoothing=smoothing, reduction=reduction), logits, target)
            if smoothing == 0:
                case("nll_loss." + name, lambda x, t: F.nll_loss(x, t, w, reduction=reduction), logits, target)
    case("cross_entropy.all_ignored", lambda x, t: F.cross_entropy(x, t, ignore_index=1), numbers(2, 3),
         torch.tensor([1, 1]))
    case("cross_entropy.far", F.cross_entropy, torch.tensor([[1e4, 0, -1e4], [0, -1e4, 1e4]]).double(),
         torch.tensor([1, 2]))


def pairs():
    x, y = numbers(3, 4), numbers(3, 4)
    y[0, 0] = x[0, 0]
    unit = torch.rand(3, 4).double().mul(64).round() / 64
    unit[0, 0], unit[1, 1] = 0, 1
    odd = x.clone()
    odd[0, 0], odd[0, 1], odd[0, 2] = 0, 60, -60
    for reduction in ("none", "mean", "sum"):
        case(f"mse_loss.{reduction}", lambda x, y: F.mse_loss(x, y, reduction=reduction), x, y)
        case(f"l1_loss.{reduction}", lambda x, y: F.l1_loss(x, y, reduction=reduction), x, y)
        for beta in (1.0, 0.25, 0.0):
            case(f"smooth_l1_loss.{int(beta * 100)}.{reduction}",
                 lambda x, y: F.smooth_l1_loss(x, y, beta=beta, reduction=reduction), x, y)
        case(f"bce_with_logits.{reduction}",
             lambda x, y: F.binary_cross_entropy_with_logits(x, y, reduction=reduction), odd, unit)
        case(f"kl_div.{reduction}", lambda x: F.kl_div(x, unit, reduction=reduction), x)
    store("kl_div.target", unit)


reductions()
shapes()
indexing()
pools()
cross_entropies()
pairs()
golden.write("ops.txt", out)
