"""The inner step: micro-batches to gradients to a new state.

::

    total = accumulate(gradient, state, micro_batches)   # a fold of sums
    total = reduce(total)                                # the shell's, between ranks
    state, info = apply(optimizer, state, total)         # divide, check, clip, step

Sums of loss and of counted targets are divided once, at the end, so that every split
of the same targets gives the same step. A step whose gradient is not finite, or that
counts no target, changes nothing but the loss scale and the counters of skipped steps.
Nothing here waits for a device: info stays there until somebody reads it.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from speedtronic.pure.contract import ContractError
from speedtronic.pure.gradient import Gradient
from speedtronic.pure.optim.base import (
    AdamwKernel,
    Clock,
    Optimizer,
    guarded_step,
)
from speedtronic.pure.optim.scale import clip_coefficient
from speedtronic.pure.random import fold_in
from speedtronic.pure.scaling import ScaleState, update_scale
from speedtronic.pure.tree import evolve, global_norm, state, static, tree_map
from speedtronic.pure.types import Batch, Buffers, Params


@state
class InnerState:
    """All that the next inner step needs."""

    params: Params  # f32, trained
    frozen: Params  # not trained
    buffers: Buffers
    optimizer: Any  # the optimizer's state, by parameter name
    scale: ScaleState | tuple[()]  # of fp16, else empty
    key: Tensor  # i64[2], constant: randomness is the key folded with the position
    step: Tensor  # i64[], steps that changed the parameters
    skipped: Tensor  # i64[], steps that were not usable
    skipped_in_row: Tensor  # i64[], of those, since the last usable one


@state
class Accumulated:
    """Sums over the micro-batches of one step."""

    grads: Params  # gradient of the (scaled) loss sum
    loss_sum: Tensor  # f32[]
    count: Tensor  # f32[], counted targets
    metrics: dict[str, Tensor]  # f32[] each, metric times count
    buffers: Buffers  # as the last micro-batch left them


@state
class StepInfo:
    """What a step tells; nothing of it is needed by the next one."""

    loss: Tensor  # f32[], mean over the counted targets, NaN without any
    count: Tensor  # f32[], counted targets
    gradient_norm: Tensor  # f32[], unscaled, before clipping
    applied: Tensor  # bool[], False for a skipped step
    metrics: dict[str, Tensor]  # f32[] each, means weighted by count


@state
class StepRule:
    """What does not change from step to step."""

    # Clip the global gradient norm to this.
    max_norm: float | None = static(default=None)
    # Finite steps before the loss scale doubles.
    growth_interval: int = static(default=2000)
    # For the optimizer's fused form, if it has one.
    kernel: AdamwKernel | None = static(default=None)


PLAIN = StepRule()


def init_inner(
    optimizer: Optimizer,
    params: Params,
    key: Tensor,
    *,
    frozen: Params | None = None,
    buffers: Buffers | None = None,
    scale: ScaleState | tuple[()] = (),
) -> InnerState:
    """The state before the first step.

    >>> from speedtronic.pure.optim import sgd
    >>> from speedtronic.pure.random import key_from_seed
    >>> init_inner(sgd(0.1), {"w": torch.ones(1)}, key_from_seed(0)).step
    tensor(0)
    """
    zero = torch.zeros((), dtype=torch.int64, device=key.device)
    return InnerState(
        params=params,
        frozen=frozen or {},
        buffers=buffers or {},
        optimizer=optimizer.init(params),
        scale=scale,
        key=key,
        step=zero,
        skipped=zero.clone(),
        skipped_in_row=zero.clone(),
    )


def position(state: InnerState) -> Tensor:
    """i64[]: batches consumed so far; it numbers data and randomness."""
    return state.step + state.skipped


def accumulate(
    gradient: Gradient, state: InnerState, micro_batches: Sequence[Batch]
) -> Accumulated:
    """Sum gradients, losses and counts over the micro-batches of one step.

    Raises:
        TypeError: for a batch that is not in a list.
        ValueError: without a micro-batch.
    """
    if isinstance(micro_batches, (Mapping, Tensor)):
        kind = type(micro_batches).__name__
        raise TypeError(f"expected a list of micro-batches, found {kind}; use [batch]")
    if not micro_batches:
        raise ValueError("a step needs at least one micro-batch, found none")
    total: Accumulated | None = None
    for index, batch in enumerate(micro_batches):
        buffers = state.buffers if total is None else total.buffers
        part = accumulate_one(gradient, state, buffers, batch, index)
        total = part if total is None else add_accumulated(total, part)
    assert total is not None
    return total


def accumulate_one(
    gradient: Gradient,
    state: InnerState,
    buffers: Buffers,
    batch: Batch,
    index: Tensor | int,
) -> Accumulated:
    """The share of the micro-batch number ``index`` of a step."""
    key = state.key
    if gradient.draws:
        key = fold_in(key, position(state) + (index << 32))
    scale = state.scale.scale if isinstance(state.scale, ScaleState) else None
    grads, out = gradient(state.params, state.frozen, buffers, batch, key, scale)
    return Accumulated(
        grads=grads,
        loss_sum=out.loss_sum,
        count=out.count,
        metrics={name: value * out.count for name, value in out.metrics.items()},
        buffers=out.buffers,
    )


def add_accumulated(a: Accumulated, b: Accumulated) -> Accumulated:
    """The sum of two shares; buffers are those of the later one.

    A share without targets adds nothing, although a mean over no target, and its
    gradient, may be NaN.

    Raises:
        ContractError: the shares have different metrics.
    """
    if other := sorted(a.metrics.keys() ^ b.metrics.keys()):
        raise ContractError(
            f"the model gives the metric {other[0]!r} for some micro-batches only;"
            " give it for all of them"
        )

    def add(x: Tensor, y: Tensor) -> Tensor:
        return torch.where(b.count > 0, torch.where(a.count > 0, x + y, y), x)

    sums = tree_map(
        add,
        (a.grads, a.loss_sum, a.count, a.metrics),
        (b.grads, b.loss_sum, b.count, b.metrics),
    )
    grads, loss_sum, count, metrics = sums
    return Accumulated(
        grads=grads,
        loss_sum=loss_sum,
        count=count,
        metrics=metrics,
        buffers=b.buffers,
    )


def apply(
    optimizer: Optimizer,
    state: InnerState,
    total: Accumulated,
    *,
    rule: StepRule = PLAIN,
    progress: Tensor | None = None,
) -> tuple[InnerState, StepInfo]:
    """Divide, check, clip and step.

    Args:
        optimizer: an init/update pair.
        state: before the step.
        total: sums over all micro-batches of the step.
        rule: clipping and loss scaling.
        progress: f32[] in [0, 1], the recorded share of a time-boxed run, or None
            when the schedule goes by steps.

    Raises:
        ValueError: for a bound on the norm that is not above 0.
    """
    if rule.max_norm is not None and not rule.max_norm > 0:
        raise ValueError(f"max_norm: expected a number above 0, found {rule.max_norm}")
    one = torch.ones_like(total.count)
    counted = total.count > 0
    count = torch.where(counted, total.count, one)
    divisor = count
    if isinstance(state.scale, ScaleState):
        divisor = count * state.scale.scale
    norm = global_norm(total.grads) / divisor
    usable = torch.isfinite(norm) & torch.isfinite(total.loss_sum) & counted
    if rule.max_norm is not None:
        divisor = divisor / clip_coefficient(norm, rule.max_norm)
    clock = Clock(step=state.step, progress=progress)
    advance = partial(guarded_step, optimizer)
    if rule.kernel is not None and optimizer.fused is not None:
        advance = partial(optimizer.fused, kernel=rule.kernel)
    hold = (~usable).to(torch.float32)
    params, moments = advance(
        total.grads, state.optimizer, state.params, clock, divisor, hold
    )
    skip = (~usable).to(torch.int64)
    after = evolve(
        state,
        params=params,
        buffers=_select(usable, total.buffers, state.buffers),
        optimizer=moments,
        scale=_next_scale(state.scale, torch.isfinite(norm), rule),
        step=state.step + (1 - skip),
        skipped=state.skipped + skip,
        skipped_in_row=(state.skipped_in_row + skip) * skip,
    )
    info = StepInfo(
        loss=torch.where(counted, total.loss_sum / count, torch.nan),
        count=total.count,
        gradient_norm=norm,
        applied=usable,
        metrics={name: value / count for name, value in total.metrics.items()},
    )
    return after, info


def inner_step(
    gradient: Gradient,
    optimizer: Optimizer,
    state: InnerState,
    micro_batches: Sequence[Batch],
    *,
    rule: StepRule = PLAIN,
    progress: Tensor | None = None,
) -> tuple[InnerState, StepInfo]:
    """One optimizer step over one or more micro-batches.

    >>> from torch import nn
    >>> from speedtronic.pure.gradient import gradient
    >>> from speedtronic.pure.module import ModuleLoss, split
    >>> from speedtronic.pure.optim import sgd
    >>> from speedtronic.pure.random import key_from_seed
    >>> module = nn.Linear(2, 2)
    >>> params, _, _ = split(module)
    >>> state = init_inner(sgd(0.5), params, key_from_seed(0))
    >>> batch = (torch.eye(2), torch.tensor([0, 1]))
    >>> slope = gradient(ModuleLoss(module, train=True))
    >>> for _ in range(20):
    ...     state, info = inner_step(slope, sgd(0.5), state, [batch])
    >>> bool(info.loss < 0.3), state.step
    (True, tensor(20))
    """
    total = accumulate(gradient, state, micro_batches)
    return apply(optimizer, state, total, rule=rule, progress=progress)


def _select(condition: Tensor, new: Any, old: Any) -> Any:
    return tree_map(lambda a, b: torch.where(condition, a, b), new, old)


def _next_scale(
    scale: ScaleState | tuple[()], finite: Tensor, rule: StepRule
) -> ScaleState | tuple[()]:
    if not isinstance(scale, ScaleState):
        return ()
    return update_scale(scale, finite, growth_interval=rule.growth_interval)
