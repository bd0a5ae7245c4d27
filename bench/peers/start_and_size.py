"""From exec to the end of the first training step, peak memory, and size: rondo, libtorch in C++, PyTorch in Python, and
ONNX Runtime's first inference. All compute an MLP 784-512-512-10 with a batch of 64 in f32 on two threads, in turns.

  python bench/peers/start_and_size.py [--build build] [--rounds 7]

"ships" is the stripped program with the shared libraries that it needs besides those of the C and C++ compilers; for
Python the package's folder. Needs torch, onnxruntime and g++.
"""

import argparse
import importlib.util
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

LIBTORCH = """
#include <torch/torch.h>
int main() {
  torch::set_num_threads(2);
  torch::manual_seed(1);
  torch::nn::Sequential model(torch::nn::Flatten(), torch::nn::Linear(784, 512), torch::nn::ReLU(), torch::nn::Linear(512, 512),
                              torch::nn::ReLU(), torch::nn::Linear(512, 10));
  torch::optim::SGD sgd(model->parameters(), torch::optim::SGDOptions(1e-3).momentum(0.9));
  const auto x = torch::randn({64, 1, 28, 28}), y = torch::randint(0, 10, {64});
  const auto loss = torch::nn::functional::cross_entropy(model->forward(x), y);
  sgd.zero_grad();
  loss.backward();
  sgd.step();
}
"""
ONNX = """
import sys, numpy, onnxruntime
settings = onnxruntime.SessionOptions()
settings.intra_op_num_threads = 2
session = onnxruntime.InferenceSession(sys.argv[1], settings, providers=["CPUExecutionProvider"])
session.run(None, {session.get_inputs()[0].name: numpy.random.rand(64, 1, 28, 28).astype("float32")})
"""
OF_THE_COMPILER = re.compile(r"/(libc|libm|libmvec|libstdc\+\+|libgcc_s|libgomp|libpthread|libdl|librt|ld-linux[^/]*)\.so")


def ships(program, folder):
    """MB of the stripped program, and of the libraries that it needs."""
    copy = pathlib.Path(folder, "stripped")
    shutil.copy(program, copy)
    subprocess.run(["strip", copy], check=True)
    libraries = re.findall(r"=> (/\S+)", subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout)
    needed = [x for x in libraries if not OF_THE_COMPILER.search(x)]
    return copy.stat().st_size / 1e6, sum(os.path.getsize(os.path.realpath(x)) for x in needed) / 1e6


def folder_of(package):
    """Without an import: its memory would count as that of the programs, which begin as copies of this process."""
    return pathlib.Path(importlib.util.find_spec(package).origin).parent


def folder_size(package):
    return sum(f.stat().st_size for f in folder_of(package).rglob("*") if f.is_file()) / 1e6


def run(command):
    """Seconds from exec to the end, and MB at the peak."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               env={**os.environ, "OMP_NUM_THREADS": "2"})
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"status {status} from: {' '.join(map(str, command))}")
    return time.perf_counter() - begin, used.ru_maxrss / 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    here = pathlib.Path(__file__).parent
    with tempfile.TemporaryDirectory() as folder:
        source, program, model = (pathlib.Path(folder, name) for name in ("mlp.cpp", "mlp", "mlp.onnx"))
        source.write_text(LIBTORCH)
        root = folder_of("torch")
        subprocess.run(["g++", "-O2", "-std=c++20", source, "-o", program, f"-I{root}/include", f"-I{root}/include/torch/csrc/api/include",
                        f"-L{root}/lib", f"-Wl,-rpath,{root}/lib", "-Wl,--as-needed", "-ltorch", "-ltorch_cpu", "-lc10"], check=True)
        subprocess.run([args.build / "bin/fashion_mlp", "--dataset", "fashion_mnist", "--limit", "64", "--epochs", "1", "--checkpoint-dir",
                        f"{folder}/run"], check=True, capture_output=True)
        subprocess.run([args.build / "bin/fashion_mlp", "--dataset", "fashion_mnist", "--limit", "64", "--eval", "--checkpoint-dir",
                        f"{folder}/run", "--export-onnx", model], check=True, capture_output=True)
        step = args.build / "bin/train_step"
        programs = {
            "rondo": [step, "--model", "mlp", "--batch", "64", "--steps", "1", "--threads", "2"],
            "libtorch": [program],
            "PyTorch": [sys.executable, here / "train_step.py", "--model", "mlp", "--batch", "64", "--steps", "1", "--layout", "contiguous",
                        "--compile", "off", "--weights", "dtype", "--threads", "2"],
            "ONNX Runtime, inference": [sys.executable, "-c", ONNX, model],
        }
        sizes = {"rondo": "{:.0f} + {:.0f}".format(*ships(step, folder)), "libtorch": "{:.0f} + {:.0f}".format(*ships(program, folder)),
                 "PyTorch": f"{folder_size('torch'):.0f}", "ONNX Runtime, inference": f"{folder_size('onnxruntime'):.0f}"}
        results = {name: [] for name in programs}
        for _ in range(args.rounds):
            for name, command in programs.items():
                results[name].append(run(command))
    print("| | to the end of the first step, s | peak memory, MB | ships, MB |\n| --- | --- | --- | --- |")
    for name, pairs in results.items():
        print(f"| {name} | {statistics.median(s for s, _ in pairs):.3f} | {statistics.median(m for _, m in pairs):.0f} | {sizes[name]} |")


main()
