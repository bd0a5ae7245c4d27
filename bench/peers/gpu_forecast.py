"""The shortest time of a training step on a GPU, on paper: rondo's kernels, the ops of eager PyTorch, and torch.compile's kernels.

A kernel takes at least bytes / bandwidth and FLOPs / arithmetic; the larger one counts, and kernels run one after
another. rondo's kernels are those of a recorded step on the simulated GPU with two small batches (train_step
--kernels), so bytes and FLOPs of the large batch follow by a straight line. PyTorch's ops are those that autograd and
the optimizer call for the same model on the meta device, which computes nothing. Both count each operand of a kernel
once, except that batch norm reads its input twice (statistics, then the result), and its gradient both of its inputs.
torch.compile's kernels are what Inductor's scheduler fuses for the same model on the CPU; it counts their operands
itself, and its fusions for a GPU may differ.

  bench/peers/gpu_forecast.py --build build >docs/gpu/forecast.md     # some ten minutes, most for rondo's simulated steps
"""

import argparse
import collections
import contextlib
import json
import math
import pathlib
import subprocess

import torch
import torch.nn.functional as F
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor.compile_fx import _recursive_post_grad_passes, fake_tensor_prop, select_decomp_table
from torch._inductor.debug import DebugContext
from torch._inductor.graph import GraphLowering
from torch._inductor.virtualized import V
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

import models

CASES = [("resnet18", "cifar", 512), ("resnet50", "imagenet", 256), ("lm512", "cifar", 32)]
MEASURED = {  # images a second, docs/gpu/2026-11-28-nvidia-h100.md
    "resnet18": ("67,900 img/s", 512 / 67_900e-3), "resnet50": ("4,880 to 5,360 img/s", 256 / 5_120e-3)}
HEAD = """# A training step on an H100, on paper

Written by `bench/peers/gpu_forecast.py`. Each kernel takes the time to move its operands at {bandwidth} TB/s, or to compute at {arithmetic:g} TFLOP/s,
whichever is longer. bf16, channels_last, SGD with momentum. Batch norm reads its input twice.

- PyTorch's columns are the ops that the eager mode calls. rondo's batch norm has the relu and the addition of the block, so its own row is
  larger than PyTorch's.
- torch.compile's columns are the kernels that its scheduler makes of the same step, for the CPU, and eager PyTorch's optimizer. Norms, loss and
  pooling are part of its element-wise kernels. A convolution's two gradients are one call.
- Attention is one kernel forward and one backward in both, which keep no scores; half of the products are left out because it is causal.
"""
GROUPS = [("convolutions", "conv"), ("batch norm", "batch_norm"), ("layer norm", "layer_norm"), ("attention", "attention"), ("matrix products", "mm|matmul|linear"),
          ("optimizer", "sgd|foreach"), ("softmax, loss", "softmax|cross_entropy|nll"), ("pooling", "pool")]


def group_of(name):
    for group, words in GROUPS:
        if any(word in name for word in words.split("|")):
            return group
    return "element-wise and copies"


def of_batch_norms(calls):
    """batch norm reads x twice, its gradient dy and x twice; the gradient's operands are about dy, x and dx."""
    backward = [i for i, c in enumerate(calls) if "batch_norm" in c[0] and "backward" in c[0]]
    forward = [i for i, c in enumerate(calls) if "batch_norm" in c[0] and "backward" not in c[0]]
    for f, b in zip(forward, reversed(backward)):
        plane = calls[b][1] / 3
        calls[f] = (calls[f][0], calls[f][1] + plane, calls[f][2])
        calls[b] = (calls[b][0], calls[b][1] + 2 * plane, calls[b][2])
    return calls


def rondo(build, model, batch):
    small = []
    for images in (2, 4):
        out = subprocess.run([pathlib.Path(build) / "bin/simulated_train_step", "--model", model, "--batch", str(images), "--dtype",
                              "bf16", "--device", "cuda", "--kernels", "--json", "-"], check=True, capture_output=True, text=True).stdout
        small.append(json.loads(out)["kernels"])
    assert [k["name"] for k in small[0]] == [k["name"] for k in small[1]], "the step depends on the batch"
    line = lambda a, b: a + (b - a) * (batch - 2) / 2
    return [(a["name"], line(a["bytes"], b["bytes"]), line(a["flops"], b["flops"])) for a, b in zip(*small)]


