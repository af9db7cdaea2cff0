"""Which micro-batches a step may be made of, for whoever looks for the largest."""

import math
from collections.abc import Sequence


def sizes(rows: int) -> tuple[int, ...]:
    """Rows of a micro-batch that a step of so many rows can be made of, ascending.

    >>> sizes(12)
    (1, 2, 3, 4, 6, 12)
    """
    low = [size for size in range(1, math.isqrt(rows) + 1) if rows % size == 0]
    return tuple(sorted({*low, *(rows // size for size in low)}))


def first_size(rows: int) -> int:
    """The least size above 1: batch statistics of a single row do not exist.

    >>> first_size(15), first_size(1)
    (3, 1)
    """
    return next((size for size in sizes(rows) if size > 1), 1)


def next_size(
    allowed: Sequence[int], tried: int, used_bytes: float, room_bytes: float
) -> int | None:
    """The size to try after one that fits, or None if nothing larger will fit.

    At most twice the size before, where there is one: then a guess that was wrong by a
    half is still no harm.

    Args:
        allowed: sizes, ascending.
        tried: the last one.
        used_bytes: by a step of that size.
        room_bytes: that a step may use.

    >>> next_size(sizes(12), 2, used_bytes=100, room_bytes=1000)
    4
    >>> next_size(sizes(12), 4, used_bytes=200, room_bytes=250) is None
    True
    """
    larger = [size for size in allowed if size > tried]
    near = [size for size in larger if size <= 2 * tried] or larger[:1]
    fitting = [size for size in near if size * used_bytes <= room_bytes * tried]
    return max(fitting, default=None)
