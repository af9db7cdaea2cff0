"""One revision, as the machines see it."""

from typing import Any

import pytest

from speedtronic.errors import Corrupt
from speedtronic.shell.distributed.look import Looker
from speedtronic.shell.lanes.memory import MemoryLane
from speedtronic.testing.runs import recorded_run

NAME = f"nodes/a/{'0' * 16}-1-{'f' * 64}.safetensors"


class Counting(MemoryLane):
    """Counts what is asked for."""

    asked = 0

    def names(self, prefix: str, revision: str) -> dict[str, int]:
        self.asked += 1
        return super().names(prefix, revision)


def test_an_empty_lane_has_no_manifest() -> None:
    """And no revision to read anything at."""
    view = Looker(MemoryLane()).look()
    assert (None, None, ()) == (view.revision, view.manifest, view.deltas)


def test_a_run_is_seen_with_what_waits_and_what_is_kept() -> None:
    """Names that are nobody's are not seen."""
    lane = MemoryLane()
    recorded_run(lane, rounds=2)
    more: dict[str, Any] = {NAME: b"12345", "nodes/a/notes.txt": b"x"}
    lane.commit(more, parent=lane.head())
    view = Looker(lane).look()
    assert view.manifest is not None
    assert (2, [(NAME, 5)]) == (
        view.manifest.round,
        [(d.name.path, d.bytes) for d in view.deltas],
    )
    assert all(name.startswith("rounds/") for name in view.kept)
    assert view.kept


def test_a_huge_manifest_is_not_read() -> None:
    """Its size is known before."""

    class Huge(MemoryLane):
        def names(self, prefix: str, revision: str) -> dict[str, int]:
            return dict.fromkeys(super().names(prefix, revision), 2**40)

        def read(self, name: str, revision: str) -> bytes:
            raise AssertionError("it was read")

    lane = Huge()
    lane.commit({"manifest.json": b"{}"}, parent=None)
    with pytest.raises(Corrupt, match=r"manifest\.json has 1099511627776 bytes"):
        Looker(lane).look()


def test_a_revision_is_read_once() -> None:
    """A poll that finds nothing new asks for the head alone."""
    lane = Counting()
    recorded_run(lane, rounds=1)
    looker = Looker(lane)
    first, lane.asked = looker.look(), 0
    assert (first, 0) == (looker.look(), lane.asked)
    lane.commit({NAME: b"1"}, parent=lane.head())
    assert (1, 1) == (len(looker.look().deltas), lane.asked)


def test_what_is_no_manifest_is_told() -> None:
    """Anybody who may write may write that."""
    lane = MemoryLane()
    lane.commit({"manifest.json": b"{}"}, parent=None)
    with pytest.raises(Corrupt, match=r"manifest\.json"):
        Looker(lane).look()


def test_once_a_run_is_known_a_spoiled_one_is_an_answer() -> None:
    """Its leader has to know on which revision to put it back."""
    lane = MemoryLane()
    known = recorded_run(lane, rounds=1)
    looker = Looker(lane)
    assert known == looker.look().manifest
    good = lane.read("manifest.json", str(lane.head()))
    revision = lane.commit({"manifest.json": b"{}"}, parent=lane.head())
    view = looker.look()
    assert (revision, None) == (view.revision, view.manifest)
    assert "missing key" in view.spoiled
    lane.commit({"manifest.json": good}, parent=lane.head())
    assert known == looker.look().manifest
