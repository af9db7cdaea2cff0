"""Several optimizers, each for its own parameters."""

from collections.abc import Mapping

from torch import Tensor

from speedtronic.pure.optim.base import (
    FUNCTIONAL_ADAMW,
    AdamwKernel,
    Clock,
    Optimizer,
    OptState,
    guarded_step,
)
from speedtronic.pure.types import Params


def partition(
    optimizers: Mapping[str, Optimizer], labels: Mapping[str, str]
) -> Optimizer:
    """Route each parameter to the optimizer of its group.

    The state is a dict with one entry per group; a group may be empty. It has a fused
    form if any of its groups has one; the others then follow their formula.

    Args:
        optimizers: by group.
        labels: the group of each parameter, by name.

    Raises:
        ValueError: for a label that names no group; from ``init``, for labels that do
            not cover exactly the parameters.

    >>> import torch
    >>> from speedtronic.pure.optim.sgd import sgd
    >>> labels = {"a": "slow", "b": "fast"}
    >>> both = partition({"slow": sgd(0.1), "fast": sgd(1.0)}, labels)
    >>> params = {"a": torch.ones(1), "b": torch.ones(1)}
    >>> clock = Clock(step=torch.tensor(0))
    >>> both.update(params, both.init(params), params, clock)[0]
    {'a': tensor([-0.1000]), 'b': tensor([-1.])}
    """
    unknown = sorted(set(labels.values()) - set(optimizers))
    if unknown:
        raise ValueError(f"labels: expected one of {list(optimizers)}, found {unknown}")

    def part(values: Params, group: str) -> Params:
        return {name: value for name, value in values.items() if labels[name] == group}

    def init(params: Params) -> OptState:
        if params.keys() != labels.keys():
            raise ValueError(
                f"labels: expected one per parameter; "
                f"without a label: {sorted(params.keys() - labels.keys())}, "
                f"without a parameter: {sorted(labels.keys() - params.keys())}"
            )
        return {g: opt.init(part(params, g)) for g, opt in optimizers.items()}

    def update(
        grads: Params, opt_state: OptState, params: Params, clock: Clock
    ) -> tuple[Params, OptState]:
        updates: Params = {}
        states = {}
        for group, optimizer in optimizers.items():
            some, states[group] = optimizer.update(
                part(grads, group), opt_state[group], part(params, group), clock
            )
            updates |= some
        return {name: updates[name] for name in params}, states

    def fused(
        grads: Params,
        opt_state: OptState,
        params: Params,
        clock: Clock,
        divisor: Tensor,
        found_inf: Tensor,
        kernel: AdamwKernel = FUNCTIONAL_ADAMW,
    ) -> tuple[Params, OptState]:
        new_params: Params = {}
        states = {}
        for group, optimizer in optimizers.items():
            arguments = (
                part(grads, group),
                opt_state[group],
                part(params, group),
                clock,
                divisor,
                found_inf,
            )
            if optimizer.fused is None:
                some, states[group] = guarded_step(optimizer, *arguments)
            else:
                some, states[group] = optimizer.fused(*arguments, kernel)
            new_params |= some
        return {name: new_params[name] for name in params}, states

    fusible = any(optimizer.fused for optimizer in optimizers.values())
    return Optimizer(init, update, fused if fusible else None)
