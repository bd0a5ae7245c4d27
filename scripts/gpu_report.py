"""Collects the measurements of scripts/gpu_check.sh in one JSON file and one page with tables.

    gpu_report.py FOLDER OUT      reads FOLDER/*.json and *.txt, writes OUT.json and OUT.md

Ratios are ratios of medians; both sides were measured in turns. The work of a step is three times that of its forward
pass. A forward pass is 0.557 billion multiply-adds an image for ResNet-18 with the CIFAR stem (32x32) and 4.09 for
ResNet-50 (224x224); a multiply-add is two FLOPs.
"""

import argparse
import json
import pathlib
import statistics
import sys

GFLOP_PER_IMAGE = {"resnet18": 3 * 2 * 0.5565, "resnet50": 3 * 2 * 4.089}


def read(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def steps(folder, side):
    """{(model, variant): median images a second over the rounds}"""
    found = {}
    for path in sorted(folder.glob(f"{side}.*.json")):
        model, variant = path.name.split(".")[1:3]
        result = read(path)
        if result:
            found.setdefault((model, variant), []).append(result["img_per_s"])
    return {key: statistics.median(values) for key, values in found.items()}


def torch_version():
    try:
        import torch

        nccl = ".".join(map(str, torch.cuda.nccl.version())) if torch.cuda.is_available() else "none"
        return f"{torch.__version__}, CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}, NCCL {nccl}"
    except ImportError:
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER", type=pathlib.Path)
    parser.add_argument("out", metavar="OUT")
    given = parser.parse_args()
    folder, out = given.folder, given.out
    kernels = read(folder / "kernels.json") or {}
    rondo, torch = steps(folder, "rondo"), steps(folder, "torch")
    tests = [
        line
        for stage in ("smoke", "tests", "sanitizer", "numbers", "bench", "nccl")
        if (folder / f"{stage}.txt").exists()
        for line in sorted((folder / f"{stage}.txt").read_text().splitlines())
    ]
    machine = (folder / "machine.txt").read_text().splitlines()
    cifar = read(folder / "cifar10.json")
    reduced = read(folder / "all_reduce.json")
    peak = next((row["flop_per_s"] for row in kernels.get("matmul", []) if row["dtype"] == "bf16"), None)
    rows = []
    for (model, variant), images in sorted(rondo.items()):
        flops = images * GFLOP_PER_IMAGE[model] * 1e9
        peers = {kind: torch[model, kind] for kind in ("off", "on") if (model, kind) in torch}
        rows.append(
            {
                "model": model,
                "variant": "eager" if variant == "eager" else "graph",
                "img_per_s": images,
                "tflop_per_s": flops / 1e12,
                "of_matmul": flops / peak if peak else None,
                "pytorch_img_per_s": peers,
                "ratios": {kind: images / value for kind, value in peers.items()},
            }
        )
    result = {
        "machine": machine,
        "rondo": kernels.get("gpu"),
        "pytorch": torch_version(),
        "tests": tests,
        "kernels": kernels,
        "steps": rows,
        "cifar10": cifar,
        "all_reduce": reduced,
    }
    pathlib.Path(out + ".json").write_text(json.dumps(result, indent=1) + "\n")

    lines = [f"# {machine[0].removeprefix('card: ')}", "", *[f"- {line}" for line in machine[1:]]]
    lines += [f"- rondo: {result['rondo']}", f"- PyTorch: {result['pytorch'] or 'not on the machine'}", "", "## What ran", ""]
    lines += [f"- {line}" for line in tests]
    lines += ["", "## Training steps, bf16, channels_last", ""]
    lines += ["| model | rondo | img/s | TFLOP/s | share of its matmul rate | ratio to PyTorch eager, compile |"]
    lines += ["| --- | --- | --- | --- | --- | --- |"]
    for row in rows:
        ratios = ", ".join(f"{row['ratios'][k]:.2f}" if k in row["ratios"] else "-" for k in ("off", "on"))
        share = f"{100 * row['of_matmul']:.0f} %" if row["of_matmul"] else "-"
        lines.append(
            f"| {row['model']} | {row['variant']} | {row['img_per_s']:.0f} | {row['tflop_per_s']:.0f} | {share} | {ratios} |"
        )
    if cifar:
        took = next((line.split(", ")[1] for line in tests if line.startswith("CIFAR-10 passed, ")), "?")
        lines += ["", f"CIFAR-10, ResNet-18, {cifar['epochs']} epochs: {100 * (cifar['test_accuracy'] or 0):.2f} % in {took}, start included."]
    if reduced:
        lines += ["", f"## All-reduce, {reduced['world_size']} GPUs", "", "| bytes | algorithm | ms | bus GB/s |", "| --- | --- | --- | --- |"]
        for row in reduced["rows"]:
            lines.append(f"| {row['bytes']} | {row['algorithm']} | {row['seconds'] * 1e3:.3f} | {row['bus_gb_s']:.1f} |")
    lines += ["", "## Kernels", "", f"A copy moves {kernels.get('copy_bytes_per_s', 0) / 1e12:.2f} TB/s (read and written).", ""]
    lines += ["| kernel | TB/s | of the copy |", "| --- | --- | --- |"]
    for row in kernels.get("bandwidth", []):
        lines.append(f"| {row['kernel']} | {row['bytes_per_s'] / 1e12:.2f} | {100 * row['of_copy']:.0f} % |")
    lines += ["", *[f"- matmul {r['n']}^3 {r['dtype']}: {r['flop_per_s'] / 1e12:.0f} TFLOP/s" for r in kernels.get("matmul", [])],
              *[f"- {r['kernel']}: {r['flop_per_s'] / 1e12:.0f} TFLOP/s" for r in kernels.get("attention", [])]]
    pathlib.Path(out + ".md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
