"""The ways in which PyTorch can be told to run a model faster, one for each --compile of train_step.py.

Training has torch.compile with and without its search for the best kernels. Inference has more, since weights do
not change: inductor takes them as constants (`freezing`), folds batch norm into convolutions and lays weights out
anew, and torch.jit does so too. Which of them wins differs from model to model, and by a factor of two, so
that a comparison which tries only one of them flatters whoever is compared with PyTorch.
"""

import warnings

TRAINING = ["off", "on", "max-autotune"]
INFERENCE = [*TRAINING, "freeze", "freeze-max-autotune", "jit", "jit-optimize"]


def compiled(model, x, how, cast):
    """`model` as a function of inputs like `x`; `cast` is the autocast it will be called under."""
    if how == "off":
        return model
    import torch  # not above: inductor is not to be part of the start-up of those who do without
    import torch._inductor.config as inductor

    if how.startswith("jit"):
        warnings.simplefilter("ignore")  # tracing is deprecated, but often still the fastest
        with torch.no_grad(), cast:
            frozen = torch.jit.freeze(torch.jit.trace(model, x, check_trace=False))
            return torch.jit.optimize_for_inference(frozen) if how == "jit-optimize" else frozen
    torch.compiler.reset()
    inductor.freezing = how.startswith("freeze")
    return torch.compile(model, mode="max-autotune" if how.endswith("max-autotune") else "default")
