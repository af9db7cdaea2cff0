"""NorMuon's rows: what it keeps and what it evens out."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from properties.optim.strategies import seeds
from torch import Tensor

from speedtronic.pure.optim import Clock, Optimizer, OptState, scale_by_row_moments

CLOCK = Clock(step=torch.tensor(0))
sizes = st.integers(1, 12)


def after(optimizer: Optimizer, seed: int, shape: tuple[int, int]) -> OptState:
    """The state after some updates with random matrices."""
    state = optimizer.init({"w": torch.zeros(shape)})
    for step in range(3):
        given = {"w": random(seed + step, shape)}
        _, state = optimizer.update(given, state, given, CLOCK)
    return state


def random(seed: int, shape: tuple[int, int]) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def step(optimizer: Optimizer, state: OptState, matrix: Tensor) -> Tensor:
    updates, _ = optimizer.update({"w": matrix}, state, {"w": matrix}, CLOCK)
    return updates["w"]


@given(seeds, sizes, sizes, st.floats(0.0, 0.999))
def test_a_matrix_keeps_its_norm(
    seed: int, rows: int, columns: int, beta2: float
) -> None:
    """Whatever its rows did before: Muon's size of step is not touched."""
    optimizer, shape = scale_by_row_moments(beta2), (rows, columns)
    matrix = random(seed + 9, shape)
    result = step(optimizer, after(optimizer, seed, shape), matrix)

    torch.testing.assert_close(matrix.norm(), result.norm(), rtol=1e-4, atol=0.0)


@given(seeds, sizes, sizes)
def test_rows_only_change_their_size(seed: int, rows: int, columns: int) -> None:
    """Each keeps its direction."""
    optimizer, shape = scale_by_row_moments(), (rows, columns)
    matrix = random(seed + 9, shape)
    result = step(optimizer, after(optimizer, seed, shape), matrix)

    cosines = torch.cosine_similarity(matrix, result, dim=1)
    torch.testing.assert_close(torch.ones(rows), cosines, rtol=1e-5, atol=1e-6)


@given(seeds, sizes, sizes, st.data())
def test_the_order_of_rows_does_not_matter(
    seed: int, rows: int, columns: int, data: st.DataObject
) -> None:
    """Neurons have no order."""
    order = data.draw(st.permutations(range(rows)))
    optimizer, matrix = scale_by_row_moments(), random(seed, (rows, columns))
    fresh = optimizer.init({"w": matrix})

    torch.testing.assert_close(
        step(optimizer, fresh, matrix)[order], step(optimizer, fresh, matrix[order])
    )


@given(sizes, sizes, st.integers(-45, 15))
def test_zero_and_tiny_stay_finite(rows: int, columns: int, exponent: int) -> None:
    """And a matrix never grows beyond the norm it came with."""
    optimizer, matrix = (
        scale_by_row_moments(),
        torch.full((rows, columns), 10.0**exponent),
    )
    result = step(optimizer, optimizer.init({"w": matrix}), matrix)

    assert bool(torch.isfinite(result).all())
    assert result.norm() <= 1.001 * matrix.norm()
