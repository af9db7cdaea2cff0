"""An hour never holds more commits than it may."""

from hypothesis import given
from hypothesis import strategies as st

from speedtronic.pure.budget import HOUR_S, full, taken

WAITS = st.lists(st.floats(0.0, 900.0), min_size=1, max_size=300)


@given(per_hour=st.integers(1, 200), waits=WAITS, eager=st.booleans())
def test_no_hour_holds_more_than_the_budget(
    per_hour: int, waits: list[float], eager: bool
) -> None:
    """Whichever hour one looks at, and however the commits come."""
    now_s, bucket = 0.0, full(per_hour, 0.0)
    taken_s: list[float] = []
    for pause_s in waits * 3:
        bucket, wait_s = taken(bucket, now_s)
        if not wait_s:
            taken_s.append(now_s)
        now_s += wait_s if eager else pause_s
    for start_s in taken_s:
        within = [t for t in taken_s if start_s <= t < start_s + HOUR_S - 1e-6]
        assert len(within) <= per_hour


@given(per_hour=st.integers(1, 200))
def test_waiting_as_told_is_enough(per_hour: int) -> None:
    """Up to a rounding of the clock."""
    bucket, now_s = full(per_hour, 0.0), 0.0
    for _ in range(3 * per_hour):
        bucket, wait_s = taken(bucket, now_s)
        if wait_s:
            now_s += wait_s + 1e-6
            bucket, wait_s = taken(bucket, now_s)
            assert not wait_s
