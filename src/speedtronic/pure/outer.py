"""The outer step: move the global model along what the nodes found.

DiLoCo (arXiv:2311.08105), algorithm 1, with the update of ``torch.optim.SGD`` without
dampening and weight decay::

    m' = mu m + D                       D the aggregated delta, base - current
    w' = w - lr (D + mu m')             Nesterov
    w' = w - lr m'                      heavy ball
    w' = w - lr D                       plain (mu = 0); lr = 1 is parameter averaging

It is written with plain additions and multiplications, each of them rounded, in this
order: no alpha, no fused kernels, whose bits depend on the CPU. So whoever repeats the
step gets the published bits. Buffers are set to their aggregated values, without
momentum.

Absent on purpose: schedules. A run has one outer learning rate, part of its lineage.
"""

import math

import attrs
import torch
from torch import Tensor

from speedtronic.pure.delta import Delta, Weights, delta_problems
from speedtronic.pure.reduction import like_real, real
from speedtronic.pure.tree import evolve, global_norm, state, tree_map, zeros_like
from speedtronic.pure.types import Params


@attrs.frozen(kw_only=True)
class OuterRule:
    """The outer optimizer's numbers; all nodes of a run agree on them."""

    learning_rate: float = 0.7
    momentum: float = 0.9  # 0: plain, and no momentum is stored
    nesterov: bool = True  # False: heavy ball

    def __attrs_post_init__(self) -> None:
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise ValueError(f"learning_rate is {self.learning_rate!r}, expected > 0")
        if not 0 <= self.momentum < 1:
            raise ValueError(
                f"momentum is {self.momentum!r}, expected 0 <= momentum < 1"
            )


@state
class OuterState:
    """The global model between two rounds."""

    weights: Weights  # params f32[P] or complex64[P]
    momentum: Params  # like weights.params; empty for the plain step
    round: Tensor  # i64[], rounds that changed the model


@state
class OuterInfo:
    """What an outer step tells."""

    delta_norm: Tensor  # f32[], of the aggregated delta; for people, not for decisions


def init_outer(weights: Weights, rule: OuterRule) -> OuterState:
    """The state before round 0.

    Raises:
        ValueError: a parameter is neither float32 nor complex64, or a buffer is
            uint64, which torch cannot compare; with their paths.

    >>> weights = Weights(params={"w": torch.ones(2)}, buffers={})
    >>> init_outer(weights, OuterRule()).momentum
    {'w': tensor([0., 0.])}
    """
    problems = delta_problems(weights, Delta(params=weights.params, buffers={}))
    problems += [
        f"buffers[{name!r}] is uint64, expected int64 or another dtype that compares"
        for name, x in sorted(weights.buffers.items())
        if x.dtype == torch.uint64
    ]
    if problems:
        raise ValueError("; ".join(problems))
    return OuterState(
        weights=weights,
        momentum=zeros_like(weights.params) if rule.momentum else {},
        round=torch.zeros((), dtype=torch.int64),
    )


def outer_step(
    state: OuterState, delta: Delta | None, rule: OuterRule
) -> tuple[OuterState, OuterInfo]:
    """Apply the aggregated delta of one round; None changes nothing.

    Raises:
        ValueError: ``delta`` does not fit the model (with the paths), or ``rule``
            does not fit the stored momentum.

    >>> plain = OuterRule(learning_rate=1.0, momentum=0.0)
    >>> before = init_outer(Weights(params={"w": torch.ones(1)}, buffers={}), plain)
    >>> found = Delta(params={"w": torch.tensor([0.5])}, buffers={})
    >>> after, info = outer_step(before, found, plain)
    >>> after.weights.params, after.round
    ({'w': tensor([0.5000])}, tensor(1))
    """
    if delta is None:
        return state, OuterInfo(delta_norm=torch.zeros(()))
    check_step(state, delta, rule)
    params, momentum = {}, {}
    for name, x in state.weights.params.items():
        trace = state.momentum.get(name)
        value, trace = move(
            real(x),
            None if trace is None else real(trace),
            real(delta.params[name]),
            rule,
        )
        params[name] = like_real(x, value)
        if trace is not None:
            momentum[name] = like_real(x, trace)
    weights = Weights(params=params, buffers=state.weights.buffers | delta.buffers)
    after = evolve(state, weights=weights, momentum=momentum, round=state.round + 1)
    return after, OuterInfo(delta_norm=global_norm(tree_map(real, delta.params)))


def check_step(state: OuterState, delta: Delta, rule: OuterRule) -> None:
    """Raise ValueError unless ``delta`` and ``rule`` fit ``state``.

    >>> weights = Weights(params={"w": torch.ones(1)}, buffers={})
    >>> plain = init_outer(weights, OuterRule(momentum=0.0))
    >>> check_step(plain, Delta(params={"w": torch.ones(1)}, buffers={}), OuterRule())
    Traceback (most recent call last):
    ValueError: momentum is 0.9, but the state holds momentum for 0 of 1 parameters
    """
    problems = delta_problems(state.weights, delta)
    params, stored = len(state.weights.params), len(state.momentum)
    if stored != (params if rule.momentum else 0):
        problems.append(
            f"momentum is {rule.momentum}, but the state holds momentum for "
            f"{stored} of {params} parameters"
        )
    if problems:
        raise ValueError("; ".join(problems))


def move(
    value: Tensor, momentum: Tensor | None, delta: Tensor, rule: OuterRule
) -> tuple[Tensor, Tensor | None]:
    """The update of one tensor, or of a piece of one: new value and new momentum.

    >>> plain = OuterRule(learning_rate=0.5, momentum=0.0)
    >>> move(torch.tensor([1.0]), None, torch.tensor([1.0]), plain)
    (tensor([0.5000]), None)
    """
    if momentum is None:
        return value - delta * rule.learning_rate, None
    momentum = momentum * rule.momentum + delta
    update = delta + momentum * rule.momentum if rule.nesterov else momentum
    return value - update * rule.learning_rate, momentum
