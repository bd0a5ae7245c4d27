"""Goldens for tests/nn/print_test.cpp: python3 tests/golden/make_model_print.py (needs torch). What PyTorch prints for models."""

import torch.nn as nn

import golden

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
})
