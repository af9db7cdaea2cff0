"""Averaged weights."""

import pytest
import torch
from torch import Tensor

from speedtronic.pure.optim.adamw import adamw
from speedtronic.pure.optim.average import (
    Average,
    averaged,
    begin_again,
    exponential_average,
    tail_average,
)
from speedtronic.pure.optim.base import (
    Clock,
    Optimizer,
    OptState,
    apply_updates,
    guarded_step,
)
from speedtronic.pure.optim.muon import muon
from speedtronic.pure.optim.sgd import sgd


def at(step: int) -> Clock:
    return Clock(step=torch.tensor(step))


def grads(step: int) -> dict[str, Tensor]:
    made = torch.Generator().manual_seed(step)
    return {"w": torch.randn(3, 4, generator=made)}


def run(optimizer: Optimizer, steps: int) -> tuple[list[Tensor], OptState]:
    """The weights after each step, and the last state."""
    params = {"w": torch.ones(3, 4)}
    state, path = optimizer.init(params), []
    for step in range(steps):
        updates, state = optimizer.update(grads(step), state, params, at(step))
        params = apply_updates(params, updates)
        path.append(params["w"])
    return path, state


@pytest.mark.parametrize("average", [exponential_average(), tail_average(3)])
def test_training_is_not_changed(average: Average) -> None:
    """Not by a bit."""
    plain, _ = run(adamw(0.1), 5)
    both, _ = run(averaged(adamw(0.1), average), 5)

    assert all(torch.equal(a, b) for a, b in zip(plain, both, strict=True))


def test_the_tail_is_the_mean_of_its_steps() -> None:
    """The last three of five."""
    path, state = run(averaged(sgd(0.1), tail_average(start=2)), 5)

    torch.testing.assert_close(torch.stack(path[2:]).mean(0), state.average["w"])


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_before_the_tail_the_average_is_the_newest(steps: int) -> None:
    """And in its first step."""
    path, state = run(averaged(sgd(0.1), tail_average(start=2)), steps)

    assert torch.equal(path[-1], state.average["w"])


def test_an_exponential_average_begins_as_the_mean() -> None:
    """The weights before training do not count."""
    path, state = run(averaged(sgd(0.1), exponential_average(0.9)), 5)

    torch.testing.assert_close(torch.stack(path).mean(0), state.average["w"])


def test_an_exponential_average_forgets() -> None:
    """From 1 / (1 - decay) steps on it is the usual recurrence."""
    path, state = run(averaged(sgd(0.1), exponential_average(0.5)), 6)
    expected = (path[0] + path[1]) / 2
    for weights in path[2:]:
        expected = 0.5 * expected + 0.5 * weights

    torch.testing.assert_close(expected, state.average["w"])


def test_the_first_average_is_a_copy() -> None:
    """A donated step may write over the parameters."""
    params = {"w": torch.ones(1, 1)}
    state = averaged(sgd(0.1), tail_average()).init(params)

    assert torch.equal(params["w"], state.average["w"])
    assert params["w"].data_ptr() != state.average["w"].data_ptr()


def test_a_skipped_step_does_not_count() -> None:
    """In the fused form as in the definition."""
    optimizer = averaged(adamw(0.1), exponential_average(0.5))
    assert optimizer.fused is not None
    params, one = {"w": torch.ones(3, 4)}, torch.tensor(1.0)
    state = optimizer.init(params)
    nan = {"w": torch.full((3, 4), torch.nan)}
    for _, kept in (
        optimizer.fused(nan, state, params, at(3), one, one),
        guarded_step(optimizer, nan, state, params, at(3), one, one),
    ):
        assert torch.equal(state.average["w"], kept.average["w"])


def test_the_fused_form_is_that_of_the_optimizer() -> None:
    """It has one if the optimizer has one."""
    assert averaged(adamw(0.1), tail_average()).fused is not None
    assert averaged(muon(0.1), tail_average()).fused is None


@pytest.mark.parametrize("decay", [-0.1, 1.0])
def test_a_decay_out_of_range_is_refused(decay: float) -> None:
    """Where the average is made."""
    with pytest.raises(ValueError, match="decay: expected a number from 0 to below 1"):
        exponential_average(decay)


def test_a_start_before_the_run_is_refused() -> None:
    """There are no steps to leave out."""
    with pytest.raises(ValueError, match="start: expected a number from 0"):
        tail_average(-1)


def test_beginning_again_forgets_all_but_the_average() -> None:
    """Moments are those of the first step; without an average all is new."""
    both = averaged(adamw(0.1), exponential_average())
    params = {"w": torch.ones(3, 4)}
    _, state = run(both, 5)
    again = begin_again(both, state, params)
    plain = begin_again(adamw(0.1), adamw(0.1).init(params), params)

    assert again.average is state.average
    assert 0 == int(again.optimizer[0].count) == int(plain[0].count)
