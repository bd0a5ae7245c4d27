"""The public names of PyTorch that docs/pytorch_coverage.py looks for in rondo: python3 tests/golden/make_torch_names.py (needs torch)."""

import inspect

import torch
import torch.nn.functional as F
from torch.nn import init, utils
from torch.optim import lr_scheduler

import golden


def classes(module, base):
    """The public subclasses that users make objects of."""
    found = (name for name, value in vars(module).items() if inspect.isclass(value) and issubclass(value, base) and value is not base)
    return sorted(name for name in found if not name.startswith("_"))


def is_function(name):
    """A function of torch.nn.functional itself, neither a helper nor a type that it imports."""
    value = getattr(F, name)
    home = getattr(value, "__module__", None) or "torch.nn.functional"
    return callable(value) and not inspect.isclass(value) and not name.startswith("_") and "overrides" not in home and home != "typing"


def functions(module):
    """Its documented functions. Names such as init.uniform, without the "_", are deprecated."""
    names = getattr(module, "__all__", dir(module))
    found = (name for name in names if not name.startswith("_") and inspect.isroutine(getattr(module, name)) and getattr(module, name).__doc__)
    return sorted({name for name in found if not hasattr(module, name + "_") or module is torch})


methods = set(dir(torch.Tensor))
kinds = {
    "nn": classes(torch.nn, torch.nn.Module),
    "nn.functional": sorted(filter(is_function, vars(F))),
    "optim": classes(torch.optim, torch.optim.Optimizer),
    "optim.lr_scheduler": classes(lr_scheduler, lr_scheduler.LRScheduler),
    "Tensor": sorted(name for name in dir(torch.Tensor) if not name.startswith("_") and callable(getattr(torch.Tensor, name))),
    "torch": [
        name
        for name in functions(torch)
        if name not in methods and (hasattr(torch._C._VariableFunctions, name) or getattr(torch, name).__module__ in ("torch.functional", "torch.random"))
    ],
    "linalg": functions(torch.linalg),
    "fft": functions(torch.fft),
    "special": functions(torch.special),
    "nn.init": functions(init),
    "nn.utils": functions(utils),
}
golden.write_texts("torch_names.txt", {kind: "\n".join(names) for kind, names in kinds.items()})
