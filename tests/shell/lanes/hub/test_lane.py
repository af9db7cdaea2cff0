"""The lane as a whole: budget, threads, what it says of itself."""

from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest

from speedtronic.errors import Denied, Unavailable
from speedtronic.shell.lanes.base import ANY
from speedtronic.shell.lanes.hub.lane import HubLane
from speedtronic.shell.lanes.hub.limiter import CommitLimiter
from speedtronic.testing.hub import HubEmulator


def test_it_says_which_repository(
    hub: HubEmulator, hub_lane: Callable[..., HubLane]
) -> None:
    """And nothing of its token."""
    lane = hub_lane()

    assert repr(lane).startswith("HubLane('owner/run-")
    assert hub.token not in repr(lane._options)


def test_a_missing_repository_is_not_an_outage(
    hub: HubEmulator, hub_options: Callable[..., Any]
) -> None:
    """It would not come back by itself; it is asked for once."""
    lane = HubLane("owner/nothing", hub_options())
    before = hub.counts().total
    with pytest.raises(Denied, match="lane hub:owner/nothing: its head: no such repos"):
        lane.head()

    assert 1 == hub.counts().total - before


@pytest.mark.parametrize("kind", ["expired-token", "gated", "disabled"])
def test_what_only_a_person_can_help_is_denied(
    hub: HubEmulator, hub_lane: Callable[..., HubLane], kind: str
) -> None:
    """By every call."""
    lane = hub_lane()
    revision = lane.commit({"a": b"1"}, parent=None)
    hub.faults.inject(kind, times=None)
    for call in (
        lane.head,
        lambda: lane.read("a", revision),
        lambda: lane.commit({"b": b"1"}, parent=ANY),
    ):
        with pytest.raises(Denied):
            call()


def test_reads_bear_a_blip(hub: HubEmulator, hub_lane: Callable[..., HubLane]) -> None:
    """Asking again for what only is read cannot be wrong."""
    lane = hub_lane()
    revision = lane.commit({"a": b"1"}, parent=None)
    hub.faults.inject("storm", times=2, where="resolve-head")
    assert revision == lane.head()
    hub.faults.inject("dropped-request", times=2, where="tree")
    assert {"a": 1} == lane.names("", revision)


def test_the_budget_is_kept_without_waiting(
    hub: HubEmulator, hub_lane: Callable[..., HubLane], fake_time: Any
) -> None:
    """Who comes too early is told when; nothing is sent meanwhile."""
    lane = hub_lane(limiter=CommitLimiter(16, clock=fake_time))
    first = lane.commit({"a": b"1"}, parent=None)
    second = lane.commit({"a": b"2"}, parent=first)
    sent = hub.counts().of("commit")
    with pytest.raises(Unavailable, match="the budget of commits is used up") as caught:
        lane.commit({"a": b"3"}, parent=second)
    assert caught.value.retry_after_s is not None
    assert sent == hub.counts().of("commit")
    fake_time.now_s += caught.value.retry_after_s + 1e-6
    lane.commit({"a": b"3"}, parent=second)

    assert [] == fake_time.waits


def test_a_lost_race_costs_no_budget(
    hub: HubEmulator, hub_lane: Callable[..., HubLane], fake_time: Any
) -> None:
    """The Hub counts what it does, and it did nothing."""
    lane = hub_lane(limiter=CommitLimiter(16, clock=fake_time))
    first = lane.commit({"a": b"1"}, parent=None)
    hub.faults.inject("conflict", times=5)
    for _ in range(5):
        with pytest.raises(Exception, match="412"):
            lane.commit({"a": b"2"}, parent=first)

    lane.commit({"a": b"2"}, parent=first)


def test_threads_share_a_lane(
    hub: HubEmulator, hub_lane: Callable[..., HubLane]
) -> None:
    """Commits without a parent all land, whoever is first."""
    lane = hub_lane()
    told: list[str] = []

    def deliver(number: int) -> None:
        for part in range(5):
            name = f"nodes/{number}-{part}.safetensors"
            told.append(lane.commit({name: b"%d" % part}, parent=ANY))

    threads = [Thread(target=deliver, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    head = lane.head()

    assert head is not None
    assert 20 == len(set(told)) == len(lane.names("nodes/", head))
