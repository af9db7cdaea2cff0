"""Laws of schedules."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from speedtronic.pure.config.optimizer import SCHEDULES, Optimizer, Scheduler
from speedtronic.pure.optim.base import Clock, Schedule
from speedtronic.pure.schedule import from_config, product, warmup, wsd
from speedtronic.testing.purity import check_pure

horizons = st.integers(1, 10**6)
fractions = st.floats(0.0, 1.0, width=32)
schedules = st.builds(
    lambda name, warmup_steps, final, fraction, horizon: from_config(
        Scheduler(
            name=name,
            warmup_steps=warmup_steps,
            min_lr_ratio=final,
            decay_fraction=fraction,
        ),
        Optimizer(lr=0.5),
        horizon,
    ),
    st.sampled_from(SCHEDULES),
    st.integers(0, 1000),
    fractions,
    fractions,
    horizons,
)
steps = st.integers(0, 2 * 10**6)


def at(schedule: Schedule, step: int, progress: float | None = None) -> torch.Tensor:
    share = None if progress is None else torch.tensor(progress)
    return schedule(Clock(step=torch.tensor(step), progress=share))


@given(schedules, steps, st.none() | fractions)
def test_a_rate_is_between_zero_and_its_peak(
    schedule: Schedule, step: int, progress: float | None
) -> None:
    """At any time, finite, in float32."""
    value = at(schedule, step, progress)

    assert torch.float32 == value.dtype
    assert 0.0 <= value <= 0.5


@given(schedules, st.lists(steps, min_size=1, max_size=9))
def test_a_batch_of_steps_is_each_alone(schedule: Schedule, many: list[int]) -> None:
    """The same bits, batched by broadcasting or by vmap."""
    step = torch.tensor(many)
    expected = torch.stack([at(schedule, s) for s in many])

    assert torch.equal(expected, schedule(Clock(step=step)))
    mapped = torch.vmap(lambda s: schedule(Clock(step=s)))(step)
    assert torch.equal(expected, mapped)


@given(schedules, steps)
def test_schedules_are_pure(schedule: Schedule, step: int) -> None:
    """They read the clock and nothing else."""
    check_pure(schedule, Clock(step=torch.tensor(step), progress=torch.tensor(0.5)))


@given(
    st.integers(1, 5000), st.integers(1, 5000), fractions, fractions, st.integers(0, 50)
)
def test_extending_a_stable_run_changes_nothing_earlier(
    one: int, other: int, fraction: float, final: float, warmup_steps: int
) -> None:
    """Until the shorter run decays both have the same bits."""
    short, longer = sorted((one, other))
    stable = torch.arange(max(0, short - max(1, round(short * fraction))) + 1)
    before, after = (
        product(0.3, warmup(warmup_steps), wsd(horizon, fraction, final))
        for horizon in (short, longer)
    )

    clock = Clock(step=stable)
    assert torch.equal(before(clock), after(clock))


@given(schedules, st.integers(0, 10**6), fractions, fractions)
def test_rates_never_rise_after_the_warmup(
    schedule: Schedule, step: int, one: float, other: float
) -> None:
    """In steps and in recorded progress."""
    after = step + 1000  # the longest warm-up
    assert at(schedule, after) >= at(schedule, after + 1)
    early, late = sorted((one, other))
    assert at(schedule, after, early) >= at(schedule, after, late)
