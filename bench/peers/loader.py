"""CIFAR-10's augmentation under a DataLoader, measured as bench/data_loading measures rondo's.

The images are those of torchvision.datasets.CIFAR10 (bytes in memory); the steps are random crop with padding 4, flip
and normalise. The script tries torchvision's transforms on PIL images, as in its examples, the same on tensors, and
its v2 transforms on tensors, each with one worker process and without. The fastest counts.
"""

import argparse
import json
import time

import numpy as np
import torch
from PIL import Image
from torchvision import transforms
from torchvision.transforms import v2

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


class Images(torch.utils.data.Dataset):
    """The same as torchvision.datasets.CIFAR10, without the download."""

    def __init__(self, pil, transform):
        self.data = np.random.default_rng(0).integers(0, 256, (20000, 32, 32, 3), dtype=np.uint8)
        self.targets, self.pil, self.transform = [0] * len(self.data), pil, transform

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        image = self.data[i]
        image = Image.fromarray(image) if self.pil else torch.from_numpy(image).permute(2, 0, 1)
        return self.transform(image), self.targets[i]


def steps(kind):
    if kind == "pil":
        return transforms.Compose([
            transforms.RandomCrop(32, padding=4), transforms.RandomHorizontalFlip(),
            transforms.ToTensor(), transforms.Normalize(MEAN, STD),
        ])  # fmt: skip
    if kind == "tensor":
        return transforms.Compose([
            transforms.RandomCrop(32, padding=4), transforms.RandomHorizontalFlip(),
            transforms.ConvertImageDtype(torch.float32), transforms.Normalize(MEAN, STD),
        ])  # fmt: skip
    return v2.Compose([
        v2.RandomCrop(32, padding=4), v2.RandomHorizontalFlip(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD),
    ])  # fmt: skip


def rate(setting, args):
    kind, workers = setting.split(", ")
    loader = torch.utils.data.DataLoader(
        Images(kind == "pil", steps(kind)), args.batch, shuffle=True, drop_last=True,
        num_workers=int(workers.split()[0]), persistent_workers=workers != "0 workers",
    )  # fmt: skip
    next(iter(loader))  # starts the workers
    images, start = 0, time.perf_counter()
    while time.perf_counter() - start < args.seconds:
        for batch in loader:
            images += len(batch[1])
            if time.perf_counter() - start >= args.seconds:
                break
    return images / (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=5, help="time for each setting")
    parser.add_argument("--setting", help="measure only this setting, such as 'pil, 1 workers'")
    parser.add_argument("--json", metavar="FILE", help="- is standard output")
    args = parser.parse_args()
    torch.set_num_threads(1)
    settings = [args.setting] if args.setting else [f"{kind}, {n} workers" for kind in ("pil", "tensor", "v2") for n in (0, 1)]
    rows = [{"setting": s, "img_per_s": rate(s, args)} for s in settings]
    best = {**max(rows, key=lambda row: row["img_per_s"]), "rows": rows}
    if args.json == "-":
        print(json.dumps(best))
    else:
        print(best)


if __name__ == "__main__":
    main()
