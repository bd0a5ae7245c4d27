"""Random programs of views and in-place ops, and PyTorch's results. tests/autograd/views_test.cpp runs the
same instructions. A program works on a list of tensors; an instruction is five integers: its code and arguments."""

import random

import torch

import golden

W = torch.tensor([1.5, -0.75, 0.5], dtype=torch.float64)


def base(shift):
    return ((torch.arange(12, dtype=torch.float64) + shift) / 8).reshape(3, 4)


def run(code, w):
    """The tensors after the program."""
    t = []
    for op, a, b, c, d in code:
        if op == 0:
            t.append(base(a))
        elif op == 1:
            t.append(base(a) * w[b])
        elif op == 2:
            t.append(t[a].narrow(b, c, d))
        elif op == 3:
            t.append(t[a].transpose(b, c))
        elif op == 4:
            t.append(t[a].select(b, c))
        elif op == 5:
            t.append(t[a].unsqueeze(0).expand([2] + list(t[a].shape)))
        elif op == 6:
            t.append(t[a].view(-1))
        elif op == 7:
            t[a].mul_(w[b])
        elif op == 8:
            t[a].add_(t[b] * 0.5)
        elif op == 9:
            t[a].copy_(w[b])
        elif op == 10:
            t[a].fill_(0.5)
        elif op == 11:
            t.append(t[a] * 0.5)
        elif op == 12:
            t[a].copy_(t[b] * 2)
        elif op == 13:
            with torch.no_grad():
                t[a].fill_(0.25)
    return t


def results(code):
    """Loss, its gradient, and the gradient of the gradient's square."""
    w = W.clone().requires_grad_()
    loss = sum((x * x * (i + 1)).sum() for i, x in enumerate(run(code, w))) + w.sum()
    (first,) = torch.autograd.grad(loss, w, create_graph=True)
    if not first.requires_grad:
        return loss, first, torch.zeros_like(first)
    (second,) = torch.autograd.grad((first * first).sum(), w, allow_unused=True)
    return loss, first, torch.zeros_like(first) if second is None else second


def make(rng):
    code, overlapping = [], []  # overlapping[i]: tensor i has one address twice
    def add(*instruction):
        code.append(list(instruction) + [0] * (5 - len(instruction)))
        return run(code, W)
    t = add(rng.randrange(2), rng.randrange(5), rng.randrange(3))
    overlapping.append(False)
    while len(code) < 16:
        a = rng.randrange(len(t))
        kind = rng.choice([0, 1, 2, 3, 4, 5, 6, 7, 7, 8, 8, 9, 10, 11, 12, 12, 13])
        can_write = not overlapping[a]
        same = [i for i in range(len(t)) if t[i].shape == t[a].shape]
        if kind <= 6 or kind == 11:
            if len(t) >= 9:
                continue
            if kind in (0, 1):
                t = add(kind, rng.randrange(5), rng.randrange(3))
                overlapping.append(False)
                continue
            if kind in (2, 3, 4) and t[a].dim() == 0 or kind == 5 and t[a].dim() > 3:
                continue
            if kind == 6 and not t[a].is_contiguous():
                continue
            dim = rng.randrange(max(t[a].dim(), 1))
            if kind == 2:
                start = rng.randrange(t[a].shape[dim])
                t = add(2, a, dim, start, rng.randrange(1, t[a].shape[dim] - start + 1))
            elif kind == 3:
                t = add(3, a, dim, rng.randrange(t[a].dim()))
            elif kind == 4:
                t = add(4, a, dim, rng.randrange(t[a].shape[dim]))
            else:
                t = add(kind, a)
            overlapping.append(kind == 5 or kind != 11 and overlapping[a])
        elif can_write:
            if kind in (7, 9):
                t = add(kind, a, rng.randrange(3))
            elif kind in (8, 12):
                t = add(kind, a, rng.choice(same))
            else:
                t = add(kind, a)
    return code


rng = random.Random(1)
out = {}
while len(out) < 4 * 60:
    code = make(rng)
    name = f"program{len(out) // 4}"
    try:
        loss, first, second = results(code)
    except RuntimeError as error:
        print(f"left out, since PyTorch refuses it: {code}: {error}")
        continue
    out[name] = torch.tensor(code)
    out[name + ".loss"], out[name + ".first"], out[name + ".second"] = loss, first, second
golden.write("views.txt", out)