class Recorder(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        returns = func._schema.returns
        if any(r.alias_info is not None and not r.alias_info.is_write for r in returns) or func.overloadpacket.__name__ == "detach":
            return result  # a view
        if func.overloadpacket.__name__.startswith(("empty", "new_empty")):
            return result
        tensors = [x for x in tree_leaves((args, kwargs, result)) if isinstance(x, torch.Tensor)]
        flops = flop_registry[func.overloadpacket](*args, **(kwargs or {}), out_val=result) if func.overloadpacket in flop_registry else 0
        self.calls.append((func.overloadpacket.__name__, sum(x.numel() * x.element_size() for x in tensors), flops))
        return result


class Attention(torch.autograd.Function):
    """Records one kernel forward and one backward, as PyTorch's fused kernels are on a GPU, and computes nothing."""

    @staticmethod
    def forward(ctx, q, k, v, recorder):
        y = torch.empty_like(q)
        ctx.save_for_backward(q, k, v, y)
        ctx.recorder = recorder
        Attention.count(recorder, "attention", 2, q, (q, k, v, y))
        return y

    @staticmethod
    def backward(ctx, dy):
        q, k, v, y = ctx.saved_tensors
        grads = [torch.empty_like(x) for x in (q, k, v)]
        Attention.count(ctx.recorder, "attention_backward", 5, q, (dy, q, k, v, y, *grads))
        return (*grads, None)

    @staticmethod
    def count(recorder, name, products, q, tensors):
        flops = products * 2 * q.numel() * q.shape[-2] / 2
        recorder.calls.append((name, sum(x.numel() * x.element_size() for x in tensors), flops))


def made(model, stem, batch):
    net, shape = models.make(model, stem)
    net.to(memory_format=torch.channels_last)
    for module in net.modules():
        if not isinstance(module, torch.nn.BatchNorm2d):
            for p in module.parameters(recurse=False):
                p.data = p.data.bfloat16()
    x, y = models.batch_of(model, shape, 1000 if stem == "imagenet" else 10, batch)
    return net, x.bfloat16().to(memory_format=torch.channels_last) if x.is_floating_point() else x, y


def pytorch(model, stem, batch):
    with torch.device("meta"):
        net, x, y = made(model, stem, batch)
    sgd = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9, foreach=True)
    for recorder in (Recorder(), Recorder()):  # the first step makes the optimizer's state
        F.scaled_dot_product_attention = lambda q, k, v, is_causal: Attention.apply(q, k, v, recorder)
        with recorder:
            out = net(x)
            loss = F.cross_entropy(out.float(), y)
            sgd.zero_grad()
            loss.backward()
            sgd.step()
    return recorder.calls


def compiled(model, stem, batch, eager):
    """torch.compile's kernels forward and backward, and the optimizer's of `eager`, the calls of the eager mode."""
    kernels = []

    class Compiled(Exception):
        """Both graphs are compiled; nothing is run."""

    def stop(_):
        raise Compiled

    def record(graph_module, inputs):
        mode = fake_tensor_prop(graph_module, inputs)
        with V.set_fake_mode(mode):
            _recursive_post_grad_passes(graph_module)
        graph = GraphLowering(graph_module, example_inputs=inputs, shape_env=mode.shape_env)
        with V.set_graph_handler(graph), V.set_fake_mode(mode), DebugContext(), V.set_debug_handler(DebugContext()):
            graph.run(*inputs)
            graph._update_scheduler()
            for node in graph.scheduler.nodes:
                if size := node.get_read_write_buffers_sizes():
                    kernel = getattr(getattr(node, "node", None), "python_kernel_name", None) or "fused"
                    kernels.append((kernel, size, node.estimate_flops() or 0))
        stop._boxed_call = True
        return stop

    torch._dynamo.reset()
    net, x, y = made(model, stem, batch)
    backend = aot_autograd(fw_compiler=record, bw_compiler=record, decompositions=select_decomp_table,
                           partition_fn=min_cut_rematerialization_partition)
    with contextlib.suppress(Compiled), torch._functorch.config.patch(force_non_lazy_backward_lowering=True):
        torch.compile(lambda: F.cross_entropy(net(x).float(), y), backend=backend, dynamic=False)()
    assert any("backward" in name for name, *_ in kernels), "torch.compile has not compiled the gradients"
    # Inductor does not count the products of these two kinds.
    known = {kind: [flops for name, _, flops in eager if kind in name and "backward" in name] for kind in ("convolution", "attention")}
    forward = [flops for name, _, flops in eager if name == "attention"]
    calls = []
    for name, size, flops in kernels:
        kind = next((k for k in known if k in name), None)
        if kind and "backward" in name:
            flops = known[kind].pop(0)
        elif kind == "attention":
            flops = forward.pop(0)
        calls.append((name, size, flops))
    return calls + [call for call in eager if group_of(call[0]) == "optimizer"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--bandwidth", type=float, default=3.35, help="TB/s")
    parser.add_argument("--arithmetic", type=float, default=790, help="TFLOP/s of products and convolutions in bf16")
    args = parser.parse_args()
    print(HEAD.format(bandwidth=args.bandwidth, arithmetic=args.arithmetic))
    for model, stem, batch in CASES:
        attention = F.scaled_dot_product_attention  # which pytorch() replaces
        sides = {"rondo": rondo(args.build, model, batch), "PyTorch": pytorch(model, stem, batch)}
        F.scaled_dot_product_attention = attention
        sides["torch.compile"] = compiled(model, stem, batch, sides["PyTorch"])
        table = collections.defaultdict(lambda: collections.defaultdict(lambda: [0, 0.0, 0.0, 0.0]))
        for side, calls in sides.items():
            for name, size, flops in calls if side == "torch.compile" else of_batch_norms(calls):
                for row in (group_of(name), "all"):
                    sums = table[row][side]
                    sums[0] += 1
                    sums[1] += size
                    sums[2] += flops
                    sums[3] += max(size / args.bandwidth / 1e9, flops / args.arithmetic / 1e9)
        titles = " | ".join(f"{side}: calls | GB | TFLOP | ms" for side in sides)
        print(f"## {model}, batch {batch}\n\n| kernels | {titles} |\n" + "| --- " * (1 + 4 * len(sides)) + "|")
        for row in [g for g, _ in GROUPS] + ["element-wise and copies", "all"]:
            if row in table:
                cells = [f"{n} | {size / 1e9:.2f} | {flops / 1e12:.2f} | {ms:.2f}" for n, size, flops, ms in
                         (table[row][side] for side in sides)]
                print(f"| {row} | {' | '.join(cells)} |")
        print()
        if model in MEASURED:
            text, ms = MEASURED[model]
            bound = table["all"]["rondo"][3]
            print(f"Measured on an H100: {text}, {ms:.1f} ms a step: the bound is {bound / ms:.0%} of it.\n")


main()
