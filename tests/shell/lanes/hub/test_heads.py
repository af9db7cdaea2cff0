"""Which revision is the newest, when answers lag."""

from collections.abc import Callable

import pytest

from speedtronic.errors import Conflict, Unavailable
from speedtronic.shell.lanes.base import ANY
from speedtronic.shell.lanes.hub.lane import HubLane
from speedtronic.testing.hub import HubEmulator


@pytest.fixture
def lane(hub_lane: Callable[..., HubLane]) -> HubLane:
    return hub_lane()


def test_a_look_is_one_cheap_request(hub: HubEmulator, lane: HubLane) -> None:
    """A HEAD of a file, which counts where five times as many are allowed."""
    revision = lane.commit({"a": b"1"}, parent=None)
    before = hub.counts().total

    assert revision == lane.head()
    assert 1 == hub.counts().total - before
    assert "resolve-head" == hub.log[-1].endpoint


def test_an_answer_that_is_known_to_be_old_is_not_taken(
    hub: HubEmulator, lane: HubLane
) -> None:
    """The list of branches is asked instead."""
    lane.commit({"a": b"1"}, parent=None)
    second = lane.commit({"a": b"2"}, parent=ANY)
    hub.faults.inject("lagging-head", where="resolve-head")

    assert second == lane.head()
    assert ["resolve-head", "refs", "resolve-head"] == [e.endpoint for e in hub.log][
        -3:
    ]


def test_what_was_seen_is_not_unseen(hub: HubEmulator, lane: HubLane) -> None:
    """Not even when every source lags."""
    lane.commit({"a": b"1"}, parent=None)
    second = lane.commit({"a": b"2"}, parent=ANY)
    hub.faults.inject("lagging-head", where=["resolve-head", "refs"], times=None)

    assert second == lane.head()


def test_a_head_that_lags_for_others_only_conflicts(
    hub: HubEmulator, hub_lane: Callable[..., HubLane]
) -> None:
    """They are refused once, and then find the newer one at the list of branches."""
    first, other = hub_lane(), hub_lane()
    first.commit({"a": b"1"}, parent=None)
    old = other.head()
    second = first.commit({"a": b"2"}, parent=ANY)
    hub.faults.inject("lagging-head", where="resolve-head", times=None)

    assert old == other.head()
    with pytest.raises(Conflict):
        other.commit({"a": b"3"}, parent=old)
    assert second == other.head()


def test_a_branch_that_somebody_moved_back_is_believed(
    hub: HubEmulator, lane: HubLane, repository: str
) -> None:
    """As soon as the Hub refuses a commit on what seems newer."""
    first = lane.commit({"a": b"1"}, parent=None)
    second = lane.commit({"a": b"2"}, parent=first)
    hub.repo(repository).settings.branches["main"] = first
    assert second == lane.head()
    with pytest.raises(Conflict):
        lane.commit({"a": b"3"}, parent=second)

    assert first == lane.head()
    lane.commit({"a": b"3"}, parent=first)


def test_a_repository_with_a_first_commit_is_an_empty_lane(
    hub: HubEmulator, lane: HubLane, repository: str
) -> None:
    """So is one with files of others, which are seen from the first commit on."""
    assert lane.head() is None
    hub.repo(repository).write({"README.md": b"hello", "My File": b""})
    assert lane.head() is None
    revision = lane.commit({"run.json": b"{}"}, parent=None)

    assert {"README.md": 5, "run.json": 2} == lane.names("", revision)


def test_two_that_begin_are_told_apart(hub_lane: Callable[..., HubLane]) -> None:
    """The second finds a lane that is not empty any more."""
    one, other = hub_lane(), hub_lane()
    assert one.head() is None and other.head() is None
    one.commit({"run": b"1"}, parent=None)
    with pytest.raises(Conflict):
        other.commit({"run": b"2"}, parent=None)


def test_beginning_on_a_head_that_lags_begins_nothing_twice(
    hub: HubEmulator, hub_lane: Callable[..., HubLane]
) -> None:
    """The swap is of the first commit of the repository, and that is gone."""
    one, other = hub_lane(), hub_lane()
    begun = one.commit({"run": b"1"}, parent=None)
    hub.faults.inject("lagging-head", where="resolve-head", times=None)
    assert other.head() is None
    with pytest.raises(Conflict):
        other.commit({"run": b"2"}, parent=None)

    assert begun == other.head()


def test_an_outage_is_not_an_empty_lane(
    hub: HubEmulator, lane: HubLane, fake_time: object
) -> None:
    """Nor is a repository whose branch is not found."""
    for kind in ("unavailable", "dropped-request", "storm"):
        hub.faults.inject(kind, times=None)
        with pytest.raises(Unavailable):
            lane.head()
        hub.faults.clear()
