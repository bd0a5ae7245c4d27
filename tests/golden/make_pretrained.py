"""Goldens for tests/extras/hub/parity: python3 tests/golden/make_pretrained.py (needs torch, and $RONDO_DATA
with weights/ and the test sets of CIFAR-10 and MNIST; without it nothing is written).

PyTorch's logits for the first test images with each of the pretrained weights. The networks are
written here from their papers and keys, not copied from another project.
"""

import gzip
import os
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

import golden

COUNT = 64
root = pathlib.Path(os.environ.get("RONDO_DATA", "/nowhere"))


def images(values, shape, mean, std):
    x = torch.tensor(np.frombuffer(values, np.uint8).reshape(COUNT, *shape)).float() / 255
    return (x - torch.tensor(mean).view(1, -1, 1, 1)) / torch.tensor(std).view(1, -1, 1, 1)


def cifar10(mean, std):
    record = 1 + 3 * 32 * 32
    data = (root / "cifar-10-batches-bin" / "test_batch.bin").read_bytes()[: COUNT * record]
    pixels = b"".join(data[i + 1 : i + record] for i in range(0, len(data), record))
    return images(pixels, (3, 32, 32), mean, std)


def mnist():
    data = gzip.decompress((root / "MNIST" / "raw" / "t10k-images-idx3-ubyte.gz").read_bytes())
    return images(data[16 : 16 + COUNT * 28 * 28], (1, 28, 28), [0.1307], [0.3081])


class Net:
    """A network whose layers have the names in the weights."""

    def __init__(self, state):
        self.state = state

    def conv(self, name, x, **options):
        return F.conv2d(x, self.state[name + ".weight"], self.state.get(name + ".bias"), **options)

    def linear(self, name, x):
        return F.linear(x, self.state[name + ".weight"], self.state[name + ".bias"])

    def norm(self, name, x):
        s = self.state
        mean, variance = s[name + ".running_mean"], s[name + ".running_var"]
        return F.batch_norm(x, mean, variance, s[name + ".weight"], s[name + ".bias"])


def resnet20(state, x):
    net = Net({key.removeprefix("module."): value for key, value in state.items()})
    x = F.relu(net.norm("bn1", net.conv("conv1", x, padding=1)))
    for stage in (1, 2, 3):
        for block in (0, 1, 2):
            name = f"layer{stage}.{block}"
            stride = 2 if stage > 1 and block == 0 else 1
            y = F.relu(net.norm(name + ".bn1", net.conv(name + ".conv1", x, stride=stride, padding=1)))
            y = net.norm(name + ".bn2", net.conv(name + ".conv2", y, padding=1))
            if stride == 2 and name + ".downsample.0.weight" in net.state:
                x = net.norm(name + ".downsample.1", net.conv(name + ".downsample.0", x, stride=2))
            elif stride == 2:  # option A: every second pixel, and new zero channels on both sides
                more = y.shape[1] - x.shape[1]
                x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, more // 2, more - more // 2))
            x = F.relu(x + y)
    return net.linear("linear" if "linear.weight" in net.state else "fc", x.mean((2, 3)))


def mnist_cnn(state, x):
    net = Net(state)
    for name in ("conv1", "conv2", "conv3"):
        x = F.relu(net.conv(name, x))
    x = F.relu(net.linear("fc1", net.norm("norm1", x).flatten(1)))
    return net.norm("norm2", net.linear("fc2", x))


if root.joinpath("weights").is_dir():
    weights = root / "weights"
    legacy = torch.load(weights / "cifar10_resnet20_legacy.th", map_location="cpu")["state_dict"]
    modern = torch.load(weights / "cifar10_resnet20_zip.pth", map_location="cpu")
    golden.write("pretrained.txt", {
        "cifar10_resnet20_legacy.th": resnet20(legacy, cifar10([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])),
        "cifar10_resnet20_zip.pth": resnet20(modern, cifar10([0.4914, 0.4822, 0.4465], [0.2023, 0.1994, 0.2010])),
        "mnist_cnn.pt": mnist_cnn(torch.load(weights / "mnist_cnn.pt", map_location="cpu"), mnist()),
        "mnist_cnn.safetensors": mnist_cnn(load_file(weights / "mnist_cnn.safetensors"), mnist()),
    })
