"""Goldens for nn/hooks.h: python3 tests/golden/make_hooks.py (needs torch).

Parameters, inputs and output gradients are not stored: both sides make them with `fill`, as in make_nn.py.
NAME.order lists the numbers of the hooks in the order in which they ran.
"""

import torch
from torch import nn

import golden
from golden import fill

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)

out = {}


def weights(module):
    for k, p in enumerate(module.parameters()):
        p.data = fill(p.shape, k + 10)
    return module


for case in ("input", "gradient"):  # whether the input requires a gradient
    net = weights(nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)))
    order = []

    def note(number, result=None, **tensors):
        order.append(number)
        for key, value in tensors.items():
            if value is not None:
                out[f"{case}.{number}.{key}"] = value.clone()
        return result

    net[0].register_forward_pre_hook(lambda m, x: note(1, x[0] * 2))
    net[0].register_forward_pre_hook(lambda m, x: note(2, x=x[0]))
    net[0].register_forward_hook(lambda m, x, y: note(3, y + 1))
    net[0].register_forward_hook(lambda m, x, y: note(4, x=x[0], y=y))
    net.register_forward_hook(lambda m, x, y: note(5, y=y))
    net[2].register_full_backward_hook(lambda m, dx, dy: note(6, (dx[0] * 3,), dx=dx[0], dy=dy[0]))
    net[2].register_full_backward_hook(lambda m, dx, dy: note(7, dx=dx[0]))
    net[0].register_full_backward_hook(lambda m, dx, dy: note(8, dx=dx[0], dy=dy[0]))
    net.register_full_backward_hook(lambda m, dx, dy: note(9, dx=dx[0], dy=dy[0]))
    net.register_forward_hook(lambda m, x, y: note(10)).remove()
    x = fill((5, 4), 0, 2.0).requires_grad_(case == "gradient")
    y = net(x)
    y.backward(fill(y.shape, 1))
    out[f"{case}.order"] = torch.tensor(order)
    out[f"{case}.y"] = y
    if case == "gradient":
        out[f"{case}.dx"] = x.grad
    for key, p in net.named_parameters():
        out[f"{case}.d.{key}"] = p.grad


class Scores(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x, mask):
        y = self.fc(x)
        return y, y * mask, y.sum()


scores = weights(Scores())
scores.register_forward_pre_hook(lambda m, inputs: (inputs[0] + 1, inputs[1]))
scores.register_forward_hook(lambda m, inputs, outputs: (outputs[0], outputs[1] * 2, outputs[2]))


def keep(m, dx, dy):
    out["scores.dx"] = dx[0]
    out["scores.has"] = torch.tensor([int(d is not None) for d in (dx[0], *dy)])
    out["scores.dy1"] = dy[1]


scores.register_full_backward_hook(keep)
x = fill((5, 4), 0, 2.0).requires_grad_()
results = scores(x, fill((5, 3), 2))
(results[1] * fill((5, 3), 1)).sum().backward()
for i, y in enumerate(results):
    out[f"scores.{i}"] = y
out["scores.x.grad"] = x.grad

golden.write("hooks.txt", out)
