"""examples/speedrun.cpp in PyTorch: the same network, recipe, rates and test.

    python bench/peers/speedrun.py --data FOLDER [--runs 2] [--compile] [--amp bf16]    # minutes include compiling

FOLDER has cifar-10-batches-bin. The recipe is that of airbench (Jordan 2024, arXiv:2404.00498, with Muon); images are
channels_last, the fastest layout for PyTorch on a CPU. Read next: examples/speedrun.cpp, which explains each step.
"""

import argparse
import contextlib
import math
import pathlib
import time

import keep_memory

keep_memory.or_start_anew()

import torch  # noqa: E402  (after the allocator has been chosen)
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--data", type=pathlib.Path, required=True, help="folder that has cifar-10-batches-bin")
parser.add_argument("--runs", type=int, default=1)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--epochs", type=float, default=8)
parser.add_argument("--batch", type=int, default=2000)
parser.add_argument("--limit", type=int, default=50_000)
parser.add_argument("--test-limit", type=int, default=10_000)
parser.add_argument("--amp", choices=["bf16"])
parser.add_argument("--compile", action="store_true", help="torch.compile")
parser.add_argument("--threads", type=int, default=torch.get_num_threads())
args = parser.parse_args()
torch.set_num_threads(args.threads)

MARGIN, SIDE = 2, 32
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)  # data::statistics_of("cifar10")


def read(files, limit):
    """Padded images (N, 36, 36, 3), normalised, and labels (N)."""
    folder = args.data / "cifar-10-batches-bin"
    raw = b"".join((folder / name).read_bytes() for name in files)
    records = torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(-1, 3073)[:limit]
    mean, std = (torch.tensor(x).view(3, 1, 1) for x in (MEAN, STD))
    pixels = (records[:, 1:].reshape(-1, 3, SIDE, SIDE).float() / 255 - mean) / std
    return F.pad(pixels, [MARGIN] * 4, "reflect").permute(0, 2, 3, 1).contiguous(), records[:, 0].long()


def windows(padded, rows, top, left, mirrored):
    along = torch.arange(SIDE)
    y = top[:, None] + along
    x = left[:, None] + torch.where(mirrored[:, None], SIDE - 1 - along, along)
    return padded[rows[:, None, None], y[:, :, None], x[:, None, :]].permute(0, 3, 1, 2)


