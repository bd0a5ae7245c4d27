"""Goldens for nn/parametrizations.h: python3 tests/golden/make_parametrizations.py (needs torch).

Parameters, inputs and output gradients are not stored: both sides make them with `fill`, as in make_nn.py.
"""

import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

import golden
from golden import fill

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)

out = {}
for name, module, shape in (
    ("weight_norm.linear", weight_norm(nn.Linear(4, 3)), (2, 4)),
    ("weight_norm.whole", weight_norm(nn.Linear(4, 3, bias=False), dim=None), (2, 4)),
    ("weight_norm.conv", weight_norm(nn.Conv2d(2, 3, 2), dim=-3), (2, 2, 4, 3)),
    ("spectral_norm.linear", spectral_norm(nn.Linear(4, 3)), (2, 4)),
    ("spectral_norm.conv", spectral_norm(nn.Conv2d(2, 3, 2), n_power_iterations=3), (2, 2, 4, 3)),
    ("spectral_norm.transposed", spectral_norm(nn.ConvTranspose2d(2, 3, 2)), (2, 2, 4, 3)),
):
    for k, (_, p) in enumerate(sorted(module.named_parameters())):
        p.data = fill(p.shape, k + 10)
    for k, (_, b) in enumerate(sorted(module.named_buffers())):
        b.copy_(torch.nn.functional.normalize(fill(b.shape, k + 20), dim=0))
    x = fill(shape, 0, 2.0).requires_grad_()
    first, y = module(x), module(x)  # two forwards before backward, as a GAN's discriminator
    (first + y).backward(fill(y.shape, 1))
    out[f"{name}.y"] = y
    out[f"{name}.dx"] = x.grad
    for key, p in module.named_parameters():
        out[f"{name}.d.{key}"] = p.grad
    module.eval()
    out[f"{name}.eval"] = module(x)
    for key, value in module.state_dict().items():
        out[f"{name}.state.{key}"] = value
    out[f"{name}.weight"] = module.weight

golden.write("parametrizations.txt", out)
