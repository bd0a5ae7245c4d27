"""PyTorch's ways to run a model faster, one for each --compile of train_step.py.

For training there is torch.compile with and without its search for the best kernels. For inference there are more,
since weights do not change: inductor treats them as constants (`freezing`), folds batch norm into convolutions and
reorders weights, and torch.jit does so too. Which of them is the fastest differs from model to model, by a factor of
up to two. A comparison that tries only one of them would be unfair to PyTorch.
"""

import warnings

TRAINING = ["off", "on", "max-autotune"]
INFERENCE = [*TRAINING, "freeze", "freeze-max-autotune", "jit", "jit-optimize"]


def compiled(model, x, how, cast):
    """Returns `model` as a function of inputs like `x`. The caller will call it under the autocast `cast`."""
    if how == "off":
        return model
    import torch  # imported here, so that programs without it do not pay for its start-up
    import torch._inductor.config as inductor

    if how.startswith("jit"):
        warnings.simplefilter("ignore")  # tracing is deprecated, but often still the fastest
        with torch.no_grad(), cast:
            frozen = torch.jit.freeze(torch.jit.trace(model, x, check_trace=False))
            return torch.jit.optimize_for_inference(frozen) if how == "jit-optimize" else frozen
    torch.compiler.reset()
    inductor.freezing = how.startswith("freeze")
    return torch.compile(model, mode="max-autotune" if how.endswith("max-autotune") else "default")
