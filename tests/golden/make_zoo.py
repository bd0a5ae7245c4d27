"""Goldens for the models of torchvision: python3 tests/golden/make_zoo.py (needs torch and torchvision).

Small variants of each model, whose parameters both sides fill (fill_parameters in tests/support/model_case.h):
  NAME.logits, NAME.eval   the outputs in training and in evaluation
  NAME.gradients           for each parameter the product of its gradient with a fixed tensor, in order
  NAME.dx                  likewise for the input
  NAME.keys                a hash of the names and shapes in the state dict
For the full models, "full.NAME", only the number of parameters and the hash. The U-Net is not torchvision's.
"""

import torch
import torch.nn.functional as F
import torchvision.models as tv
from torch import nn
from torchvision.models import convnext, densenet, efficientnet, vgg

import golden
from golden import fill

torch.set_num_threads(1)
tensors = {}


def keys_hash(model):
    """FNV-1a, 64 bits, as a signed number."""
    h = 0xCBF29CE484222325
    for key, p in model.state_dict().items():
        for byte in f"{key}{list(p.shape)}\n".encode():
            h = (h ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return torch.tensor(h - (1 << 64) if h >> 63 else h)


def case(name, model, shape):
    model = model.double()
    tensors[f"{name}.keys"] = keys_hash(model)
    golden.fill_parameters(model)
    model.train()
    x = fill(shape, 0, 2).requires_grad_()
    logits = model(x)
    logits.backward(fill(logits.shape, 1))
    tensors[f"{name}.logits"] = logits
    tensors[f"{name}.gradients"] = torch.stack(
        [(p.grad * fill(p.shape, k + 5000)).sum() for k, p in enumerate(model.parameters())])
    tensors[f"{name}.dx"] = (x.grad * fill(shape, 2)).sum()
    model.eval()
    with torch.no_grad():
        tensors[f"{name}.eval"] = model(x)


def full(name):
    with torch.device("meta"):
        model = getattr(tv, name)()
    tensors[f"full.{name}.parameters"] = torch.tensor(sum(p.numel() for p in model.parameters()))
    tensors[f"full.{name}.keys"] = keys_hash(model)


def narrow_vgg(layers, batch_norm):
    widths = [c if c == "M" else c // 16 for c in vgg.cfgs[layers]]
    model = vgg.VGG(vgg.make_layers(widths, batch_norm), num_classes=7, dropout=0)
    hidden = 4096 // 16
    model.classifier = nn.Sequential(nn.Linear(32 * 7 * 7, hidden), nn.ReLU(), nn.Dropout(0), nn.Linear(hidden, hidden),
                                     nn.ReLU(), nn.Dropout(0), nn.Linear(hidden, 7))
    return model


case("vgg11_bn", narrow_vgg("A", True), (2, 3, 64, 64))
case("vgg16", narrow_vgg("D", False), (1, 3, 32, 32))
case("mobilenet_v2", tv.MobileNetV2(num_classes=7, width_mult=0.25, dropout=0), (2, 3, 96, 96))
settings, last = efficientnet._efficientnet_conf("efficientnet_b0", width_mult=0.25, depth_mult=0.5)
case("efficientnet", tv.EfficientNet(settings, 0.0, 0.0, num_classes=7, last_channel=last), (2, 3, 96, 96))
settings = [convnext.CNBlockConfig(i, o, n) for i, o, n in ((8, 16, 1), (16, 24, 1), (24, 32, 2), (32, None, 1))]
case("convnext", tv.ConvNeXt(settings, 0.0, num_classes=7), (2, 3, 64, 64))
case("densenet", tv.DenseNet(4, (1, 2, 2, 2), 8, bn_size=2, num_classes=7), (2, 3, 64, 64))
case("vit", tv.VisionTransformer(16, 4, 2, 2, 16, 32, num_classes=7), (2, 3, 16, 16))
for name in ("mobilenet_v2", "efficientnet_b0", "convnext_tiny", "densenet121", "vit_b_16", "vgg11", "vgg16_bn"):
    full(name)


class DoubleConv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.double_conv = nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(),
                                         nn.Conv2d(o, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU())

    def forward(self, x):
        return self.double_conv(x)


class Down(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.maxpool_conv = nn.Sequential(nn.MaxPool2d(2), DoubleConv(i, o))

    def forward(self, x):
        return self.maxpool_conv(x)


class Up(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.up = nn.ConvTranspose2d(i, i // 2, 2, stride=2)
        self.conv = DoubleConv(i, o)

    def forward(self, below, across):
        y = self.up(below)
        high, wide = across.shape[2] - y.shape[2], across.shape[3] - y.shape[3]
        y = F.pad(y, [wide // 2, wide - wide // 2, high // 2, high - high // 2])
        return self.conv(torch.cat([across, y], 1))


class Out(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.conv = nn.Conv2d(i, o, 1)

    def forward(self, x):
        return self.conv(x)


class UNet(nn.Module):
    def __init__(self, channels, classes, width):
        super().__init__()
        self.inc = DoubleConv(channels, width)
        for i in range(4):
            setattr(self, f"down{i + 1}", Down(width << i, width << i + 1))
        for i in range(4):
            setattr(self, f"up{i + 1}", Up(width << 4 - i, width << 3 - i))
        self.outc = Out(width, classes)

    def forward(self, x):
        across = [self.inc(x)]
        for down in (self.down1, self.down2, self.down3, self.down4):
            across.append(down(across[-1]))
        y = across.pop()
        for up in (self.up1, self.up2, self.up3, self.up4):
            y = up(y, across.pop())
        return self.outc(y)


case("unet", UNet(3, 1, 4), (2, 3, 18, 35))
golden.write("zoo.txt", tensors)
