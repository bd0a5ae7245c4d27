"""torchvision's ImageFolder under a DataLoader, measured as bench/image_folder measures rondo's.

    build/bin/image_folder --root /tmp/pictures       # makes the pictures if they do not exist
    python3 bench/peers/image_folder.py --root /tmp/pictures --workers 2

The pictures and the steps are the same. The steps work on PIL images, which ImageFolder returns. Workers are
processes and stay between epochs (persistent_workers), so only the first epoch includes their start.
"""

import argparse
import json
import statistics
import time

import torch
from torchvision import datasets, transforms


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", required=True)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2, help="largest number of workers")
    parser.add_argument("--seconds", type=float, default=5, help="time for each row")
    parser.add_argument("--json", metavar="FILE", help="everything that was measured; - is standard output")
    return parser.parse_args()


def steps(jitter):
    return transforms.Compose(
        [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip()]
        + ([transforms.ColorJitter(0.4, 0.4, 0.4, 0.1)] if jitter else [])
        + [transforms.ToTensor(), transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
    )


def loop(name, args, workers, jitter):
    folder = datasets.ImageFolder(args.root, steps(jitter))
    loader = torch.utils.data.DataLoader(
        folder, args.batch, shuffle=True, num_workers=workers, drop_last=True, persistent_workers=workers > 0
    )
    images, first, cold = 0, [], None
    start = time.perf_counter()
    while not first or time.perf_counter() - start < args.seconds:
        begin = time.perf_counter()
        batches = iter(loader)
        batch = next(batches, None)
        first.append(1e3 * (time.perf_counter() - begin))
        if cold is None:
            cold = first[0]
        while batch is not None:
            images += len(batch[1])
            batch = next(batches, None)
    rate = images / (time.perf_counter() - start)
    return {"name": name, "workers": workers, "img_per_s": rate, "first_batch_ms": statistics.median(first), "cold_ms": cold}


def main():
    args = parse()
    torch.set_num_threads(1)
    rows = []
    for workers in range(args.workers + 1):
        rows.append(loop("loader", args, workers, False))
        rows.append(loop("+ jitter", args, workers, True))
    if args.json != "-":
        print(f"{'':12} {'workers':>8} {'img/s':>10} {'first batch, ms':>16} {'in epoch 0':>12}")
        for row in rows:
            print(f"{row['name']:12} {row['workers']:8} {row['img_per_s']:10.1f} {row['first_batch_ms']:16.1f} {row['cold_ms']:12.1f}")
    text = json.dumps({"batch": args.batch, "rows": rows})
    if args.json == "-":
        print(text)
    elif args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            out.write(text + "\n")


if __name__ == "__main__":
    main()
