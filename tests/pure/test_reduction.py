"""Sums in an order that depends on shapes only."""

import pytest
import torch

from speedtronic.pure.reduction import ROW, all_finite, norm_in_order, sum_in_order


@pytest.mark.parametrize("size", [0, 1, 2, 3, ROW - 1, ROW, ROW + 1, 2 * ROW + 5])
def test_every_element_is_added_once(size: int) -> None:
    """Integers show a lost or doubled element."""
    x = torch.arange(size)
    assert size * (size - 1) // 2 == sum_in_order(x).item()


def test_the_order_is_the_documented_one() -> None:
    """Rows first, then halves: chosen so that another order rounds differently."""
    big = 2.0**24
    x = torch.zeros(ROW + 2)
    x[0], x[1], x[ROW], x[ROW + 1] = big, 1.0, 1.0, -1.0
    assert big == sum_in_order(x).item()
    x[ROW], x[ROW + 1] = -big, 0.0
    assert 1.0 == sum_in_order(x).item()


def test_shape_does_not_matter() -> None:
    """Only the number of elements and their order."""
    x = torch.randn(6, 7, generator=torch.Generator().manual_seed(0))
    assert torch.equal(sum_in_order(x), sum_in_order(x.reshape(-1)))
    assert torch.equal(sum_in_order(x.T), sum_in_order(x.T.reshape(-1)))


def test_a_norm_of_nothing_is_zero() -> None:
    """No tensors, or empty ones."""
    assert 0.0 == norm_in_order([]).item() == norm_in_order([torch.zeros(0)]).item()


def test_a_norm_shows_what_is_not_finite() -> None:
    """So a bound on it refuses NaN as well, if it is written as `norm <= bound`."""
    assert torch.isnan(norm_in_order([torch.tensor([1.0, float("nan")])]))
    assert torch.isinf(norm_in_order([torch.tensor([1.0, float("-inf")])]))


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.uint32])
def test_integers_are_finite(dtype: torch.dtype) -> None:
    """They cannot be anything else."""
    assert all_finite(torch.ones(3, dtype=dtype))
