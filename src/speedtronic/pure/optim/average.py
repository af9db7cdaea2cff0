"""Averaged weights beside the raw ones, in the state of the optimizer.

An average is a pair of functions, like an optimizer: ``init(params)`` gives the first
average and ``update(average, params, clock)`` the one after a step. `averaged` puts it
into an optimizer's state, so that steps, checkpoints and donation know nothing of it;
training itself is not changed by a bit. Whoever evaluates or exports takes the average
in place of the parameters.

Buffers are not averaged: running statistics stay those of the raw weights. Deliberately
absent: several averages at once, which are wrappers in each other.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from speedtronic.pure.optim.base import (
    FUNCTIONAL_ADAMW,
    AdamwKernel,
    Clock,
    Optimizer,
    OptState,
    Schedule,
    apply_updates,
    check_range,
)
from speedtronic.pure.tree import evolve, state
from speedtronic.pure.types import Params


class Average(NamedTuple):
    """A mean of weights over time, as functions of values."""

    init: Callable[[Params], Params]
    update: Callable[[Params, Params, Clock], Params]


@state
class AveragedState:
    """The state of an optimizer, and the average of what it made."""

    optimizer: OptState
    average: Params  # like the parameters


def exponential_average(decay: float = 0.999) -> Average:
    """``a <- decay a + (1 - decay) w``, and the plain mean for as long as that is less.

    So after ``n`` steps the newest weights count at least ``1 / n``, and the first
    ones, before training, not at all.

    Raises:
        ValueError: for a decay that is not in [0, 1).

    >>> mean, clock = exponential_average(0.5), Clock(step=torch.tensor(9))
    >>> mean.update({"w": torch.tensor([1.0])}, {"w": torch.tensor([3.0])}, clock)
    {'w': tensor([2.])}
    """
    check_range("decay", decay, below=1.0)
    return _average(lambda clock: _share(clock, 0).clamp(min=1.0 - decay))


def tail_average(start: int = 0) -> Average:
    """The mean over all steps after the first ``start`` ones (arXiv:1803.05407).

    Until then it is the newest weights.

    Raises:
        ValueError: for a negative start.

    >>> mean, clock = tail_average(start=2), Clock(step=torch.tensor(3))
    >>> mean.update({"w": torch.tensor([1.0])}, {"w": torch.tensor([3.0])}, clock)
    {'w': tensor([2.])}
    """
    check_range("start", start)
    return _average(lambda clock: _share(clock, start))


def averaged(optimizer: Optimizer, average: Average) -> Optimizer:
    """The same optimizer, whose state also holds an average of the parameters.

    A skipped step does not count. Donation and the fused form are as before.

    >>> from speedtronic.pure.optim.sgd import sgd
    >>> w, clock = {"w": torch.tensor([1.0])}, Clock(step=torch.tensor(0))
    >>> both = averaged(sgd(1.0), exponential_average())
    >>> updates, after = both.update(w, both.init(w), w, clock)
    >>> updates, after.average
    ({'w': tensor([-1.])}, {'w': tensor([0.])})
    """

    def init(params: Params) -> AveragedState:
        return AveragedState(
            optimizer=optimizer.init(params), average=average.init(params)
        )

    def update(
        grads: Params, opt_state: AveragedState, params: Params, clock: Clock
    ) -> tuple[Params, AveragedState]:
        updates, inner = optimizer.update(grads, opt_state.optimizer, params, clock)
        after = apply_updates(params, updates)
        mean = average.update(opt_state.average, after, clock)
        return updates, AveragedState(optimizer=inner, average=mean)

    if optimizer.fused is None:
        return Optimizer(init, update)
    step = optimizer.fused

    def fused(
        grads: Params,
        opt_state: AveragedState,
        params: Params,
        clock: Clock,
        divisor: Tensor,
        found_inf: Tensor,
        kernel: AdamwKernel = FUNCTIONAL_ADAMW,
    ) -> tuple[Params, AveragedState]:
        after, inner = step(
            grads, opt_state.optimizer, params, clock, divisor, found_inf, kernel
        )
        mean = average.update(opt_state.average, after, clock)
        hold = found_inf.bool()
        kept = {
            name: torch.where(hold, old, mean[name])
            for name, old in opt_state.average.items()
        }
        return after, AveragedState(optimizer=inner, average=kept)

    return Optimizer(init, update, fused)


def begin_again(optimizer: Optimizer, opt_state: OptState, params: Params) -> OptState:
    """An optimizer's first state, with the average that ``opt_state`` has, if any.

    Moments are about gradients and may be out of date; an average is about weights.

    >>> from speedtronic.pure.optim.sgd import sgd
    >>> w, clock = {"w": torch.tensor([1.0])}, Clock(step=torch.tensor(0))
    >>> both = averaged(sgd(1.0, momentum=0.9), exponential_average())
    >>> _, after = both.update(w, both.init(w), w, clock)
    >>> again = begin_again(both, after, w)
    >>> again.average is after.average, again.optimizer is after.optimizer
    (True, False)
    """
    fresh = optimizer.init(params)
    if isinstance(fresh, AveragedState) and isinstance(opt_state, AveragedState):
        return evolve(fresh, average=opt_state.average)
    return fresh


def _average(weight: Schedule) -> Average:
    """The average in which the newest weights have this share."""

    def init(params: Params) -> Params:
        # A copy: a donated step writes over the parameters.
        return {name: value.clone() for name, value in params.items()}

    def update(average: Params, params: Params, clock: Clock) -> Params:
        share = weight(clock)
        return {name: average[name].lerp(w, share) for name, w in params.items()}

    return Average(init, update)


def _share(clock: Clock, start: int) -> Tensor:
    """f32[]: 1 over the number of steps after ``start``, this one included."""
    return 1.0 / (clock.step + 1 - start).clamp(min=1).to(torch.float32)
