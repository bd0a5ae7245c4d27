"""Goldens for extras/torch_files/torch_training: python3 tests/golden/make_torch_training.py (needs torch).

Checkpoints of PyTorch programs after three steps, as hexadecimal text, and the parameters after three more steps.
Gradients are not stored: both sides compute them (`gradient` below).
"""

import collections
import io

import torch
from torch.optim import SGD, Adagrad, Adam, AdamW, RMSprop
from torch.optim import lr_scheduler as S

import golden

SHAPES = {"weight": (2, 3), "bias": (2,)}


def network():
    net = torch.nn.Linear(3, 2)
    for k, p in enumerate(net.parameters()):
        p.data = golden.fill(p.shape, k).float()
    return net


def advance(net, optimizer, schedule, first):
    for step in range(first, first + 3):
        for k, p in enumerate(net.parameters()):
            p.grad = golden.fill(p.shape, 10 * step + k).float()
        optimizer.step()
        schedule.step()


CASES = {
    "sgd_step": (lambda p: SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
                 lambda o: S.StepLR(o, step_size=2, gamma=0.5)),
    "adam_multi_step": (lambda p: Adam(p, lr=0.1, betas=(0.8, 0.99), amsgrad=True),
                        lambda o: S.MultiStepLR(o, milestones=[2, 4, 4])),
    "adamw_cosine": (lambda p: AdamW(p, lr=0.1, eps=1e-6), lambda o: S.CosineAnnealingLR(o, T_max=8, eta_min=0.01)),
    "rmsprop_restarts": (lambda p: RMSprop(p, lr=0.05, alpha=0.9, momentum=0.5, centered=True),
                         lambda o: S.CosineAnnealingWarmRestarts(o, T_0=2, T_mult=2)),
    "adagrad_linear": (lambda p: Adagrad(p, lr=0.2, lr_decay=0.1, initial_accumulator_value=0.5),
                       lambda o: S.LinearLR(o, start_factor=0.5, total_iters=5)),
    "sgd_one_cycle": (lambda p: SGD(p, lr=0.1, momentum=0.9), lambda o: S.OneCycleLR(o, max_lr=0.5, total_steps=8)),
    "adam_one_cycle": (lambda p: Adam(p, lr=0.1),
                       lambda o: S.OneCycleLR(o, max_lr=0.5, total_steps=9, three_phase=True, anneal_strategy="linear")),
}


def main():
    files, out = {}, collections.OrderedDict()
    for name, (make_optimizer, make_schedule) in CASES.items():
        net = network()
        optimizer = make_optimizer(net.parameters())
        schedule = make_schedule(optimizer)
        advance(net, optimizer, schedule, 0)
        file = io.BytesIO()
        torch.save({"model": net.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": schedule.state_dict(),
                    "epoch": 3, "name": name}, file)
        files[name] = file.getvalue().hex()
        advance(net, optimizer, schedule, 3)
        out |= {f"{name}.{key}": p for key, p in net.named_parameters()}
        out[f"{name}.lr"] = torch.tensor(optimizer.param_groups[0]["lr"], dtype=torch.float64)
    # Other programs use other names, and old versions of PyTorch count steps in a number.
    net = network()
    optimizer = Adam(net.parameters(), lr=0.1)
    schedule = S.ExponentialLR(optimizer, gamma=0.9)
    advance(net, optimizer, schedule, 0)
    state = optimizer.state_dict()
    state["state"] = {k: entries | {"step": int(entries["step"])} for k, entries in state["state"].items()}
    file = io.BytesIO()
    torch.save({"state_dict": net.state_dict(), "optimizer_state_dict": state, "lr_scheduler": schedule.state_dict()},
               file, _use_new_zipfile_serialization=False)
    files["old"] = file.getvalue().hex()
    advance(net, optimizer, schedule, 3)
    out |= {f"old.{key}": p for key, p in net.named_parameters()}
    out["old.lr"] = torch.tensor(optimizer.param_groups[0]["lr"], dtype=torch.float64)
    golden.write("torch_training.txt", out)
    golden.write_texts("torch_training_hex.txt", files)


if __name__ == "__main__":
    main()
