"""resume_training.py FOLDER: PyTorch resumes from the checkpoints that rondo's test wrote to FOLDER, and ends with the
parameters and the rate of the goldens (make_torch_training.py)."""

import pathlib
import sys

import torch
from make_torch_training import CASES, advance, network

here = pathlib.Path(__file__).parent
wanted = {}
for line in (here / "torch_training.txt").read_text().splitlines()[1:]:
    name, dtype, sizes, *values = line.split()
    shape = [] if sizes == "-" else [int(size) for size in sizes.split(",")]
    wanted[name] = torch.tensor([float(value) for value in values], dtype=torch.float64).reshape(shape)

for name, (make_optimizer, make_schedule) in CASES.items():
    net = network()
    optimizer = make_optimizer(net.parameters())
    schedule = make_schedule(optimizer)
    for group in optimizer.param_groups:  # all of this is in the file
        group["lr"] = group["weight_decay"] = 7.0
    checkpoint = torch.load(pathlib.Path(sys.argv[1]) / f"{name}.pth", weights_only=True)
    net.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    schedule.load_state_dict(checkpoint["scheduler"])
    assert checkpoint["epoch"] == 3, checkpoint["epoch"]
    advance(net, optimizer, schedule, 3)
    for key, p in net.named_parameters():
        torch.testing.assert_close(p.detach().double(), wanted[f"{name}.{key}"], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(torch.tensor(optimizer.param_groups[0]["lr"], dtype=torch.float64), wanted[f"{name}.lr"],
                               rtol=1e-9, atol=0)
    print(name, "resumed")
