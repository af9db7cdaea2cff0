"""The keyed permutation."""

from collections import Counter
from math import factorial

import pytest
import torch

from speedtronic.pure.data.order import LARGEST, permute
from speedtronic.pure.random import key_from_seed, split
from speedtronic.testing.purity import check_pure

PINNED = [7, 1, 8, 0, 2, 3, 4, 5, 6, 9]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 31, 32, 33, 1000, 4097])
def test_every_index_is_sent_to_another_place(size: int) -> None:
    """The image of a range is that range."""
    image = permute(torch.arange(size), size, key_from_seed(1))

    assert list(range(size)) == sorted(image.tolist())


def test_it_is_a_function_of_single_indices() -> None:
    """An index goes to the same place alone and among others."""
    key = key_from_seed(5)
    together = permute(torch.arange(100), 100, key)

    assert together.tolist() == [
        int(permute(torch.tensor(i), 100, key)) for i in range(100)
    ]


def test_a_key_per_index() -> None:
    """Indices may have keys of their own."""
    keys = split(key_from_seed(0), 3)
    index = torch.tensor([4, 4, 4])

    expected = [int(permute(torch.tensor(4), 50, key)) for key in keys]

    assert expected == permute(index, 50, keys).tolist()


def test_keys_give_different_orders() -> None:
    """Another key, another order."""
    first, second = (permute(torch.arange(50), 50, key_from_seed(s)) for s in (1, 2))

    assert first.tolist() != second.tolist()


def test_the_order_is_pinned() -> None:
    """The order of a key never changes: runs that were begun depend on it."""
    image = permute(torch.arange(10), 10, key_from_seed(1234))

    assert PINNED == image.tolist()


def test_small_permutations_are_equally_likely() -> None:
    """All 24 orders of 4 rows come up equally often (chi-square, 23 degrees)."""
    count = 12000
    keys = split(key_from_seed(7), count)
    columns = [permute(torch.full((count,), i), 4, keys) for i in range(4)]
    seen = Counter(map(tuple, torch.stack(columns, 1).tolist()))
    expected = count / factorial(4)

    assert 24 == len(seen)
    assert 50 > sum((n - expected) ** 2 / expected for n in seen.values())


@pytest.mark.parametrize("parts", [7, 64])
def test_places_are_independent(parts: int) -> None:
    """Place and image are independent, in their last digits and in their first."""
    size = 300007
    index = torch.arange(size)
    image = permute(index, size, key_from_seed(3))
    for here, there in (
        (index % parts, image % parts),
        (index * parts // size, image * parts // size),
    ):
        seen = torch.bincount(here * parts + there, minlength=parts**2).double()
        chi = float(((seen - seen.mean()) ** 2 / seen.mean()).sum())
        freedom = (parts - 1) ** 2

        assert abs(chi - freedom) < 5 * (2 * freedom) ** 0.5


def test_a_huge_range_needs_no_list() -> None:
    """A billion of billions of rows is no more than one."""
    image = permute(torch.tensor([0, LARGEST - 1]), LARGEST, key_from_seed(0))

    assert bool(((image >= 0) & (image < LARGEST)).all())


@pytest.mark.parametrize("size", [0, -1, LARGEST + 1])
def test_a_range_that_cannot_be_ordered(size: int) -> None:
    """The size is checked."""
    with pytest.raises(ValueError, match=r"size must be in \[1, 2\*\*62\]"):
        permute(torch.tensor([0]), size, key_from_seed(0))


def test_it_is_pure() -> None:
    """No input is written, no hidden randomness drawn."""
    check_pure(permute, torch.arange(9), 9, key_from_seed(0))
