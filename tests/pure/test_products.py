"""Inner products of whole deltas."""

import math

import pytest
import torch
from torch import Tensor

from speedtronic.pure.products import Products, products, scaled
from speedtronic.pure.reduction import ROW
from speedtronic.testing.purity import check_pure


def vector(seed: int, scale: float = 1.0) -> dict[str, Tensor]:
    """Longer than a row, a scalar, nothing, and complex numbers."""
    draw = torch.Generator().manual_seed(seed)
    return {
        "w": torch.randn(ROW + 7, generator=draw) * scale,
        "a": torch.randn((), generator=draw) * scale,
        "none": torch.zeros(0),
        "c": torch.randn(3, 2, dtype=torch.complex64, generator=draw) * scale,
    }


def flat(one: dict[str, Tensor]) -> Tensor:
    parts = [torch.view_as_real(x) if x.is_complex() else x for x in one.values()]
    return torch.cat([x.reshape(-1).double() for x in parts])


def test_they_are_the_products() -> None:
    """Of all parameters, complex ones by their parts."""
    vectors = [vector(n) for n in range(4)]
    rows = torch.stack([flat(one) for one in vectors])
    found = products(vectors, crossed=True)
    expected = rows @ rows.T
    torch.testing.assert_close(
        torch.tensor(found.pairs, dtype=torch.float64), expected, rtol=1e-12, atol=1e-9
    )
    assert found.squares == tuple(found.pairs[i][i] for i in range(4))


def test_squares_alone_are_the_same() -> None:
    """And nothing else is computed."""
    vectors = [vector(n) for n in range(3)]
    whole, squares = (products(vectors, crossed=crossed) for crossed in (True, False))
    assert (whole.squares, ()) == (squares.squares, squares.pairs)


def test_the_largest_floats_do_not_overflow() -> None:
    """Products are float64, in which no square of a float32 is infinite."""
    huge = [{"w": torch.full((100,), 3e38)}, {"w": torch.full((100,), -3e38)}]
    found = products(huge, crossed=True)
    assert 9e78 == pytest.approx(found.squares[0])
    assert -9e78 == pytest.approx(found.pairs[0][1])


def test_close_deltas_are_told_apart() -> None:
    """A distance of a ten-millionth of the length, one float32 rounding, is seen."""
    one = {"w": torch.ones(1000)}
    other = {"w": torch.ones(1000) + 2**-23}
    found = products([one, other], crossed=True)
    squared = found.squares[0] + found.squares[1] - 2 * found.pairs[0][1]
    assert 2**-23 * math.sqrt(1000) == pytest.approx(math.sqrt(squared), rel=0.1)


def test_no_deltas_have_no_products() -> None:
    """Nor has one without parameters."""
    assert Products((), ()) == products([], crossed=True)
    assert Products((0.0,), ((0.0,),)) == products([{}], crossed=True)


def test_scaling_is_that_of_the_deltas() -> None:
    """By powers of two, bit for bit."""
    vectors = [vector(n) for n in range(3)]
    factors = [0.5, 1.0, 0.25]
    smaller = [
        {name: x * f for name, x in one.items()}
        for one, f in zip(vectors, factors, strict=True)
    ]
    whole = products(vectors, crossed=True)
    assert products(smaller, crossed=True) == scaled(whole, factors)
    assert products(smaller, crossed=False) == scaled(Products(whole.squares), factors)


def test_products_are_pure() -> None:
    """Nothing is written to."""
    check_pure(lambda a, b: products([a, b], crossed=True), vector(0), vector(1))
