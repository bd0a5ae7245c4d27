"""Goldens for optim/grad_scaler.cpp: python3 tests/golden/make_grad_scaler.py (needs torch).

start, gradients   a parameter, and its gradient in each of the steps; some have an infinity or a NaN
scales             of torch.amp.GradScaler after each step
sgd, adam, clipped the parameter after each step: SGD with momentum and dampening, Adam, and SGD after
                   unscale_ and clip_grad_norm_
"""

import torch

import golden

steps, size = 14, 5
generator = torch.Generator().manual_seed(5)
start = torch.randn(size, generator=generator)
gradients = torch.randn(steps, size, generator=generator)
for step, value in ((0, float("inf")), (5, float("nan")), (6, float("-inf"))):
    gradients[step, step % size] = value


def run(make, clip=None):
    p = start.clone().requires_grad_()
    optimizer = make([p])
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=3)
    values, scales = [], []
    for gradient in gradients:
        optimizer.zero_grad()
        scaler.scale((p * gradient).sum()).backward()
        if clip:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_([p], clip)
        scaler.step(optimizer)
        scaler.update()
        values.append(p.detach().clone())
        scales.append(scaler.get_scale())
    return torch.stack(values), torch.tensor(scales)


sgd, scales = run(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5))
adam, _ = run(lambda p: torch.optim.Adam(p, lr=0.1))
clipped, _ = run(lambda p: torch.optim.SGD(p, lr=0.1), clip=0.5)
golden.write("grad_scaler.txt", {
    "start": start, "gradients": gradients, "scales": scales, "sgd": sgd, "adam": adam, "clipped": clipped,
})
