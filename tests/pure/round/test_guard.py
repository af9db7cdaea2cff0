"""Who did harm."""

from collections.abc import Sequence
from itertools import combinations

import pytest

from speedtronic.pure.round.guard import culprits, rises

NAMES = "abcdefgh"


@pytest.mark.parametrize(
    "wrong", ["".join(c) for n in (1, 2) for c in combinations(NAMES, n)]
)
def test_each_that_does_harm_is_found(wrong: str) -> None:
    """However many there are, within twice as many tries as there are deltas."""
    tries, bad = 0, set(wrong)

    def harmful(part: Sequence[str]) -> bool:
        nonlocal tries
        tries += 1
        return bool(bad & set(part))

    assert tuple(sorted(bad)) == culprits(NAMES, harmful, 2 * len(NAMES))
    assert tries <= 2 * len(NAMES)


def test_the_work_is_bounded() -> None:
    """What is not resolved then is blamed together."""
    assert tuple(NAMES) == culprits(NAMES, lambda part: True, 0)
    found = culprits(NAMES, lambda part: "a" in part, 2)
    assert "a" in found
    assert set(found) < set(NAMES)


def test_one_alone_needs_no_try() -> None:
    """There is nobody else."""
    assert ("a",) == culprits("a", lambda part: False, 0)


def test_a_loss_that_is_none_rises() -> None:
    """And one that is as it was does not."""
    nan, infinite = float("nan"), float("inf")
    assert [True, True, False, False] == [
        rises(1.0, x, 0.1) for x in (nan, infinite, 1.0, 0.5)
    ]
