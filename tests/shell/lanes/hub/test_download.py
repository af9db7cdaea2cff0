"""Reading, while bodies break off, lie or stand still."""

import hashlib
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from speedtronic.errors import Corrupt, StorageError, Unavailable
from speedtronic.shell.lanes.base import ANY
from speedtronic.shell.lanes.hub.lane import HubLane
from speedtronic.testing.hub import HubEmulator

NAMES = ["small.json", "large.safetensors"]  # in git, and in the storage
CONTENT = bytes(range(256)) * 5_000  # two pieces


@pytest.fixture
def lane(hub_lane: Callable[..., HubLane]) -> HubLane:
    return hub_lane()


@pytest.fixture
def revision(lane: HubLane) -> str:
    return lane.commit(dict.fromkeys(NAMES, CONTENT), parent=ANY)


def downloads(hub: HubEmulator) -> int:
    return hub.counts().of("resolve-get")


@pytest.mark.parametrize("name", NAMES)
def test_one_wrong_bit_is_asked_for_again(
    hub: HubEmulator, lane: HubLane, revision: str, name: str
) -> None:
    """The client itself looks at lengths only."""
    hub.faults.inject("flipped")

    assert CONTENT == lane.read(name, revision)


@pytest.mark.parametrize("kind", ["flipped", "short"])
@pytest.mark.parametrize("name", NAMES)
def test_bytes_that_stay_wrong_are_corrupt(
    hub: HubEmulator, lane: HubLane, revision: str, name: str, kind: str, tmp_path: Path
) -> None:
    """Nothing of them is kept, neither in the target nor in the cache."""
    hub.faults.inject(kind, times=None)
    target = tmp_path / "target"
    with pytest.raises(Corrupt, match=f"lane hub:owner/.*{name}"):
        lane.fetch(name, revision, target)
    hub.faults.clear()

    assert not target.exists()
    assert CONTENT == lane.read(name, revision)


def test_a_body_that_breaks_off_is_taken_up_where_it_broke(
    hub: HubEmulator, lane: HubLane, revision: str
) -> None:
    """Half of a model is not downloaded twice."""
    hub.faults.inject("truncated")
    before = downloads(hub)

    assert CONTENT == lane.read(NAMES[1], revision)
    assert 2 == downloads(hub) - before
    assert 206 == hub.log[-1].status


def test_breaking_off_for_ever_ends(
    hub: HubEmulator, lane: HubLane, revision: str
) -> None:
    """After a few attempts that brought nothing."""
    before = downloads(hub)
    hub.faults.inject("dropped-request", times=None, where="resolve-get")
    with pytest.raises(Unavailable, match="no answer from the Hub"):
        lane.read(NAMES[1], revision)
    assert 4 == downloads(hub) - before


def test_a_silent_connection_is_given_up(
    hub: HubEmulator, hub_lane: Callable[..., HubLane], revision: str
) -> None:
    """The client waits for ever unless it is told otherwise."""
    lane = hub_lane(timeout_s=0.2)
    hub.faults.inject("stalled-body", where="resolve-get")

    assert CONTENT == lane.read(NAMES[1], revision)


def test_a_second_read_costs_nothing(
    hub: HubEmulator, lane: HubLane, revision: str
) -> None:
    """Not even under another name or in another revision."""
    lane.read(NAMES[1], revision)
    other = lane.commit({"n/copy.safetensors": CONTENT}, parent=ANY)
    before = downloads(hub)

    assert CONTENT == lane.read("n/copy.safetensors", other)
    assert 0 == downloads(hub) - before


def test_a_cache_that_rots_is_noticed(
    hub: HubEmulator, lane: HubLane, revision: str, tmp_path: Path
) -> None:
    """It is a convenience, not a source."""
    lane.read(NAMES[1], revision)
    (kept,) = (tmp_path / "cache").iterdir()
    kept.write_bytes(CONTENT[:-1] + b"!")

    assert CONTENT == lane.read(NAMES[1], revision)
    assert hashlib.sha256(CONTENT).hexdigest() in kept.name
    assert CONTENT == kept.read_bytes()


def test_the_cache_stays_within_its_bound(
    hub_lane: Callable[..., HubLane], revision: str, tmp_path: Path
) -> None:
    """What does not fit is read all the same."""
    lane = hub_lane(cache_bytes=len(CONTENT) // 2)

    assert CONTENT == lane.read(NAMES[0], revision) == lane.read(NAMES[1], revision)
    assert [] == list((tmp_path / "cache").iterdir())


def test_a_cache_that_cannot_be_written_is_told(
    hub_lane: Callable[..., HubLane], revision: str, tmp_path: Path
) -> None:
    """As a matter of this machine's disk, not of the Hub."""
    (tmp_path / "file").touch()
    lane = hub_lane(cache=tmp_path / "file")
    with pytest.raises(StorageError, match="cannot be"):
        lane.read(NAMES[0], revision)


def test_a_stop_ends_a_download(
    hub: HubEmulator, hub_lane: Callable[..., HubLane], revision: str
) -> None:
    """In the middle of a body that stands still."""
    stop = threading.Event()
    lane = hub_lane(stop=stop, timeout_s=60.0)
    lane.names("", revision)
    hub.faults.inject("stalled-body", where="resolve-get")
    threading.Timer(0.2, stop.set).start()
    with pytest.raises(Unavailable, match="stopped"):
        lane.read(NAMES[1], revision)


def test_fetching_onto_a_full_disk_is_told(
    lane: HubLane, revision: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And leaves what was there."""

    def full(*arguments: object) -> int:
        raise OSError(28, "No space left on device")

    lane.read(NAMES[1], revision)
    target = tmp_path / "target"
    target.write_bytes(b"old")
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StorageError, match="the disk is full"):
        lane.fetch(NAMES[1], revision, target)
    assert b"old" == target.read_bytes()
