"""Goldens for tests/nn/print_test.cpp: python3 tests/golden/make_model_print.py (needs torch). What PyTorch prints for models."""

import torch
import torch.nn as nn

import golden

layers = [
    nn.Conv3d(2, 4, 3, stride=(1, 2, 1), padding=1), nn.Conv3d(2, 4, (1, 2, 3), padding="same", bias=False),
    nn.Conv3d(2, 4, 3, padding=(1, 0, 2), padding_mode="circular"), nn.ConvTranspose1d(2, 4, 3, stride=2, output_padding=1),
    nn.ConvTranspose3d(2, 4, 3, groups=2, dilation=2),
    nn.ReLU6(), nn.RReLU(), nn.ELU(), nn.SELU(), nn.CELU(0.5), nn.GELU(), nn.GELU("tanh"), nn.GLU(), nn.SiLU(), nn.Mish(), nn.Sigmoid(),
    nn.LogSigmoid(), nn.Tanh(), nn.Hardtanh(), nn.Hardtanh(-2.0, 2.5), nn.Hardsigmoid(), nn.Hardswish(), nn.Hardshrink(), nn.Softshrink(0.25),
    nn.Tanhshrink(), nn.Threshold(0.1, 20.0), nn.Threshold(-1e16, 1e-5), nn.Softplus(), nn.Softsign(), nn.Softmax(1), nn.Softmax2d(),
    nn.Softmin(1), nn.LogSoftmax(-1), nn.PReLU(3),
    nn.Dropout1d(), nn.Dropout2d(0.2), nn.Dropout3d(), nn.AlphaDropout(), nn.FeatureAlphaDropout(),
    nn.MaxPool1d(2), nn.MaxPool1d(3, 2, 1, ceil_mode=True), nn.MaxPool3d(2), nn.MaxPool3d((1, 2, 3), 2), nn.AvgPool1d(2), nn.AvgPool1d(3, 2, 1),
    nn.AvgPool2d((2, 3)), nn.AvgPool3d(2), nn.AvgPool3d((1, 2, 3), padding=(0, 1, 1)), nn.LPPool1d(2.0, 3),
    nn.LPPool2d(2.0, 3, stride=2, ceil_mode=True), nn.LPPool2d(1.5, (2, 3)), nn.LPPool3d(2.0, 3), nn.AdaptiveAvgPool1d(3),
    nn.AdaptiveAvgPool2d((3, 1)), nn.AdaptiveAvgPool3d((1, 2, 3)), nn.AdaptiveMaxPool1d(3), nn.AdaptiveMaxPool2d((3, 2)), nn.AdaptiveMaxPool3d(2),
    nn.MaxUnpool1d(2), nn.MaxUnpool2d(2), nn.MaxUnpool2d((2, 3), stride=2, padding=1), nn.MaxUnpool3d(2),
    nn.Upsample(scale_factor=2), nn.Upsample((3, 4)), nn.Upsample(scale_factor=(2, 3.5), mode="bilinear", align_corners=True),
    nn.UpsamplingNearest2d(scale_factor=2), nn.UpsamplingBilinear2d(size=3),
    nn.ZeroPad1d(2), nn.ZeroPad2d((1, 2, 3, 4)), nn.ZeroPad3d(1), nn.ConstantPad1d(2, 3.5), nn.ConstantPad2d(2, 0.0), nn.ConstantPad3d(1, 1e9),
    nn.ReflectionPad1d(2), nn.ReflectionPad2d(1), nn.ReflectionPad3d(1), nn.ReplicationPad1d(1), nn.ReplicationPad2d(2), nn.ReplicationPad3d(1),
    nn.CircularPad1d(1), nn.CircularPad2d(1), nn.CircularPad3d(1),
    nn.Unflatten(1, (2, 3)), nn.Identity(), nn.PixelShuffle(2), nn.PixelUnshuffle(2), nn.ChannelShuffle(3), nn.Unfold(2),
    nn.Unfold((2, 3), dilation=2, padding=1, stride=(1, 2)), nn.Fold((4, 5), (2, 3)), nn.Fold(4, 2),
    nn.InstanceNorm1d(3), nn.InstanceNorm2d(3, affine=True), nn.InstanceNorm3d(3, track_running_stats=True), nn.LocalResponseNorm(2),
    nn.LocalResponseNorm(2, alpha=0.5, k=2.0), nn.BatchNorm3d(2), nn.Bilinear(2, 3, 4), nn.Bilinear(2, 3, 4, bias=False), nn.EmbeddingBag(5, 3),
    nn.EmbeddingBag(5, 3, mode="sum", padding_idx=1), nn.EmbeddingBag(5, 3, mode="max"),
    nn.RNN(3, 4), nn.RNN(3, 4, 2, nonlinearity="relu"), nn.LSTM(3, 4, proj_size=2),
    nn.LSTM(3, 4, 2, bias=False, batch_first=True, dropout=0.5, bidirectional=True), nn.RNNCell(3, 4),
    nn.RNNCell(3, 4, nonlinearity="relu", bias=False), nn.LSTMCell(3, 4), nn.GRUCell(3, 4, bias=False),
    nn.Transformer(4, 2, 2, 1, 5),
    nn.ModuleDict({"a": nn.Linear(2, 3), "b": nn.ReLU()}), nn.ModuleDict(), nn.ModuleList(), nn.Sequential(), nn.ParameterList(), nn.ParameterDict(),
    nn.ParameterList([torch.zeros(2, 3), torch.zeros(())]), nn.ParameterList([torch.zeros(3)]),
    nn.ParameterDict({"left": torch.zeros(2, 3, dtype=torch.float64), "right": torch.zeros(1)}),
    nn.Sequential(nn.ParameterList([torch.zeros(2), torch.zeros(1)]), nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)])),
]


def in_rondos_words(module):
    """rondo has its own names of dtypes, and no class of its own for the last product of attention."""
    text = repr(module)
    for theirs, ours in (("NonDynamicallyQuantizableLinear", "Linear"), ("torch.float32", "f32"), ("torch.FloatTensor", "f32"),
                         ("torch.DoubleTensor", "f64")):
        text = text.replace(theirs, ours)
    return text


golden.write_texts("model_print.txt", {
    "convolutions": nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 4, (3, 5), groups=2, dilation=2, padding=1, padding_mode="reflect"), nn.Conv2d(4, 4, 3, padding="same"),
        nn.Sequential(nn.MaxPool2d(2), nn.MaxPool2d((3, 2), 2, padding=1, ceil_mode=True), nn.AvgPool2d(2)),
        nn.ConvTranspose2d(4, 4, 3, stride=2, output_padding=1, padding=1), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(4, 10, bias=False), nn.Dropout(0.1)),
    "lines": nn.ModuleList([
        nn.Conv1d(3, 4, 5, padding=2), nn.BatchNorm1d(4, momentum=None, affine=False), nn.LeakyReLU(0.1), nn.LayerNorm(4),
        nn.LayerNorm((2, 3), elementwise_affine=False), nn.GroupNorm(2, 4), nn.RMSNorm(4), nn.RMSNorm(4, eps=1e-6),
        nn.Embedding(10, 3, padding_idx=0), nn.LSTM(3, 4, 2, bidirectional=True), nn.GRU(3, 4, batch_first=True)]),
    "layers": "\n".join(map(in_rondos_words, layers)),
})
