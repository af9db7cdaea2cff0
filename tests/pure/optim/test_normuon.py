"""NorMuon against its own definition."""

import pytest
import torch
from torch import Tensor

from speedtronic.pure.optim.base import Clock, chain
from speedtronic.pure.optim.muon import scale_by_muon
from speedtronic.pure.optim.normuon import scale_by_row_moments

CLOCK = Clock(step=torch.tensor(0))


def matrices(seed: int) -> dict[str, Tensor]:
    made = torch.Generator().manual_seed(seed)
    shapes = {"a": (6, 10), "b": (10, 6), "c": (6, 10)}
    return {n: torch.randn(s, generator=made) for n, s in shapes.items()}


def test_steps_are_those_of_the_paper() -> None:
    """Algorithm 1 in a plain loop, with the norm that the matrix came with."""
    optimizer, eps = scale_by_row_moments(beta2=0.9), 1e-8
    state, moments = optimizer.init(matrices(0)), dict.fromkeys("abc", 0.0)
    for step in range(3):
        given = matrices(step)
        actual, state = optimizer.update(given, state, given, CLOCK)
        for name, o in given.items():
            mean = (o**2).sum(1, keepdim=True) / o.shape[1]
            moments[name] = 0.9 * moments[name] + 0.1 * mean
            hat = o / (moments[name] ** 0.5 + eps)
            torch.testing.assert_close(hat * (o.norm() / hat.norm()), actual[name])


def test_the_first_step_gives_all_rows_one_size() -> None:
    """And leaves that of the matrix alone."""
    given, optimizer = matrices(0), scale_by_row_moments()
    updates, _ = optimizer.update(given, optimizer.init(given), given, CLOCK)
    for name, update in updates.items():
        rows = torch.linalg.vector_norm(update, dim=1)
        torch.testing.assert_close(rows[:1].expand_as(rows), rows)
        torch.testing.assert_close(given[name].norm(), update.norm())


def test_the_adjustment_for_a_shape_may_come_before() -> None:
    """It is one factor for all rows."""
    given = matrices(0)
    alike = scale_by_row_moments(eps=0.0)
    plain = chain(scale_by_muon(), alike)
    matched = chain(scale_by_muon(adjust="match_rms_adamw"), alike)

    before, _ = plain.update(given, plain.init(given), given, CLOCK)
    after, _ = matched.update(given, matched.init(given), given, CLOCK)
    torch.testing.assert_close(0.2 * 10**0.5 * before["a"], after["a"])


def test_the_state_has_one_number_per_row() -> None:
    """A column of zeros, in float32 whatever the parameter is in."""
    state = scale_by_row_moments().init({"w": torch.ones(3, 5, dtype=torch.bfloat16)})

    assert torch.equal(torch.zeros(3, 1), state.square["w"])


@pytest.mark.parametrize("shape", [(3, 4), (0, 4), (3, 0)], ids=str)
def test_nothing_stays_nothing(shape: tuple[int, int]) -> None:
    """No division of zero by zero, with and without elements."""
    given, optimizer = {"w": torch.zeros(shape)}, scale_by_row_moments()
    updates, state = optimizer.update(given, optimizer.init(given), given, CLOCK)

    assert torch.equal(given["w"], updates["w"])
    assert torch.equal(torch.zeros(shape[0], 1), state.square["w"])


def test_a_dead_row_does_not_wake_up() -> None:
    """A row of zeros stays one beside others."""
    given = {"w": torch.tensor([[0.0, 0.0], [3.0, 4.0]])}
    optimizer = scale_by_row_moments()
    updates, _ = optimizer.update(given, optimizer.init(given), given, CLOCK)

    torch.testing.assert_close(given["w"], updates["w"])


@pytest.mark.parametrize("kwargs", [{"beta2": 1.0}, {"eps": -1.0}], ids=str)
def test_mistakes_are_told_at_once(kwargs: dict[str, float]) -> None:
    """Where the optimizer is made, with what was expected."""
    with pytest.raises(ValueError, match=f"{next(iter(kwargs))}: expected a number"):
        scale_by_row_moments(**kwargs)
