"""Sizes of micro-batches."""

import pytest

from speedtronic.pure.micro_batch import first_size, next_size, sizes


@pytest.mark.parametrize("rows", [1, 2, 7, 12, 36, 97, 480])
def test_sizes_are_the_divisors(rows: int) -> None:
    """All of them, in order, each once."""
    expected = tuple(size for size in range(1, rows + 1) if rows % size == 0)

    assert expected == sizes(rows)


def test_a_single_row_is_never_the_first_choice() -> None:
    """But where a step has only one."""
    assert (1, 2, 3, 7) == tuple(map(first_size, (1, 8, 9, 7)))


@pytest.mark.parametrize(
    ("room", "expected"), [(400, 4), (399, 3), (299, None), (10_000, 4)]
)
def test_what_will_fit_is_tried(room: float, expected: int | None) -> None:
    """Two rows are known to take 200 bytes; at most twice as many are tried."""
    assert expected == next_size(sizes(12), 2, used_bytes=200, room_bytes=room)


def test_a_gap_is_jumped_over_if_there_is_room() -> None:
    """A prime number of rows has nothing between 1 and itself."""
    assert 7 == next_size(sizes(7), 1, used_bytes=10, room_bytes=70)
    assert next_size(sizes(7), 1, used_bytes=10, room_bytes=69) is None
    assert next_size(sizes(7), 7, used_bytes=10, room_bytes=9e9) is None
