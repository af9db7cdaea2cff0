"""Which source a row comes from."""

import torch

from speedtronic.pure.data.mixture import deal, shares
from speedtronic.testing.purity import check_pure


def test_one_source_has_every_row() -> None:
    """A mixture of one is that one."""
    source, draw = deal(torch.arange(5), shares([2.0]))

    assert ([0] * 5, [0, 1, 2, 3, 4]) == (source.tolist(), draw.tolist())


def test_equal_weights_alternate() -> None:
    """Two sources of one weight take turns."""
    source, draw = deal(torch.arange(6), shares([1.0, 1.0]))

    assert [1, 0, 1, 0, 1, 0] == source.tolist()
    assert [0, 0, 1, 1, 2, 2] == draw.tolist()


def test_proportions_hold_from_the_start() -> None:
    """After n rows each source has its share of n, to within two rows."""
    weights = [5.0, 3.0, 2.0]
    source, _ = deal(torch.arange(1000), shares(weights))
    for number, weight in enumerate(weights):
        seen = (source == number).cumsum(0)
        due = torch.arange(1, 1001) * weight / 10

        assert float((seen - due).abs().max()) < 2


def test_a_tiny_weight_still_gets_its_rows() -> None:
    """A weight below the resolution counts as the smallest one there is."""
    parts = shares([1.0, 1e-12])

    assert 1 == parts[1]


def test_far_positions() -> None:
    """The billionth row is dealt like the first, in the same integers."""
    first = 10**12
    source, draw = deal(torch.arange(first, first + 4), [1, 3])

    assert [1, 1, 1, 0] == source.tolist()
    assert [first * 3 // 4 + i for i in range(3)] == draw[:3].tolist()


def test_dealing_is_pure() -> None:
    """No input is written."""
    check_pure(lambda x: deal(x, [1, 2]), torch.arange(4))
