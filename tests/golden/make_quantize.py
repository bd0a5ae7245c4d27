"""Goldens for quantisation: python3 tests/golden/make_quantize.py (needs torch).

Both sides make inputs and weights with `fill`. Stored are the results of PyTorch's observers, of its
quantisers, and of its convolution with a batch norm in quantisation-aware training.
"""

import warnings

import torch
import torch.ao.quantization as aq
from torch.ao.nn.intrinsic.qat import ConvBn2d
from torch.ao.nn.qat import Linear

import golden
from golden import fill

warnings.simplefilter("ignore")
torch.set_num_threads(1)
tensors = {}


def fill32(shape, key, scale=1.0, shift=0.0):
    return fill(shape, key, scale, shift).float()


def qparams(name, observer):
    scale, zero_point = observer.calculate_qparams()
    tensors[f"{name}.scale"] = scale.float()
    tensors[f"{name}.zero_point"] = zero_point.long()


# The straight-through estimator, with clipping at both ends.
for name, scale, zero_point, low, high in [("u8", 0.01, 100, 0, 255), ("s8", 0.0078125, 0, -128, 127),
                                           ("four_bits", 0.25, 3, 0, 15)]:
    x = fill32((4, 33), 1, 2.0).requires_grad_()
    y = torch.fake_quantize_per_tensor_affine(x, scale, zero_point, low, high)
    y.backward(fill32((4, 33), 2))
    tensors[f"fake.{name}.y"] = y
    tensors[f"fake.{name}.dx"] = x.grad
w = fill32((5, 3, 2), 3, 2.0).requires_grad_()
scales = torch.tensor([0.01, 0.02, 0.004, 0.1, 0.015625])
y = torch.fake_quantize_per_channel_affine(w, scales, torch.zeros(5, dtype=torch.int32), 0, -128, 127)
y.backward(fill32((5, 3, 2), 4))
tensors["fake.channels.y"] = y
tensors["fake.channels.dw"] = w.grad

# Observers, over three batches with increasing range.
for name, observer in [("min_max", aq.MinMaxObserver()),
                       ("moving_average", aq.MovingAverageMinMaxObserver(averaging_constant=0.25))]:
    for i in range(3):
        observer(fill32((2, 50), i, 1.0 + i, 0.25 * i))
    qparams(f"observer.{name}", observer)
observer = aq.MinMaxObserver()
observer(fill32((2, 50), 1, 0.5, 2.0))  # all positive: the range is extended to include 0
qparams("observer.positive", observer)
q = torch.quantize_per_tensor(fill32((2, 50), 1, 0.7, 1.9), *observer.calculate_qparams(), torch.quint8)
tensors["quantized.positive"] = q.int_repr()

# Weights per channel.
weight = fill32((6, 4, 3, 3), 5)
observer = aq.PerChannelMinMaxObserver(dtype=torch.qint8, qscheme=torch.per_channel_symmetric,
                                       quant_min=-127, quant_max=127)
observer(weight)
scale, zero_point = observer.calculate_qparams()
tensors["weight.scale"] = scale.float()
tensors["weight.int8"] = torch.quantize_per_channel(weight, scale, zero_point, 0, torch.qint8).int_repr()

# A convolution with its batch norm, trained with the rounding of int8: two steps, so that the second is scaled by
# changed statistics, then evaluation.
qconfig = aq.QConfig(
    activation=aq.FakeQuantize.with_args(observer=aq.MovingAverageMinMaxObserver, quant_min=0, quant_max=255),
    # Not PyTorch's default, in which a weight's range is a moving average of 0.01 that lags behind.
    weight=aq.FakeQuantize.with_args(observer=aq.MovingAveragePerChannelMinMaxObserver,
                                     averaging_constant=1.0, quant_min=-127, quant_max=127,
                                     dtype=torch.qint8, qscheme=torch.per_channel_symmetric))
for bias in (False, True):
    name = "qat.bias" if bias else "qat"
    conv = ConvBn2d(4, 6, 3, padding=1, stride=2, bias=bias, qconfig=qconfig)
    before = qconfig.activation()
    conv.weight.data = fill32(conv.weight.shape, 10)
    if bias:
        conv.bias.data = fill32(conv.bias.shape, 11)
    conv.bn.weight.data = fill32((6,), 12, 0.5, 1.0)
    conv.bn.bias.data = fill32((6,), 13)
    conv.train()
    for i in range(2):
        conv.zero_grad()
        x = fill32((3, 4, 5, 5), 20 + i, 1.0, 0.25).requires_grad_()
        y = conv(before(x))
        y.backward(fill32(tuple(y.shape), 30 + i))
    tensors[f"{name}.y"] = y
    tensors[f"{name}.dx"] = x.grad
    tensors[f"{name}.dweight"] = conv.weight.grad
    tensors[f"{name}.dgamma"] = conv.bn.weight.grad
    tensors[f"{name}.dbeta"] = conv.bn.bias.grad
    tensors[f"{name}.running_var"] = conv.bn.running_var
    conv.eval()
    before.disable_observer()
    tensors[f"{name}.eval"] = conv(before(fill32((3, 4, 5, 5), 22)))

linear = Linear(7, 5, qconfig=qconfig)
before = qconfig.activation()
linear.weight.data = fill32((5, 7), 10)
linear.bias.data = fill32((5,), 11)
x = fill32((3, 7), 20).requires_grad_()
y = linear(before(x))
y.backward(fill32((3, 5), 30))
tensors["qat.linear.y"] = y
tensors["qat.linear.dx"] = x.grad
tensors["qat.linear.dweight"] = linear.weight.grad

golden.write("quantize.txt", tensors)
