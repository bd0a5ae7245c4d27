"""Goldens for data/sampler.cpp and data/transforms.cpp: python3 tests/golden/make_samplers.py (needs torch).

ordered.nN.wW.dD    shares of W ranks in N samples, one rank a row; D = drop_last
shuffled.…          the same for PyTorch's permutation, which is permutation.…
batches.nN.bB.dD    batches of SequentialSampler(N), one a row, filled up with -1
split.nN.shares     lengths of random_split(range(N), shares), shares in hundredths
normalized          (byte / 255 - mean) / std for each byte, one channel a row
"""

import torch
from torch.utils.data import BatchSampler, DistributedSampler, SequentialSampler, random_split

import golden

tensors = {}
for n in (1, 2, 3, 4, 7, 11, 12, 13, 101):
    for world in (1, 2, 3, 4, 5):
        for drop in (False, True):
            case = f"n{n}.w{world}.d{int(drop)}"

            def shares(shuffle, epoch):
                rows = []
                for rank in range(world):
                    sampler = DistributedSampler(range(n), world, rank, shuffle=shuffle, seed=3, drop_last=drop)
                    sampler.set_epoch(epoch)
                    rows.append(list(sampler))
                return torch.tensor(rows, dtype=torch.int64).reshape(world, -1)

            tensors[f"ordered.{case}"] = shares(False, 0)
            if n <= 13:
                generator = torch.Generator()
                generator.manual_seed(3 + 2)
                tensors[f"permutation.{case}"] = torch.randperm(n, generator=generator)
                tensors[f"shuffled.{case}"] = shares(True, 2)

for n in (0, 1, 4, 7, 12, 13):
    for batch in (1, 3, 4, 13, 20):
        for drop in (False, True):
            rows = list(BatchSampler(SequentialSampler(range(n)), batch, drop))
            table = torch.full((len(rows), batch), -1, dtype=torch.int64)
            for i, row in enumerate(rows):
                table[i, :len(row)] = torch.tensor(row)
            tensors[f"batches.n{n}.b{batch}.d{int(drop)}"] = table

for n in (1, 7, 10, 101):
    for shares in ((100,), (50, 50), (90, 10), (33, 33, 34), (10, 20, 30, 40), (0, 100), (25, 25, 25, 25)):
        parts = random_split(range(n), [share / 100 for share in shares])
        tensors[f"split.n{n}.{'.'.join(map(str, shares))}"] = torch.tensor([len(part) for part in parts])

pixels = torch.arange(256, dtype=torch.uint8).expand(3, 1, 256).to(torch.float32).div(255)  # ToTensor
mean = torch.tensor([0.4914, 0.4822, 0.4465]).view(-1, 1, 1)
std = torch.tensor([0.2470, 0.2435, 0.2616]).view(-1, 1, 1)
tensors["normalized"] = pixels.sub(mean).div(std).reshape(3, 256)  # Normalize

golden.write("samplers.txt", tensors)
