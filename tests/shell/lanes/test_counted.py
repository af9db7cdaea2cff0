"""A lane that counts."""

from pathlib import Path

from speedtronic.shell.lanes.base import Copy
from speedtronic.shell.lanes.counted import CountedLane
from speedtronic.shell.lanes.memory import MemoryLane


def test_bytes_are_counted_in_both_directions(tmp_path: Path) -> None:
    """Bytes, files and what is read; a copy moves none."""
    (tmp_path / "file").write_bytes(b"12345")
    lane = CountedLane(MemoryLane())
    first = lane.commit({"a": b"123", "b": tmp_path / "file"}, parent=None)
    head = lane.commit({"c": Copy("a")}, ["b"], parent=first, message="a copy")
    assert (8, 0, 2) == (lane.bytes_up, lane.bytes_down, lane.commits)
    lane.read("c", head)
    lane.fetch("a", head, tmp_path / "fetched")
    assert (6, {"a": 3, "c": 3}) == (lane.bytes_down, lane.names("", head))
    assert head == lane.head()
