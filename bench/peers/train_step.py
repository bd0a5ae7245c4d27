"""PyTorch's training step (or inference), measured as bench/train_step measures rondo's.

The work is the same: forward, cross entropy, backward, SGD with momentum 0.9, on one batch that stays in memory
(32x32 images in 10 classes; for resnet50 224x224 in 1000; for lm512 sequences of 512 tokens). The script tries every combination of memory layout and
compiler (compilers.py) that no flag fixes, and the fastest one counts. A combination that does not work on this
machine is reported and left out. Memory: keep_memory.py.
"""

import argparse
import itertools
import json
import os
import statistics
import sys
import time

import compilers
import keep_memory


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="resnet20", help="mlp, resnet20, resnet18, resnet50 or lm512")
    parser.add_argument("--stem", choices=["cifar", "imagenet"], help="stem of resnet18 and resnet50")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--dtype", default="f32", choices=["f32", "bf16", "f16", "i8"],
                        help="i8: quantised, with --infer")
    parser.add_argument("--hidden", type=int, default=512, help="width of the mlp")
    parser.add_argument("--infer", action="store_true", help="inference instead of training")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=10, help="time for each setting")
    parser.add_argument("--steps", type=int, default=0, help="measure so many steps, from the first on, instead of --seconds")
    parser.add_argument("--layout", default="try", choices=["try", "contiguous", "channels_last"])
    parser.add_argument("--compile", default="try", choices=["try", *compilers.INFERENCE], help="see compilers.py")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--weights", default="try", choices=["try", "autocast", "dtype"], help="how bf16 is used")
    parser.add_argument("--turns", action="store_true",
                        help="for one setting: measure and print JSON once for each line of standard input")
    parser.add_argument("--json", metavar="FILE", help="one JSON object; - is standard output")
    parsed = parser.parse_args()
    if not parsed.infer and parsed.compile not in ("try", *compilers.TRAINING):
        parser.error(f"--compile {parsed.compile} is for --infer")
    if parsed.turns and ("try" in (parsed.layout, parsed.compile, parsed.weights) or parsed.json != "-"):
        parser.error("--turns goes with --json - and is for one setting: --layout, --compile and --weights")
    parsed.stem = parsed.stem or ("imagenet" if parsed.model == "resnet50" else "cifar")
    return parsed


keep_memory.or_start_anew()
args = parse()
os.environ["OMP_NUM_THREADS"] = str(args.threads)

import torch  # noqa: E402  (after OMP_NUM_THREADS)
import torch.nn.functional as F  # noqa: E402

import models  # noqa: E402


DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "i8": torch.float32}


def quantize(model, x):
    """Quantises the mlp dynamically, and other models by the ranges of their activations for x."""
    import warnings

    import torch.ao.quantization as aq
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

    warnings.simplefilter("ignore")
    if args.model == "mlp":
        return aq.quantize_dynamic(model, {torch.nn.Linear})
    prepared = prepare_fx(model, aq.get_default_qconfig_mapping("x86"), (x,))
    with torch.no_grad():
        prepared(x)
    return convert_fx(prepared)


def make_step(layout, compiler, weights):
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    model, shape = models.make(args.model, args.stem, args.hidden)
    model = model.to(args.device)
    classes = 1000 if args.stem == "imagenet" else 10
    x, target = (t.to(args.device) for t in models.batch_of(args.model, shape, classes, args.batch))
    if weights == "dtype":
        model, x = model.to(DTYPES[args.dtype]), x.to(DTYPES[args.dtype]) if x.is_floating_point() else x
    if layout == "channels_last":
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    model.train(not args.infer)
    if args.dtype == "i8":
        model = quantize(model, x)
    cast = torch.autocast(args.device, dtype=DTYPES[args.dtype], enabled=weights == "autocast" and args.dtype in ("bf16", "f16"))
    forward = compilers.compiled(model, x, compiler, cast)
    if args.infer:

        def step():
            with torch.inference_mode(), cast:
                forward(x)

        return step
    sgd = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, fused=True)

    def step():
        sgd.zero_grad(set_to_none=True)
        with cast:
            loss = F.cross_entropy(forward(x).float(), target)
        loss.backward()
        sgd.step()

    return step


def wait():
    if args.device != "cpu":
        torch.cuda.synchronize()


def timed(step):
    """Seconds of each step, for --seconds or --steps."""
    together = 1 if args.device == "cpu" else 10  # as bench/train_step.cpp does
    times = []
    end = time.perf_counter() + args.seconds
    while len(times) < args.steps if args.steps else time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        for _ in range(together):
            step()
        wait()
        times.append((time.perf_counter() - start) / together)
    return times


def warm_step(layout, compiler, weights):
    step = make_step(layout, compiler, weights)
    for _ in range(0 if args.steps else 3 if args.device == "cpu" else 20):
        step()
    wait()
    return step


def row_of(layout, compiler, weights, times):
    seconds = statistics.median(times)
    return {
        "layout": layout,
        "compile": compiler,
        "weights": weights,
        "img_per_s": args.batch / seconds,
        "ms_per_step": 1e3 * seconds,
        "steps": len(times),
    }


def attempt(layout, compiler, weights):
    """Returns the measurement, or what PyTorch lacks for this setting (a compiler, an operator, …)."""
    try:
        row = row_of(layout, compiler, weights, timed(warm_step(layout, compiler, weights)))
        seen = f"{row['img_per_s']:.1f} img/s"
    except Exception as error:  # PyTorch's parts raise exceptions of many types
        seen = f"{type(error).__name__}: {(str(error).strip() or 'no message').splitlines()[0]}"
        row = {"layout": layout, "compile": compiler, "weights": weights, "failed": seen}
    print(
        f"pytorch {torch.__version__} {args.model} {args.dtype} batch {args.batch} on {args.device},"
        f" {args.threads} threads, {layout}, {weights}, compile {compiler}: {seen}",
        file=sys.stderr,
    )
    return row


def take_turns(*setting):
    step = warm_step(*setting)
    for _ in sys.stdin:
        print(json.dumps(row_of(*setting, timed(step))), flush=True)


def main():
    torch.set_num_threads(args.threads)
    layouts = ["contiguous", "channels_last"] if args.layout == "try" else [args.layout]
    if args.model == "mlp" or args.model.startswith(("lm", "lstm")):
        layouts = ["contiguous"]
    ways = [args.compile]
    if args.compile == "try":
        ways = compilers.INFERENCE if args.infer else compilers.TRAINING
    weights = ["autocast"] if args.device == "cpu" or args.dtype == "f32" else ["autocast", "dtype"]
    if args.weights != "try":
        weights = [args.weights]
    settings = list(itertools.product(layouts, ways, weights))
    if args.turns:
        return take_turns(*settings[0])
    rows = [attempt(*setting) for setting in settings]
    done = [row for row in rows if "failed" not in row]
    if not done:
        raise SystemExit(rows[0]["failed"])
    best = max(done, key=lambda row: row["img_per_s"])
    result = {
        "framework": f"pytorch {torch.__version__}",
        "model": args.model,
        "stem": args.stem,
        "batch": args.batch,
        "dtype": args.dtype,
        "infer": args.infer,
        "device": args.device,
        "threads": args.threads,
        **best,
        "rows": rows,
    }
    if args.json == "-":
        print(json.dumps(result))
    elif args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
