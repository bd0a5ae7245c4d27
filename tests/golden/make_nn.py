"""Goldens for nn/: python3 tests/golden/make_nn.py (needs torch).

Inputs, parameters and output gradients are not stored: both sides make them with `fill`, a hash of
the element's number (tests/support/fill.h is the same in C++). The cases are named after those in
tests/nn/layers_test.cpp, losses_test.cpp and models_test.cpp.
"""

import torch
from torch import nn
import torch.nn.functional as F

import golden
from golden import fill

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)


def layer_cases(out):
    def case(name, module, shape, scale=2.0, index=None):
        module.train()
        for k, p in enumerate(module.parameters()):
            p.data = fill(p.shape, k + 10)
        x = fill(shape, 0, scale) if index is None else index
        if index is None:
            x.requires_grad_()
        y = module(x)
        y.backward(fill(y.shape, 1))
        out[f"{name}.y"] = y
        if index is None:
            out[f"{name}.dx"] = x.grad
        for key, p in module.named_parameters():
            out[f"{name}.d.{key}"] = p.grad
        for key, b in module.named_buffers():
            out[f"{name}.buffer.{key}"] = b
        module.eval()
        with torch.no_grad():
            after = module(x)
        if not torch.equal(after, y):
            out[f"{name}.eval"] = after

    case("linear", nn.Linear(7, 5), (3, 7))
    case("linear_3d", nn.Linear(4, 3, bias=False), (2, 3, 4))
    case("conv2d", nn.Conv2d(3, 4, 3), (2, 3, 6, 5))
    case("conv2d_options", nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 2), dilation=(1, 2),
                                     groups=2), (2, 4, 7, 6))
    case("conv2d_depthwise", nn.Conv2d(4, 4, 3, padding=1, groups=4, bias=False), (1, 4, 5, 5))
    case("conv1d", nn.Conv1d(3, 4, 3), (2, 3, 7))
    case("conv1d_options", nn.Conv1d(4, 6, 2, stride=2, padding=2, dilation=3, groups=2, bias=False),
         (2, 4, 9))
    case("conv_transpose2d", nn.ConvTranspose2d(3, 4, 3), (2, 3, 4, 3))
    case("conv_transpose2d_options",
         nn.ConvTranspose2d(4, 6, (3, 2), stride=(2, 3), padding=(1, 0), output_padding=(1, 2), groups=2,
                            dilation=(1, 2)), (2, 4, 3, 4))
    case("conv_transpose2d_long_end",
         nn.ConvTranspose2d(2, 2, 2, stride=(1, 2), output_padding=(2, 1), bias=False, dilation=3), (1, 2, 3, 2))
    case("batch_norm1d", nn.BatchNorm1d(5), (6, 5))
    case("batch_norm1d_3d", nn.BatchNorm1d(3, affine=False), (4, 3, 5))
    case("batch_norm2d", nn.BatchNorm2d(3), (4, 3, 3, 2))
    case("batch_norm2d_options", nn.BatchNorm2d(3, eps=1e-3, momentum=0.3), (4, 3, 3, 2))
    case("batch_norm2d_average", nn.BatchNorm2d(2, momentum=None), (4, 2, 3, 2))
    case("batch_norm2d_untracked", nn.BatchNorm2d(3, track_running_stats=False), (4, 3, 3, 2))
    case("group_norm", nn.GroupNorm(2, 6), (2, 6, 3, 2))
    case("group_norm_plain", nn.GroupNorm(3, 6, affine=False, eps=1e-3), (2, 6, 4))
    case("layer_norm", nn.LayerNorm(6), (4, 6))
    case("layer_norm_2d", nn.LayerNorm((3, 4), eps=1e-3, bias=False), (2, 3, 4))
    index = torch.tensor([[1, 4, 1], [0, 6, 3]])
    case("embedding", nn.Embedding(7, 3), None, index=index)
    case("embedding_padding", nn.Embedding(7, 3, padding_idx=-6), None, index=index)
    case("relu", nn.ReLU(), (3, 5))
    case("leaky_relu", nn.LeakyReLU(0.2), (3, 5))
    case("gelu", nn.GELU(), (3, 5))
    case("gelu_tanh", nn.GELU(approximate="tanh"), (3, 5))
    case("silu", nn.SiLU(), (3, 5))
    case("sigmoid", nn.Sigmoid(), (3, 5))
    case("tanh", nn.Tanh(), (3, 5))
    case("softmax", nn.Softmax(dim=1), (3, 5, 2))
    case("log_softmax", nn.LogSoftmax(dim=-1), (3, 5))
    case("max_pool2d", nn.MaxPool2d(3, stride=2, padding=1), (2, 2, 7, 6))
    case("avg_pool2d", nn.AvgPool2d(2), (2, 2, 6, 4))
    case("avg_pool2d_options", nn.AvgPool2d(3, stride=2, padding=1, count_include_pad=False),
         (2, 2, 7, 6))
    case("adaptive_avg_pool2d", nn.AdaptiveAvgPool2d((3, 2)), (2, 2, 7, 5))
    case("upsample", nn.Upsample(scale_factor=2), (1, 2, 3, 2))
    case("flatten", nn.Flatten(), (2, 3, 2, 2))
    case("sequential", nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.GELU(), nn.Linear(6, 2)),
         (5, 4))

    case("batch_norm3d", nn.BatchNorm3d(2), (3, 2, 2, 1, 2))
    case("instance_norm1d", nn.InstanceNorm1d(3), (2, 3, 4))
    case("instance_norm2d", nn.InstanceNorm2d(3, eps=1e-3, momentum=0.3, affine=True, track_running_stats=True), (2, 3, 2, 3))
    case("instance_norm3d_unbatched", nn.InstanceNorm3d(2, affine=True), (2, 2, 1, 3))
    case("rms_norm", nn.RMSNorm(5), (3, 5))
    case("rms_norm_2d", nn.RMSNorm((3, 2), eps=1e-3, elementwise_affine=False), (2, 3, 2))
    case("local_response_norm", nn.LocalResponseNorm(4, alpha=0.5, beta=0.6, k=1.5), (2, 5, 2, 2))
    case("local_response_norm_1d", nn.LocalResponseNorm(3), (2, 5, 3))
    case("max_pool1d", nn.MaxPool1d(3, stride=2, padding=1, dilation=2), (2, 2, 9))
    case("max_pool1d_ceil", nn.MaxPool1d(3, stride=2, ceil_mode=True), (1, 2, 8))
    case("max_pool2d_dilation", nn.MaxPool2d((2, 3), stride=2, padding=1, dilation=(3, 2), ceil_mode=True), (1, 2, 8, 10))
    case("avg_pool1d", nn.AvgPool1d(3, stride=2, padding=1, count_include_pad=False), (2, 2, 7))
    case("lp_pool1d", nn.LPPool1d(2, 3, stride=2), (2, 2, 7))
    case("lp_pool2d", nn.LPPool2d(4, (2, 3)), (1, 2, 5, 6))
    case("adaptive_avg_pool1d", nn.AdaptiveAvgPool1d(3), (2, 2, 7))
    case("adaptive_max_pool1d", nn.AdaptiveMaxPool1d(3), (2, 2, 7))
    case("adaptive_max_pool2d", nn.AdaptiveMaxPool2d((3, 2)), (2, 2, 7, 5))
    case("max_pool3d", nn.MaxPool3d((2, 3, 2), stride=(1, 2, 2), padding=(1, 1, 0), dilation=(1, 1, 2)), (1, 2, 3, 5, 5))
    case("avg_pool3d", nn.AvgPool3d((2, 3, 2), stride=2, padding=1, ceil_mode=True, count_include_pad=False), (1, 2, 4, 4, 5))
    case("avg_pool3d_include", nn.AvgPool3d((2, 3, 2), stride=2, padding=1, ceil_mode=True), (1, 2, 4, 4, 5))
    case("adaptive_avg_pool3d", nn.AdaptiveAvgPool3d((2, 3, 2)), (1, 2, 3, 5, 4))
    case("adaptive_max_pool3d", nn.AdaptiveMaxPool3d((2, 3, 2)), (1, 2, 3, 5, 4))
    case("unfold", nn.Unfold((2, 3), dilation=(2, 1), padding=(1, 0), stride=(1, 2)), (2, 2, 4, 5))
    case("fold", nn.Fold((4, 5), (2, 3), dilation=(2, 1), padding=(1, 0), stride=(1, 2)), (2, 12, 8))
    case("pixel_shuffle", nn.PixelShuffle(2), (2, 8, 2, 3))
    case("pixel_unshuffle", nn.PixelUnshuffle(2), (1, 2, 3, 4, 6))
    case("channel_shuffle", nn.ChannelShuffle(3), (2, 6, 2))
    case("unflatten", nn.Unflatten(1, (2, -1)), (2, 6))
    case("embedding_bag", nn.EmbeddingBag(7, 3), None, index=index)
    case("embedding_bag_max", nn.EmbeddingBag(7, 3, mode="max"), None, index=index)
    case("embedding_bag_sum_padding", nn.EmbeddingBag(7, 3, mode="sum", padding_idx=1), None, index=index)

    case("conv3d", nn.Conv3d(2, 3, 2), (2, 2, 3, 4, 3))
    case("conv3d_options", nn.Conv3d(4, 6, (3, 2, 1), stride=(2, 1, 2), padding=(1, 0, 2), dilation=(1, 2, 3), groups=2, bias=False),
         (1, 4, 5, 4, 3))
    case("conv3d_same", nn.Conv3d(2, 2, (2, 3, 4), padding="same"), (1, 2, 3, 3, 4))
    case("conv3d_circular", nn.Conv3d(1, 2, 3, padding=(1, 0, 1), padding_mode="circular"), (1, 1, 3, 3, 2))
    case("conv3d_unbatched", nn.Conv3d(2, 2, 2, padding=1), (2, 2, 3, 2))
    case("conv1d_unbatched", nn.Conv1d(2, 3, 2, padding=1, padding_mode="reflect"), (2, 4))
    case("conv2d_unbatched", nn.Conv2d(2, 3, 2), (2, 4, 3))
    case("conv_transpose1d", nn.ConvTranspose1d(3, 4, 3), (2, 3, 5))
    case("conv_transpose1d_options", nn.ConvTranspose1d(4, 6, 3, stride=3, padding=2, output_padding=2, groups=2, dilation=2, bias=False),
         (2, 4, 4))
    case("conv_transpose2d_unbatched", nn.ConvTranspose2d(2, 3, 2, stride=2), (2, 2, 3))
    case("conv_transpose3d", nn.ConvTranspose3d(2, 3, 2), (2, 2, 3, 2, 3))
    case("conv_transpose3d_options",
         nn.ConvTranspose3d(4, 2, (3, 2, 2), stride=(2, 3, 1), padding=(1, 0, 2), output_padding=(1, 2, 0), groups=2, dilation=(1, 2, 3)),
         (1, 4, 3, 2, 3))
    case("conv_transpose3d_long_end", nn.ConvTranspose3d(1, 2, 2, stride=1, output_padding=2, dilation=3, bias=False), (1, 2, 1, 2))
    case("avg_pool2d_divisor", nn.AvgPool2d(3, stride=2, padding=1, ceil_mode=True, divisor_override=-5), (1, 2, 6, 5))
    case("avg_pool3d_divisor", nn.AvgPool3d(2, stride=(1, 2, 2), padding=(1, 0, 1), divisor_override=3), (1, 2, 3, 4, 3))
    case("lp_pool3d", nn.LPPool3d(2, (2, 1, 2), stride=1), (1, 2, 3, 2, 3))
    case("max_pool1d_unbatched", nn.MaxPool1d(2), (2, 5))
    case("max_pool2d_unbatched", nn.MaxPool2d(2), (2, 5, 4))
    case("max_pool3d_unbatched", nn.MaxPool3d(2), (2, 3, 4, 5))
    case("avg_pool2d_unbatched", nn.AvgPool2d(2), (2, 5, 4))
    case("adaptive_avg_pool2d_unbatched", nn.AdaptiveAvgPool2d((3, 2)), (2, 5, 4))
    case("adaptive_max_pool2d_unbatched", nn.AdaptiveMaxPool2d((3, 2)), (2, 5, 4))
    case("upsample_bilinear", nn.Upsample(scale_factor=(2.5, 2), mode="bilinear"), (1, 2, 3, 2))
    case("upsample_size", nn.Upsample(5), (1, 2, 3, 2))
    case("upsampling_nearest2d", nn.UpsamplingNearest2d(scale_factor=3), (1, 2, 3, 2))
    case("upsampling_bilinear2d", nn.UpsamplingBilinear2d(size=(5, 3)), (1, 2, 3, 2))

    # The fused form of batch norm.
    bn = nn.BatchNorm2d(3)
    for k, p in enumerate(bn.parameters()):
        p.data = fill(p.shape, k + 10)
    x = fill((4, 3, 3, 2), 0, 2).requires_grad_()
    residual = fill((4, 3, 3, 2), 5).requires_grad_()
    y = F.relu(bn(x) + residual)
    y.backward(fill(y.shape, 1))
    out["batch_norm2d_fused.y"] = y
    out["batch_norm2d_fused.dx"] = x.grad
    out["batch_norm2d_fused.dresidual"] = residual.grad
    out["batch_norm2d_fused.dweight"] = bn.weight.grad
    out["batch_norm2d_fused.dbias"] = bn.bias.grad


