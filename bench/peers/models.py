"""The models of bench/train_step in PyTorch, layer for layer.

resnet20 is He et al. 2015, section 4.2: 3x3 stem, three stages of 16, 32 and 64 channels, shortcuts A
(every second pixel, new channels zero). resnet18 and resnet50 are torchvision's, with a 3x3 stem
without pooling for 32x32 images ("cifar") or the 7x7 one ("imagenet"). lm512 is GPT-2 with 4 layers, 256 features,
8 heads, a vocabulary of 4,096, and 512 tokens in a sequence; lstm64 has two layers of 512 and 64 steps. Read next: train_step.py.
"""

import torch
import torch.nn.functional as F
from torch import nn


class Mlp(nn.Sequential):
    def __init__(self, hidden=512):
        super().__init__(
            nn.Flatten(), nn.Linear(784, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 10)
        )


class ShortcutA(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.pad = (outputs - inputs) // 2

    def forward(self, x):
        return F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.pad, self.pad))


def conv3x3(inputs, outputs, stride=1):
    return nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, inputs, width, stride, shortcut):
        super().__init__()
        self.conv1, self.bn1 = conv3x3(inputs, width, stride), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = conv3x3(width, width), nn.BatchNorm2d(width)
        self.shortcut = shortcut

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, inputs, width, stride, shortcut):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = conv3x3(width, width, stride), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.shortcut = shortcut

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        return F.relu(self.bn3(self.conv3(y)) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, block, depths, widths, stem, shortcut, classes):
        super().__init__()
        channels = widths[0]
        if stem == "imagenet":
            layers = [nn.Conv2d(3, channels, 7, 2, 3, bias=False), nn.BatchNorm2d(channels), nn.ReLU()]
            layers.append(nn.MaxPool2d(3, 2, 1))
        else:
            layers = [conv3x3(3, channels), nn.BatchNorm2d(channels), nn.ReLU()]
        for stage, (depth, width) in enumerate(zip(depths, widths)):
            for i in range(depth):
                stride = 2 if stage > 0 and i == 0 else 1
                outputs = width * block.expansion
                skip = nn.Identity()
                if stride != 1 or channels != outputs:
                    skip = ShortcutA(channels, outputs) if shortcut == "A" else self.projection(channels, outputs, stride)
                layers.append(block(channels, width, stride, skip))
                channels = outputs
        self.layers = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.fc = nn.Linear(channels, classes)

    @staticmethod
    def projection(inputs, outputs, stride):
        return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return self.fc(self.layers(x))


VOCABULARY = 4096


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.c_attn, self.c_proj = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.ln_2, self.c_fc, self.mlp_proj = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        n, length, width = x.shape
        parts = self.c_attn(self.ln_1(x)).chunk(3, -1)
        q, k, v = (part.view(n, length, self.heads, width // self.heads).transpose(1, 2) for part in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).reshape(n, length, width))
        return x + self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class LanguageModel(nn.Module):
    """Tokens (N, L) to logits (N L, vocabulary); the last layer's weight is that of the embedding."""

    def __init__(self, length, width=256, layers=4, heads=8):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, width), nn.Embedding(length, width)
        self.h = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.ln_f, self.lm_head = nn.LayerNorm(width), nn.Linear(width, VOCABULARY, bias=False)
        for part in (self.wte, self.wpe):
            nn.init.normal_(part.weight, 0, 0.02)
        self.lm_head.weight = self.wte.weight

    def forward(self, tokens):
        return self.lm_head(self.ln_f(self.h(self.wte(tokens) + self.wpe.weight))).flatten(0, 1)


class SequenceClassifier(nn.Module):
    """An LSTM of two layers over (N, T, 512); logits from its last output."""

    width = 512

    def __init__(self):
        super().__init__()
        self.lstm, self.fc = nn.LSTM(self.width, self.width, 2, batch_first=True), nn.Linear(self.width, 10)

    def forward(self, x):
        return self.fc(self.lstm(x)[0][:, -1])


def batch_of(name, shape, classes, batch):
    """Random inputs and targets."""
    if name.startswith("lm"):
        return torch.randint(0, VOCABULARY, (batch, *shape)), torch.randint(0, VOCABULARY, (batch * shape[0],))
    return torch.randn(batch, *shape), torch.randint(0, classes, (batch,))


def make(name, stem="cifar", hidden=512):
    """The model and the shape of one of its inputs."""
    classes, image = (1000, (3, 224, 224)) if stem == "imagenet" else (10, (3, 32, 32))
    wide = (64, 128, 256, 512)
    if name == "mlp":
        return Mlp(hidden), (1, 28, 28)
    if name.startswith("lm"):
        length = int(name[2:])
        return LanguageModel(length), (length,)
    if name.startswith("lstm"):
        return SequenceClassifier(), (int(name[4:]), SequenceClassifier.width)
    if name == "resnet20":
        return ResNet(BasicBlock, (3, 3, 3), (16, 32, 64), "cifar", "A", 10), (3, 32, 32)
    if name == "resnet18":
        return ResNet(BasicBlock, (2, 2, 2, 2), wide, stem, "B", classes), image
    if name == "resnet50":
        return ResNet(Bottleneck, (3, 4, 6, 3), wide, stem, "B", classes), image
    raise SystemExit(f"train_step.py: unknown model '{name}'; there are mlp, resnet20, resnet18, resnet50, lm512, lstm64")
