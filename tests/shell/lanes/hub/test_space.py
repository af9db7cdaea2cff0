"""Housekeeping: history and storage."""

from collections.abc import Callable

import pytest

from speedtronic.errors import Denied, Missing, Unavailable
from speedtronic.pure.config.base import Secret
from speedtronic.shell.lanes.base import ANY
from speedtronic.shell.lanes.hub.lane import HubLane
from speedtronic.testing.hub import HubEmulator

DAY_S = 24 * 3600.0


@pytest.fixture
def lane(hub_lane: Callable[..., HubLane]) -> HubLane:
    return hub_lane()


def test_a_squash_keeps_the_head_only(lane: HubLane) -> None:
    """Under a new name; the lane goes on from there."""
    first = lane.commit({"a": b"1"}, parent=None)
    second = lane.commit({"a": b"2"}, parent=first)
    head = lane.squash()

    assert head == lane.head() != second
    assert b"2" == lane.read("a", head)
    for gone in (first, second):
        with pytest.raises(Missing):
            lane.names("", gone)
    lane.commit({"a": b"3"}, parent=head)


def test_a_reader_in_the_middle_looks_again(
    hub: HubEmulator, lane: HubLane, hub_lane: Callable[..., HubLane]
) -> None:
    """What it began to read is Missing, and the new head has it."""
    lane.commit({"a.safetensors": b"1"}, parent=None)
    reader = hub_lane()
    head = reader.head()
    assert head is not None and reader.names("", head)
    lane.squash()
    hub.faults.inject("lagging-head", where="resolve-head", times=None)
    with pytest.raises(Missing):
        reader.read("a.safetensors", head)
    again = reader.head()

    assert again is not None
    assert b"1" == reader.read("a.safetensors", again)


def test_a_squash_without_an_answer_is_unknown(hub: HubEmulator, lane: HubLane) -> None:
    """Whoever asked for it looks."""
    lane.commit({"a": b"1"}, parent=None)
    hub.faults.inject("dropped-request", where="squash")
    with pytest.raises(Unavailable, match="squashing"):
        lane.squash()


def test_squashing_needs_the_right_to(
    hub: HubEmulator, hub_lane: Callable[..., HubLane], lane: HubLane
) -> None:
    """A reader cannot."""
    lane.commit({"a": b"1"}, parent=None)
    with pytest.raises(Denied, match="write access"):
        hub_lane(token=Secret(hub.read_token)).squash()


def test_storage_is_released_of_what_the_head_does_not_name(
    hub: HubEmulator, lane: HubLane, repository: str
) -> None:
    """But not of what may be on its way into a commit."""
    lane.commit({"old.safetensors": b"old", "kept.safetensors": b"kept"}, parent=None)
    hub.clock.advance(2 * DAY_S)
    lane.commit({"new.safetensors": b"new"}, ["old.safetensors"], parent=ANY)
    lane.prepare({"coming.safetensors": b"coming"})
    head = lane.squash()
    assert 3 == lane.release(kept_s=DAY_S)

    left = {"kept.safetensors": b"kept", "new.safetensors": b"new"}
    assert left == {name: lane.read(name, head) for name in lane.names("", head)}
    lane.commit({"coming.safetensors": b"coming"}, parent=head)
    assert 0 == lane.release(kept_s=DAY_S)


def test_an_empty_storage_has_nothing_to_release(lane: HubLane) -> None:
    """Nothing is asked for then."""
    lane.commit({"a": b"1"}, parent=None)

    assert 0 == lane.release()