def loss_cases(out):
    def case(name, loss, x, y):
        x = x.clone().requires_grad_()
        value = loss(x, y)
        value.backward(fill(value.shape, 1))
        out[f"{name}.loss"] = value
        out[f"{name}.dx"] = x.grad

    logits, labels = fill((6, 4), 0, 3), torch.tensor([0, 3, 2, 2, 1, 0])
    images, image_labels = fill((2, 3, 2, 2), 0, 3), torch.tensor([[[0, 1], [2, 1]], [[1, 1], [0, 2]]])
    weight = torch.tensor([0.5, 2.0, 1.0, 0.25])
    log_probs = F.log_softmax(logits, 1)
    for reduction in ("mean", "sum", "none"):
        case(f"cross_entropy.{reduction}", nn.CrossEntropyLoss(reduction=reduction), logits, labels)
        case(f"cross_entropy_all.{reduction}",
             nn.CrossEntropyLoss(weight=weight, ignore_index=2, label_smoothing=0.1,
                                 reduction=reduction), logits, labels)
        case(f"cross_entropy_image.{reduction}",
             nn.CrossEntropyLoss(label_smoothing=0.2, reduction=reduction), images, image_labels)
        case(f"nll.{reduction}", nn.NLLLoss(weight=weight, ignore_index=3, reduction=reduction),
             log_probs, labels)
        x, y = fill((3, 4), 0, 2), fill((3, 4), 2, 2)
        case(f"mse.{reduction}", nn.MSELoss(reduction=reduction), x, y)
        case(f"l1.{reduction}", nn.L1Loss(reduction=reduction), x, y)
        case(f"smooth_l1.{reduction}", nn.SmoothL1Loss(beta=0.7, reduction=reduction), x, y)
        p = (fill((3, 4), 2) + 1) / 2
        case(f"bce_with_logits.{reduction}", nn.BCEWithLogitsLoss(reduction=reduction), x * 20, p)
        log_p = F.log_softmax(x, 1)
        q = F.softmax(y, 1)
        q[0, 1] = 0
        case(f"kl_div.{reduction}", nn.KLDivLoss(reduction=reduction), log_p, q)
        case(f"kl_div_log.{reduction}", nn.KLDivLoss(reduction=reduction, log_target=True), log_p,
             F.log_softmax(y, 1))
    case("kl_div.batchmean", nn.KLDivLoss(reduction="batchmean"), log_p, q)
    case("kl_div_log.batchmean", nn.KLDivLoss(reduction="batchmean", log_target=True), log_p,
         F.log_softmax(y, 1))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten()
        self.linear_relu_stack = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512),
                                               nn.ReLU(), nn.Linear(512, 10))

    def forward(self, x):
        return self.linear_relu_stack(self.flatten(x))


