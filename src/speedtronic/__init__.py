"""Training as pure state transitions in PyTorch.

The public names, each imported on first use, so that ``speedtronic --help`` need not
wait for torch::

    config      Config, load_config
    models      build_model, register_model
    whole runs  train, TrainResult
    pure steps  ModuleLoss, split, gradient, InnerState, StepInfo, StepRule,
                init_inner, accumulate, apply, inner_step
    algorithms  Optimizer, adamw, muon, sgd, cautious, chain, partition, and the
                module `speedtronic.pure.schedule`
    rounds      Weights, Delta, Origin, compute_delta, aggregate, OuterRule,
                OuterState, init_outer, outer_step
    running     StepRunner (compiled, donated)
    errors      SpeedtronicError and its children
"""

import importlib
from typing import Any

__version__ = "3.0.0.dev0"

_HOME = {
    "Config": "speedtronic.pure.config",
    "Delta": "speedtronic.pure.delta",
    "InnerState": "speedtronic.pure.inner",
    "ModuleLoss": "speedtronic.pure.module",
    "Optimizer": "speedtronic.pure.optim",
    "Origin": "speedtronic.pure.aggregate",
    "OuterRule": "speedtronic.pure.outer",
    "OuterState": "speedtronic.pure.outer",
    "SpeedtronicError": "speedtronic.errors",
    "StepInfo": "speedtronic.pure.inner",
    "StepRule": "speedtronic.pure.inner",
    "StepRunner": "speedtronic.shell.compile",
    "TrainResult": "speedtronic.shell.train",
    "Weights": "speedtronic.pure.delta",
    "accumulate": "speedtronic.pure.inner",
    "adamw": "speedtronic.pure.optim",
    "aggregate": "speedtronic.pure.aggregate",
    "apply": "speedtronic.pure.inner",
    "build_model": "speedtronic.shell.models",
    "cautious": "speedtronic.pure.optim",
    "chain": "speedtronic.pure.optim",
    "compute_delta": "speedtronic.pure.delta",
    "gradient": "speedtronic.pure.gradient",
    "init_inner": "speedtronic.pure.inner",
    "init_outer": "speedtronic.pure.outer",
    "inner_step": "speedtronic.pure.inner",
    "key_from_seed": "speedtronic.pure.random",
    "load_config": "speedtronic.shell.config",
    "muon": "speedtronic.pure.optim",
    "outer_step": "speedtronic.pure.outer",
    "partition": "speedtronic.pure.optim",
    "register_model": "speedtronic.shell.models",
    "sgd": "speedtronic.pure.optim",
    "split": "speedtronic.pure.module",
    "train": "speedtronic.shell.train",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name not in _HOME:
        raise AttributeError(f"module 'speedtronic' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names."""
    return [*__all__, "__version__"]
