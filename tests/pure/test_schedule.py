"""Schedules, number by number."""

import math
from collections.abc import Callable

import pytest
import torch

from speedtronic.pure.config.optimizer import Optimizer, Scheduler
from speedtronic.pure.optim.base import Clock, Schedule
from speedtronic.pure.schedule import (
    constant,
    cosine,
    from_config,
    linear,
    product,
    warmup,
    wsd,
)


def at(schedule: Schedule, step: int, progress: float | None = None) -> float:
    share = None if progress is None else torch.tensor(progress)
    value = schedule(Clock(step=torch.tensor(step), progress=share))
    assert torch.float32 == value.dtype
    assert torch.Size([]) == value.shape
    return float(value)


def factor_of_2_0(step: int, warmup_steps: int, total: int, ratio: float) -> float:
    """The predecessor's rule, in double precision."""
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    p = min(1.0, max(0.0, (step - warmup_steps) / max(1, total - warmup_steps)))
    return ratio + (1.0 - ratio) / 2 * (1.0 + math.cos(math.pi * p))


@pytest.mark.parametrize("warmup_steps, total", [(3, 12), (100, 1000), (0, 5), (9, 4)])
def test_warmup_and_cosine_are_those_of_2_0(warmup_steps: int, total: int) -> None:
    """At every step, and past the end."""
    rate = product(warmup(warmup_steps), cosine(total, warmup_steps, 0.1))

    for step in range(total + 3):
        expected = factor_of_2_0(step, warmup_steps, total, 0.1)
        assert expected == pytest.approx(at(rate, step), rel=1e-6)


@pytest.mark.parametrize("final", [0.0, 0.1, 0.3, 1.0])
@pytest.mark.parametrize("make", [cosine, linear])
def test_shapes_meet_their_ends_exactly(
    make: Callable[..., Schedule], final: float
) -> None:
    """1 until the start, ``final`` from the horizon on, to the last bit."""
    shape = make(10, start=4, final=final)

    assert [1.0] * 5 == [at(shape, step) for step in range(5)]
    expected = float(torch.tensor(final))
    assert [expected] * 2 == [at(shape, step) for step in (10, 999)]


def test_a_warmup_of_no_steps_is_no_warmup() -> None:
    """The first step has the full rate."""
    assert 1.0 == at(warmup(0), 0)


def test_steps_stay_exact_beyond_float32() -> None:
    """Differences of steps are taken in integers."""
    start = 2**24
    assert 0.75 == at(linear(start + 4, start=start), start + 1)


@pytest.mark.parametrize(
    "expected, step",
    [(1.0, 0), (1.0, 80), (0.55, 90), (0.1, 100), (0.1, 200)],
)
def test_wsd_is_stable_then_falls(expected: float, step: int) -> None:
    """In the last fifth, linearly."""
    assert expected == pytest.approx(at(wsd(100, 0.2, final=0.1), step), rel=1e-6)


def test_wsd_may_never_decay_or_decay_throughout() -> None:
    """The two ends of ``decay_fraction``."""
    assert [1.0, 1.0] == [at(wsd(10, 0.0), step) for step in (0, 10)]
    assert [1.0, 0.5, 0.0] == [at(wsd(10, 1.0), step) for step in (0, 5, 10)]


def test_a_short_wsd_still_decays() -> None:
    """A fraction of less than a step is one step."""
    assert [1.0, 1.0, 0.0] == [at(wsd(3, 0.1), step) for step in (0, 2, 3)]


def test_wsd_refuses_a_fraction_that_is_none() -> None:
    """Where the schedule is made."""
    with pytest.raises(ValueError, match="decay_fraction: .* found 1.5"):
        wsd(10, 1.5)


def test_recorded_progress_replaces_the_steps() -> None:
    """A time-boxed run ends its schedule whatever step it has come to."""
    for shape in (cosine(10**6, final=0.1), linear(10**6, final=0.1)):
        assert 1.0 == at(shape, 5, progress=0.0)
        assert 0.55 == pytest.approx(at(shape, 5, progress=0.5))
        assert float(torch.tensor(0.1)) == at(shape, 5, progress=1.0)
        assert float(torch.tensor(0.1)) == at(shape, 5, progress=1.5)


def test_wsd_follows_recorded_progress() -> None:
    """Stable until the last fifth of the time."""
    shape = wsd(10**6, 0.2, final=0.0)

    assert 1.0 == at(shape, 5, progress=0.79)
    assert 0.5 == pytest.approx(at(shape, 5, progress=0.9), abs=1e-6)
    assert 0.0 == at(shape, 5, progress=1.0)


def test_a_warmup_counts_steps_in_a_time_boxed_run() -> None:
    """And a run whose time is up within it still decays."""
    rate = product(warmup(10), linear(100, start=10))

    assert 0.5 == at(rate, 4, progress=0.0)
    assert 0.0 == at(rate, 4, progress=1.0)


def test_a_longer_horizon_changes_no_stable_value() -> None:
    """What lets a run be extended, or branched, in its stable phase."""
    short = product(warmup(5), wsd(100, 0.2))
    longer = product(warmup(5), wsd(1000, 0.2))

    assert [at(short, s) for s in range(81)] == [at(longer, s) for s in range(81)]
    assert at(short, 82) < at(longer, 82)


def test_products_take_numbers_and_schedules() -> None:
    """A schedule times a schedule is a schedule."""
    assert 0.125 == at(product(0.5, constant(0.5), product(0.5)), 3)


@pytest.mark.parametrize(
    "name, expected",
    [("constant", 1.0), ("cosine", 0.55), ("linear", 0.55), ("wsd", 1.0)],
)
def test_the_config_names_the_shape(name: str, expected: float) -> None:
    """Half way between warm-up and horizon, with the section's defaults."""
    rate = from_config(Scheduler(name=name), Optimizer(lr=0.5), max_steps=1000)

    assert 0.5 * expected == pytest.approx(at(rate, 550))
    assert 0.005 == pytest.approx(at(rate, 0))


def test_the_section_may_have_its_own_horizon() -> None:
    """Else the run's end is the schedule's."""
    own = from_config(Scheduler(max_steps=200), Optimizer(lr=1.0), max_steps=1000)

    assert 0.1 == pytest.approx(at(own, 200))