def conv(i, o, k, stride=1):
    return nn.Conv2d(i, o, k, stride, padding=k // 2, bias=False)


class Pad(nn.Module):
    """Shortcut A."""

    def __init__(self, channels, stride):
        super().__init__()
        self.channels, self.stride = channels, stride

    def forward(self, x):
        half = (self.channels - x.shape[1]) // 2
        return F.pad(x[:, :, ::self.stride, ::self.stride], (0, 0, 0, 0, half, half))


class Block(nn.Module):
    def __init__(self, i, width, stride, bottleneck, shortcut):
        super().__init__()
        o = width * 4 if bottleneck else width
        self.bottleneck = bottleneck
        if bottleneck:
            self.conv1, self.bn1 = conv(i, width, 1), nn.BatchNorm2d(width)
            self.conv2, self.bn2 = conv(width, width, 3, stride), nn.BatchNorm2d(width)
            self.conv3, self.bn3 = conv(width, o, 1), nn.BatchNorm2d(o)
        else:
            self.conv1, self.bn1 = conv(i, width, 3, stride), nn.BatchNorm2d(width)
            self.conv2, self.bn2 = conv(width, width, 3), nn.BatchNorm2d(width)
        self.downsample = None
        if stride != 1 or i != o:
            self.downsample = (Pad(o, stride) if shortcut == "a" else
                               nn.Sequential(conv(i, o, 1, stride), nn.BatchNorm2d(o)))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        if self.bottleneck:
            y = self.bn3(self.conv3(F.relu(y)))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, blocks, widths, bottleneck, stem, shortcut, classes):
        super().__init__()
        i = widths[0]
        self.conv1 = (nn.Conv2d(3, i, 7, 2, 3, bias=False) if stem == "imagenet" else conv(3, i, 3))
        self.bn1 = nn.BatchNorm2d(i)
        self.pool = stem == "imagenet"
        self.stages = len(blocks)
        for s, (n, width) in enumerate(zip(blocks, widths)):
            stage = []
            for b in range(n):
                stage.append(Block(i, width, 2 if s > 0 and b == 0 else 1, bottleneck, shortcut))
                i = width * 4 if bottleneck else width
            setattr(self, f"layer{s + 1}", nn.Sequential(*stage))
        self.fc = nn.Linear(i, classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        if self.pool:
            x = F.max_pool2d(x, 3, 2, 1)
        for s in range(self.stages):
            x = getattr(self, f"layer{s + 1}")(x)
        return self.fc(x.mean((2, 3)))


def model_cases(out):
    def case(name, model, shape, labels, details=True):
        out[f"{name}.parameters"] = torch.tensor(sum(p.numel() for p in model.parameters()))
        names = {key: p.shape for key, p in model.state_dict().items()}
        if not details:
            return
        for key, sizes in names.items():
            out[f"{name}.shape.{key}"] = torch.tensor(list(sizes), dtype=torch.int64)
        golden.fill_parameters(model)
        model.train()
        x = fill(shape, 0, 2)
        logits = model(x)
        loss = F.cross_entropy(logits, torch.tensor(labels))
        loss.backward()
        out[f"{name}.logits"], out[f"{name}.loss"] = logits[:, :10], loss
        for k, (key, p) in enumerate(model.named_parameters()):
            g = p.grad
            out[f"{name}.grad.{key}"] = torch.stack([g.norm(), (g * fill(g.shape, k + 5000)).sum()])
        model.eval()
        with torch.no_grad():
            out[f"{name}.eval"] = model(x)[:, :10]

    cifar, four = (16, 32, 64), (64, 128, 256, 512)
    case("mlp", Mlp(), (3, 1, 28, 28), [1, 9, 4])
    case("resnet20a", ResNet((3, 3, 3), cifar, False, "cifar", "a", 10), (2, 3, 16, 16), [3, 7])
    case("resnet20b", ResNet((3, 3, 3), cifar, False, "cifar", "b", 10), (2, 3, 16, 16), [3, 7])
    for depth in (32, 44, 56, 110):
        n = (depth - 2) // 6
        case(f"resnet{depth}a", ResNet((n, n, n), cifar, False, "cifar", "a", 10), None, None, False)
    case("resnet18", ResNet((2, 2, 2, 2), four, False, "cifar", "b", 10), (2, 3, 16, 16), [3, 7])
    case("resnet50", ResNet((3, 4, 6, 3), four, True, "imagenet", "b", 1000), (2, 3, 48, 48), [3, 700])


for file, make in (("nn_layers.txt", layer_cases), ("nn_losses.txt", loss_cases),
                   ("nn_models.txt", model_cases)):
    tensors = {}
    make(tensors)
    golden.write(file, tensors)
