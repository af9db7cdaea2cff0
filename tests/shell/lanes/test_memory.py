"""What the lane in memory adds to the contract."""

import pytest

from speedtronic.errors import Missing
from speedtronic.shell.lanes.base import ANY
from speedtronic.shell.lanes.memory import MemoryLane


def test_only_the_newest_revisions_are_kept() -> None:
    """A vanished revision is Missing, as on every lane."""
    lane = MemoryLane(keep=2)
    first, second, third = (lane.commit({"a": b"1"}, parent=ANY) for _ in range(3))
    with pytest.raises(Missing, match="not kept"):
        lane.read("a", first)
    assert lane.read("a", second) == lane.read("a", third) == b"1"


def test_keeping_nothing_is_refused() -> None:
    """The head at least can always be read."""
    with pytest.raises(ValueError, match="keep is 0"):
        MemoryLane(keep=0)