class Conv(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        filters = torch.empty(outputs, inputs, 3, 3)
        nn.init.kaiming_uniform_(filters, math.sqrt(5))
        nn.init.dirac_(filters[:inputs])
        self.inputs, self.weight = inputs, nn.Parameter(filters.flatten(1))

    def forward(self, x):
        return F.conv2d(x, self.weight.view(-1, self.inputs, 3, 3), padding=1)


class Group(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv1, self.conv2 = Conv(inputs, outputs), Conv(outputs, outputs)
        self.norm1, self.norm2 = (nn.BatchNorm2d(outputs, eps=1e-12, momentum=0.4) for _ in range(2))

    def forward(self, x):
        x = F.gelu(self.norm1(F.max_pool2d(self.conv1(x), 2)))
        return F.gelu(self.norm2(self.conv2(x)))


class Net(nn.Module):
    def __init__(self, images):
        super().__init__()
        columns = F.unfold(images, 2).transpose(1, 2).reshape(-1, 12)
        values, vectors = torch.linalg.eigh(columns.T @ columns / len(columns))
        rows = vectors.T / (values + 5e-4).sqrt()[:, None]
        self.register_buffer("whiten", torch.cat([rows, -rows]).view(24, 3, 2, 2))
        self.offset = nn.Parameter(torch.zeros(24))
        self.groups = nn.Sequential(Group(24, 64), Group(64, 256), Group(256, 256))
        self.head = nn.Linear(256, 10, bias=False)
        with torch.no_grad():
            self.head.weight /= self.head.weight.std()
        for name, parameter in self.named_parameters():
            if "norm" in name and name.endswith("weight"):
                parameter.requires_grad_(False)

    def forward(self, x):
        x = self.groups(F.gelu(F.conv2d(x, self.whiten, self.offset)))
        return self.head(F.max_pool2d(x, 3).flatten(1)) / 256


def amp():
    return torch.autocast("cpu", torch.bfloat16) if args.amp else contextlib.nullcontext()


def train(net, call, images, labels):
    per_epoch = len(images) // args.batch
    steps = math.ceil(args.epochs * per_epoch)
    filters = [p for name, p in net.named_parameters() if "conv" in name]
    offsets = [p for name, p in net.named_parameters() if "norm" in name and p.requires_grad]
    muon = torch.optim.Muon(filters, lr=0.24, weight_decay=0, momentum=0.6, ns_steps=3)
    decay = 2e-6 * args.batch
    groups = [(offsets, 0.053), ([net.offset], 0.053), ([net.head.weight], 0.67)]
    sgd = torch.optim.SGD([{"params": p, "lr": lr, "weight_decay": decay / lr} for p, lr in groups], momentum=0.85, nesterov=True)
    rates = [torch.optim.lr_scheduler.PolynomialLR(o, steps) for o in (muon, sgd)]
    mirrored = torch.rand(len(images)) < 0.5
    for step in range(steps):
        epoch, at = divmod(step, per_epoch)
        if at == 0:
            order = torch.randperm(len(images))
        if epoch == 3:
            net.offset.requires_grad_(False)
        rows = order[at * args.batch :][: args.batch]
        top, left = torch.randint(0, 2 * MARGIN + 1, (2, args.batch))
        batch = windows(images, rows, top, left, mirrored[rows] ^ (epoch % 2 == 1))
        with amp():
            loss = F.cross_entropy(call(batch).float(), labels[rows], label_smoothing=0.2, reduction="sum")
        loss.backward()
        with torch.no_grad():
            for w in filters:
                w *= math.sqrt(len(w)) / w.norm()
        for optimizer in (muon, sgd):
            optimizer.step()
            optimizer.zero_grad()
        for rate in rates:
            rate.step()
        if at == per_epoch - 1 or step == steps - 1:
            print(f"  epoch {epoch + 1}: loss of the last batch {loss.item() / args.batch:.4f}", flush=True)


def accuracy(net, call, images, labels):
    net.eval()
    with torch.no_grad(), amp():
        return 100 * right_of(call, images, labels) / len(images)


def right_of(call, images, labels):
    right = 0
    for rows in torch.arange(len(images)).split(500):
        logits = 0
        for begin, weight in ((MARGIN, 0.25), (MARGIN - 1, 0.125), (MARGIN + 1, 0.125)):
            for mirrored in (False, True):
                start = torch.tensor([begin])
                logits = logits + call(windows(images, rows, start, start, torch.tensor([mirrored]))).float() * weight
        right += (logits.argmax(1) == labels[rows]).sum().item()
    return right


def main():
    images, labels = read([f"data_batch_{i}.bin" for i in range(1, 6)], args.limit)
    test = read(["test_batch.bin"], args.test_limit)
    if args.batch > len(images):
        parser.error(f"--batch: {args.batch} is above the number of training images, {len(images)}")
    results = []
    for seed in range(args.seed, args.seed + args.runs):
        start = time.perf_counter()
        torch.manual_seed(seed)
        net = Net(images[:5000, MARGIN:-MARGIN, MARGIN:-MARGIN].permute(0, 3, 1, 2)).to(memory_format=torch.channels_last)
        call = torch.compile(net) if args.compile else net
        train(net, call, images, labels)
        reached = accuracy(net, call, *test)
        results.append((reached, (time.perf_counter() - start) / 60))
        print(f"seed {seed}: {reached:.2f} % after {results[-1][1]:.2f} minutes", flush=True)
    means = [sum(column) / len(results) for column in zip(*results)]
    print(f"mean of {len(results)}: {means[0]:.2f} % after {means[1]:.2f} minutes")


main()
