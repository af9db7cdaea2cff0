"""Schedules: hyperparameters as functions of the clock.

A *shape* is a factor: 1 at its height, ``final`` at its end. Shapes, numbers and
other schedules multiply::

    learning_rate = product(3e-4, warmup(100), cosine(1000, start=100))

Any scalar can be driven so: learning rate, weight decay, momentum. Everything is
computed with tensors in float32, alone or in a batch with the same bits.

A run bounded in time ends its schedule properly: where ``clock.progress`` is given,
shapes follow it and not the steps; a warm-up always counts steps. Both factors then
apply at once, so that even a run whose time is up within its warm-up decays.

In the stable phase of `wsd` a run can be extended or branched: a longer horizon
changes no value before the decay of the shorter one.
"""

import math

import torch
from torch import Tensor

from speedtronic.pure.config import optimizer as config
from speedtronic.pure.optim.base import Clock, Hyperparameter, Schedule


def constant(value: float) -> Schedule:
    """The same value at every step.

    >>> constant(0.5)(Clock(step=torch.tensor(7)))
    tensor(0.5000)
    """
    return lambda clock: _number(value, clock)


def warmup(steps: int) -> Schedule:
    """A factor that rises to 1: ``(step + 1) / steps``, then 1.

    >>> [float(warmup(4)(Clock(step=torch.tensor(step)))) for step in (0, 1, 3, 4)]
    [0.25, 0.5, 1.0, 1.0]
    """
    if steps < 1:
        return constant(1.0)
    return lambda clock: _ratio(clock.step + 1, steps, clock).clamp(max=1.0)


def cosine(horizon: int, start: int = 0, final: float = 0.0) -> Schedule:
    """``final + (1 - final) / 2 * (1 + cos(pi p))``, p from 0 at start to 1.

    Args:
        horizon: the step at which p is 1.
        start: the step until which p is 0, normally the end of the warm-up.
        final: the factor from the horizon on.

    >>> shape = cosine(10, start=2, final=0.1)
    >>> [round(float(shape(Clock(step=torch.tensor(s)))), 4) for s in (0, 2, 6, 10, 11)]
    [1.0, 1.0, 0.55, 0.1, 0.1]
    """

    def shape(clock: Clock) -> Tensor:
        angle = math.pi * _position(clock, horizon, start)
        return final + (1.0 - final) / 2.0 * (1.0 + torch.cos(angle))

    return shape


def linear(horizon: int, start: int = 0, final: float = 0.0) -> Schedule:
    """A straight line from 1 at ``start`` to ``final`` at ``horizon``.

    >>> [float(linear(4)(Clock(step=torch.tensor(step)))) for step in (0, 1, 4, 9)]
    [1.0, 0.75, 0.0, 0.0]
    """
    return lambda clock: _fall(1.0 - _position(clock, horizon, start), final)


def wsd(horizon: int, decay_fraction: float = 0.2, final: float = 0.0) -> Schedule:
    """Stable, then linear decay in the last part (warmup-stable-decay).

    With `warmup` in front it is the schedule of MiniCPM (arXiv:2404.06395).

    Args:
        horizon: the step at which the decay ends.
        decay_fraction: share of the horizon that decays, in [0, 1].
        final: the factor from the horizon on.

    >>> [float(wsd(10)(Clock(step=torch.tensor(step)))) for step in (0, 8, 9, 10)]
    [1.0, 1.0, 0.5, 0.0]
    """
    if not 0 <= decay_fraction <= 1:
        raise ValueError(
            f"decay_fraction: expected a number from 0 to 1, found {decay_fraction!r}"
        )
    if decay_fraction == 0:
        return constant(1.0)
    decay_steps = max(1, round(horizon * decay_fraction))

    def shape(clock: Clock) -> Tensor:
        if clock.progress is None:
            done = _position(clock, horizon, horizon - decay_steps)
            return _fall(1.0 - done, final)
        left = (1.0 - clock.progress) / _number(decay_fraction, clock)
        return _fall(left.clamp(0.0, 1.0), final)

    return shape


def product(*factors: Hyperparameter) -> Schedule:
    """The product of numbers and schedules.

    >>> product(0.5, warmup(2))(Clock(step=torch.tensor(0)))
    tensor(0.2500)
    """

    def schedule(clock: Clock) -> Tensor:
        result = _number(1.0, clock)
        for factor in factors:
            result = result * (factor(clock) if callable(factor) else factor)
        return result

    return schedule


def from_config(
    scheduler: config.Scheduler, optimizer: config.Optimizer, max_steps: int
) -> Schedule:
    """The learning rate of a run.

    Args:
        scheduler: its section.
        optimizer: its section, for the peak.
        max_steps: of the run: the horizon unless the section has one.

    >>> rate = from_config(config.Scheduler(), config.Optimizer(lr=0.1), max_steps=1000)
    >>> rate(Clock(step=torch.tensor(99))), rate(Clock(step=torch.tensor(1000)))
    (tensor(0.1000), tensor(0.0100))
    """
    start, final = scheduler.warmup_steps, scheduler.min_lr_ratio
    horizon = max_steps if scheduler.max_steps is None else scheduler.max_steps
    shapes = {
        "constant": constant(1.0),
        "cosine": cosine(horizon, start, final),
        "linear": linear(horizon, start, final),
        "wsd": wsd(horizon, scheduler.decay_fraction, final),
    }
    return product(optimizer.lr, warmup(start), shapes[scheduler.name])


def _number(value: float, clock: Clock) -> Tensor:
    """A constant beside the clock: on its device, batched like it."""
    return torch.full_like(clock.step, value, dtype=torch.float32)


def _ratio(steps: Tensor, total: int, clock: Clock) -> Tensor:
    """``steps / total``; by a tensor, since CUDA multiplies by 1 / a Python number."""
    return steps.to(torch.float32) / _number(total, clock)


def _position(clock: Clock, horizon: int, start: int) -> Tensor:
    """f32[] in [0, 1]: recorded progress, or how far the steps are after ``start``."""
    if clock.progress is not None:
        return clock.progress.clamp(0.0, 1.0)
    done = _ratio(clock.step - start, max(1, horizon - start), clock)
    return done.clamp(0.0, 1.0)


def _fall(left: Tensor, final: float) -> Tensor:
    """From 1 where all of the way is left to ``final`` where none is."""
    return final + (1.0 - final) * left
