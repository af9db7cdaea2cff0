"""How far tensors are apart that should be the same."""

import math

import pytest
import torch
from torch import Tensor

from speedtronic.pure.difference import Difference, difference, joined

DTYPES = [
    torch.float64,
    torch.float32,
    torch.bfloat16,
    torch.float16,
    torch.complex64,
    torch.int64,
    torch.uint16,
    torch.bool,
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_same_bits_do_not_differ(dtype: torch.dtype) -> None:
    """In no dtype, with no dimension and with none of its elements."""
    for x in (torch.ones(()), torch.zeros(0), torch.tensor([[1, 0]])):
        found = difference(x.to(dtype), x.to(dtype).clone())
        assert Difference(compared=found.compared) == found


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_an_element_that_differs_is_found(dtype: torch.dtype) -> None:
    """One of three; by 1."""
    a, b = (torch.tensor(x).to(dtype) for x in ([0, 1, 1], [0, 0, 1]))
    found = difference(a, b)

    assert (1, 1.0, 1.0) == (found.elements, found.largest, found.squares)


@pytest.mark.parametrize(
    ("a", "b", "largest", "ulps"),
    [
        (1.0, 1.0 + 2**-23, 2**-23, 1.0),
        (1.0, 1.0 - 2**-24, 2**-24, 1.0),
        (-1.0, -1.0 - 2**-22, 2**-22, 2.0),
        (0.0, -0.0, 0.0, 0.0),
        (2**-149, -(2**-149), 2**-148, 2.0),
        (1.0, math.inf, math.inf, 2139095040.0 - 1065353216.0),
    ],
    ids=["up", "down", "two", "sign of zero", "across zero", "infinite"],
)
def test_ulps_count_the_numbers_in_between(
    a: float, b: float, largest: float, ulps: float
) -> None:
    """Across zero too, where the sign bit changes."""
    found = difference(torch.tensor([a]), torch.tensor([b]))

    assert (1, largest, ulps) == (found.elements, found.largest, found.ulps)


def test_what_is_no_number_is_told_as_such() -> None:
    """It is no distance."""
    found = difference(torch.tensor([math.nan, 1.0]), torch.tensor([1.0, 3.0]))

    assert "2 of 2 elements, by at most nan" == str(found)
    assert math.isnan(joined(found, Difference(largest=5.0)).largest)
    assert math.isnan(joined(Difference(largest=5.0), found).largest)


def pieces(x: Tensor) -> tuple[Tensor, Tensor]:
    return x[:4], x[4:]


def test_pieces_taken_together_are_the_whole() -> None:
    """That is how files are compared."""
    a, b = torch.arange(7.0), torch.tensor([0.0, 1, 2, 9, 4, 1, 6])
    one, two = (difference(*pair) for pair in zip(pieces(a), pieces(b), strict=True))

    assert difference(a, b) == joined(one, two)
    assert Difference(
        compared=7, elements=2, largest=6.0, ulps=2.25 * 2**23, squares=52.0
    ) == joined(one, two)
