"""Who did harm: trying the deltas of a round in halves.

A round that makes the leader's held-out loss rise beyond a bound is not published. Its
deltas are tried in halves instead, the harmful halves again, until single deltas are
left. The work is bounded: what is not resolved by then is blamed together, and who was
not found is tried with the next attempt at the round.
"""

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def rises(before: float, after: float, bound: float) -> bool:
    """Whether a loss rose by more than a share of what it was; to NaN it always did.

    Where there was no loss to begin with nothing can rise.

    >>> rises(2.0, 2.05, 0.05), rises(2.0, 2.2, 0.05), rises(2.0, float("nan"), 0.05)
    (False, True, True)
    >>> rises(float("nan"), 2.0, 0.05)
    False
    """
    return not math.isnan(before) and not after <= before + bound * abs(before)


def culprits(
    items: Sequence[T], harmful: Callable[[Sequence[T]], bool], tries: int
) -> tuple[T, ...]:
    """Those of ``items`` that do harm, in their order.

    Args:
        items: which together do harm.
        harmful: whether a part of them does; called at most ``tries`` times.
        tries: at least 0.

    Returns:
        At least one. Where a part does harm and neither of its halves does, the whole
        part, since nothing tells its members apart.

    >>> culprits("abcdef", lambda part: "b" in part, tries=20)
    ('b',)
    >>> culprits("abcdef", lambda part: {"a", "f"} <= set(part), tries=20)
    ('a', 'b', 'c', 'd', 'e', 'f')
    """
    left = tries

    def blamed(part: Sequence[T]) -> list[T]:
        nonlocal left
        if len(part) <= 1:
            return list(part)
        middle = len(part) // 2
        found: list[T] = []
        for half in (part[:middle], part[middle:]):
            if not left:
                return found or list(part)
            left -= 1
            if harmful(half):
                found += blamed(half)
        return found or list(part)

    return tuple(blamed(items))
