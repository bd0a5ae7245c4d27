"""Goldens for tests/autograd/composed_norm_test.cpp, composed_pool_test.cpp and embedding_bag_test.cpp: python3
tests/golden/make_more_layers.py (needs torch)."""

import torch
import torch.nn.functional as F

import golden
from golden import fill

torch.set_num_threads(1)
out = {}

# Indices of pooling, also where elements are equal.
x = torch.round(fill((1, 2, 7, 6), 0, 3))
x[0, 1, 2, 2] = float("nan")
out["indices.x"] = x
for name, f in {
        "plain": lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True),
        "dilation": lambda x: F.max_pool2d(x, 2, 2, 1, dilation=2, ceil_mode=True, return_indices=True),
        "adaptive": lambda x: F.adaptive_max_pool2d(x, (3, 4), return_indices=True),
}.items():
    out[f"indices.{name}.y"], out[f"indices.{name}.at"] = f(x)
values, at = F.max_pool2d(fill((2, 2, 6, 4), 0), 2, return_indices=True)
out["unpool.x"], out["unpool.at"] = values, at
out["unpool.y"] = F.max_unpool2d(values, at, 2)
at = torch.arange(4).reshape(1, 1, 2, 2) * 5
out["unpool.sized.x"], out["unpool.sized.at"] = fill((1, 1, 2, 2), 1), at
out["unpool.sized.y"] = F.max_unpool2d(fill((1, 1, 2, 2), 1), at, 3, stride=2, padding=1, output_size=(4, 4))

line, volume = torch.round(fill((2, 2, 9), 0, 3)), torch.round(fill((2, 2, 4, 5, 6), 0, 3))
out["indices.line.x"], out["indices.volume.x"] = line, volume
for name, x, f in (
        ("line", line, lambda x: F.max_pool1d(x, 3, 2, 1, return_indices=True)),
        ("line_adaptive", line, lambda x: F.adaptive_max_pool1d(x, 4, return_indices=True)),
        ("volume", volume, lambda x: F.max_pool3d(x, (2, 3, 2), (1, 2, 2), (1, 1, 0), return_indices=True)),
        ("volume_dilation", volume, lambda x: F.max_pool3d(x, 2, 2, 1, dilation=(1, 2, 3), ceil_mode=True, return_indices=True)),
        ("volume_adaptive", volume, lambda x: F.adaptive_max_pool3d(x, (3, 2, 4), return_indices=True)),
        ("volume_unbatched", volume[0], lambda x: F.max_pool3d(x, 2, return_indices=True))):
    out[f"indices.{name}.y"], out[f"indices.{name}.at"] = f(x)
values, at = F.max_pool1d(fill((2, 2, 7), 0), 2, return_indices=True)
out["unpool1d.x"], out["unpool1d.at"], out["unpool1d.y"] = values, at, F.max_unpool1d(values, at, 2, output_size=(7,))
values, at = F.max_pool3d(fill((1, 2, 4, 5, 4), 0), 2, return_indices=True)
out["unpool3d.x"], out["unpool3d.at"], out["unpool3d.y"] = values, at, F.max_unpool3d(values, at, 2, output_size=(4, 5, 4))
out["unpool3d.unbatched.y"] = F.max_unpool3d(values[0], at[0], 2, output_size=(4, 5, 4))


# The gradient of the gradient of convolutions.
def gradients_of(conv):
    def run(x, w):
        y = conv(x, w)
        return torch.cat([g.flatten() for g in torch.autograd.grad((y * y).sum(), [x, w], create_graph=True)])
    return run


golden.case(out, "second.conv3d", gradients_of(lambda x, w: F.conv3d(x, w, stride=(2, 1, 1), padding=(1, 0, 1), dilation=(1, 2, 1), groups=2)),
            fill((1, 2, 3, 4, 2), 0), fill((2, 1, 2, 2, 3), 1))
golden.case(out, "second.conv_transpose1d", gradients_of(lambda x, w: F.conv_transpose1d(x, w, stride=2, padding=1, output_padding=1)),
            fill((1, 2, 3), 0), fill((2, 2, 3), 1))
golden.case(out, "second.conv_transpose3d", gradients_of(lambda x, w: F.conv_transpose3d(x, w, stride=(2, 1, 1), padding=(1, 0, 0))),
            fill((1, 2, 2, 2, 2), 0), fill((2, 1, 2, 2, 1), 1))

# The running statistics of instance_norm, and evaluation with them.
image, mean, var, weight, bias = fill((3, 2, 2, 3), 0, 2), fill((2,), 1), fill((2,), 2) + 1.5, fill((2,), 3), fill((2,), 4)
golden.case(out, "instance_norm.eval", lambda x, w, b: F.instance_norm(x, mean, var, w, b, use_input_stats=False, eps=1e-3), image,
            weight, bias)

# 16-bit floats whose squares overflow, and eps that is not given.
for dtype, short in ((torch.float32, "f32"), (torch.float16, "f16"), (torch.bfloat16, "bf16")):
    big, small = (fill((2, 3), 0) * 3e4).to(dtype), (fill((2, 3), 0) * 1e-3).to(dtype)
    out[f"rms_norm.big.{short}"], out[f"rms_norm.small.{short}"] = F.rms_norm(big, (3,)), F.rms_norm(small, (3,))

# Bags.
table, index = fill((6, 3), 0, 2), torch.tensor([4, 0, 0, 2, 1, 3, 2, 5])
for mode in ("sum", "mean", "max"):
    for padding in (None, 2):
        golden.case(out, f"bag.{mode}.{padding}", lambda w: F.embedding_bag(
            index, w, torch.tensor([0, 3, 3, 4, 8]), mode=mode, padding_idx=padding), table)
golden.case(out, "bag.last", lambda w: F.embedding_bag(index, w, torch.tensor([0, 3, 8]), include_last_offset=True), table)
golden.case(out, "bag.weights", lambda w, p: F.embedding_bag(index, w, torch.tensor([0, 3]), mode="sum", per_sample_weights=p), table,
            fill((8,), 1))
golden.case(out, "bilinear", F.bilinear, fill((2, 3, 2), 0), fill((2, 3, 4), 1), fill((5, 2, 4), 2), fill((5,), 3))
golden.write("more_layers.txt", out)
