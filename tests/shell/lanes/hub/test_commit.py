"""Commits whose answers are lost, late, or refusals."""

from collections.abc import Callable
from typing import Any

import pytest

from speedtronic.errors import Conflict, Denied, Missing, Unavailable
from speedtronic.pure.config.base import Secret
from speedtronic.shell.lanes.base import ANY, Copy, Parent
from speedtronic.shell.lanes.hub.lane import HubLane
from speedtronic.testing.hub import HubEmulator

APPLIED = ["error-after-applying", "dropped-reply"]
LOST = ["server-error", "unavailable", "gateway-timeout", "dropped-request"]


@pytest.fixture
def lane(hub_lane: Callable[..., HubLane]) -> HubLane:
    return hub_lane()


@pytest.fixture
def first(lane: HubLane) -> str:
    return lane.commit({"a": b"1"}, parent=None)


def commits(hub: HubEmulator, repository: str) -> int:
    return len(hub.repo(repository).history)


@pytest.mark.parametrize("kind", APPLIED)
@pytest.mark.parametrize("swap", [True, False], ids=["swap", "any"])
def test_a_commit_that_was_applied_is_found(
    hub: HubEmulator, lane: HubLane, first: str, repository: str, kind: str, swap: bool
) -> None:
    """The caller never learns that its answer was lost; nothing is sent twice."""
    before = commits(hub, repository)
    hub.faults.inject(kind)
    second = lane.commit({"a": b"2"}, parent=first if swap else ANY)

    assert second == lane.head()
    assert b"2" == lane.read("a", second)
    assert 1 == commits(hub, repository) - before


@pytest.mark.parametrize("swap", [True, False], ids=["swap", "any"])
def test_a_commit_is_found_behind_others(
    hub: HubEmulator, lane: HubLane, first: str, repository: str, swap: bool
) -> None:
    """Its own revision is the answer, not the head."""

    hub.faults.inject("dropped-reply", where="commit")
    hub.faults.inject("unavailable", where="commits")

    def meanwhile(seconds: float) -> None:
        hub.repo(repository).write({"elsewhere": b"x"})

    lane._client.pause = meanwhile  # type: ignore[method-assign]
    second = lane.commit({"a": b"2"}, parent=first if swap else ANY)

    assert {"a": 1} == lane.names("", second)
    assert second != lane.head()


@pytest.mark.parametrize("kind", LOST)
@pytest.mark.parametrize("swap", [True, False], ids=["swap", "any"])
def test_a_commit_that_is_not_found_stays_unknown(
    hub: HubEmulator, lane: HubLane, first: str, repository: str, kind: str, swap: bool
) -> None:
    """It is not sent again: it may be on its way."""
    sent = hub.counts().of("commit")
    hub.faults.inject(kind, where="commit")
    with pytest.raises(Unavailable, match="not in the history of main so far"):
        lane.commit({"a": b"2"}, parent=first if swap else ANY)

    assert first == lane.head()
    assert 1 == hub.counts().of("commit") - sent


def test_a_commit_that_comes_late_comes_once(
    hub: HubEmulator, lane: HubLane, first: str, repository: str
) -> None:
    """A second attempt on the same parent finds another head then."""
    hub.faults.inject("late", requests=6)
    with pytest.raises(Unavailable):
        lane.commit({"a": b"2"}, parent=first)
    for _ in range(6):
        late = lane.head()

    assert late != first and late is not None
    assert b"2" == lane.read("a", late)
    with pytest.raises(Conflict):
        lane.commit({"a": b"3"}, parent=first)


def test_a_lost_race_is_proven_by_who_won_it(
    hub: HubEmulator,
    lane: HubLane,
    hub_lane: Callable[..., HubLane],
    first: str,
) -> None:
    """Only one commit follows on a parent, so this one never will."""
    hub.faults.inject("unavailable", where="commit")
    other = hub_lane()
    ask = lane._client.get

    def late(url: str) -> Any:
        if "/commits/" in url and other.head() == first:
            other.commit({"a": b"theirs"}, parent=first)
        return ask(url)

    lane._client.get = late  # type: ignore[method-assign]
    with pytest.raises(Conflict, match="this commit was not applied"):
        lane.commit({"a": b"mine"}, parent=first)


def test_a_commit_that_was_squashed_is_not_answered_by_another_revision(
    hub: HubEmulator, lane: HubLane, first: str, repository: str
) -> None:
    """Its tree is there, but so may be that of others."""
    hub.faults.inject("dropped-reply", where="commit")
    hub.faults.inject("unavailable", where="commits")
    lane._client.pause = lambda s: hub.repo(repository).squash()  # type: ignore[method-assign, assignment]
    with pytest.raises(Unavailable, match="applied, and the history squashed since"):
        lane.commit({"a": b"2"}, parent=first)


def test_an_outage_after_a_commit_says_that_nothing_is_known(
    hub: HubEmulator, lane: HubLane, first: str
) -> None:
    """Neither a success nor a conflict is made up."""
    hub.faults.inject("dropped-reply", where="commit")
    hub.faults.inject("unavailable", where="commits", times=None)
    with pytest.raises(Unavailable, match="the history cannot be read"):
        lane.commit({"a": b"2"}, parent=first)


@pytest.mark.parametrize("swap", [True, False], ids=["swap", "any"])
def test_a_busy_repository_is_tried_again(
    hub: HubEmulator, lane: HubLane, first: str, fake_time: Any, swap: bool
) -> None:
    """The head has not moved and nothing was done (409); waits grow and differ."""
    hub.faults.inject("busy", times=3)
    second = lane.commit({"a": b"2"}, parent=first if swap else ANY)

    assert second == lane.head()
    assert 3 == len(fake_time.waits) == len(set(fake_time.waits))
    assert sorted(fake_time.waits) == fake_time.waits


def test_busy_for_ever_ends(hub: HubEmulator, lane: HubLane, first: str) -> None:
    """Nothing was written, and it says so by its kind."""
    sent = hub.counts().of("commit")
    hub.faults.inject("busy", times=None)
    with pytest.raises(Unavailable, match="409"):
        lane.commit({"a": b"2"}, parent=first)

    assert 6 == hub.counts().of("commit") - sent


def test_a_refusal_of_a_swap_is_the_callers(
    hub: HubEmulator, lane: HubLane, first: str
) -> None:
    """Only the caller can decide again."""
    sent = hub.counts().of("commit")
    hub.faults.inject("conflict")
    with pytest.raises(Conflict):
        lane.commit({"a": b"2"}, parent=first)

    assert 1 == hub.counts().of("commit") - sent
    assert lane.head() == first
    lane.commit({"a": b"2"}, parent=first)


def test_a_refusal_without_a_parent_is_tried_again(
    hub: HubEmulator, lane: HubLane, first: str
) -> None:
    """Nobody named a head that could have moved; the Hub does this all the same."""
    hub.faults.inject("conflict", times=3)
    second = lane.commit({"a": b"2"}, parent=ANY)

    assert second == lane.head()


@pytest.mark.parametrize("swap", [True, False], ids=["swap", "any"])
def test_refusals_without_end_are_a_token_that_may_not_write(
    hub: HubEmulator, hub_lane: Callable[..., HubLane], fake_time: Any, swap: bool
) -> None:
    """One that may only open pull requests gets a 412 for each commit, for ever."""
    first = hub_lane().commit({"a": b"1"}, parent=None)
    token = hub.add_token("owner", "pull-request")
    lane = hub_lane(token=Secret(token))
    parent: Parent = first if swap else ANY
    for _ in range(50):
        with pytest.raises((Conflict, Unavailable, Denied)) as caught:
            lane.commit({"a": b"2"}, parent=parent)
        if caught.type is Denied:
            break
        fake_time.now_s += 10.0

    assert caught.type is Denied
    assert "make one with write access" in str(caught.value)


def test_a_quota_closes_the_door_for_as_long_as_it_says(
    hub: HubEmulator, lane: HubLane, first: str, fake_time: Any
) -> None:
    """Nobody asks again before, and nothing sleeps."""
    hub.faults.inject("commit-quota", wait="43 minutes")
    with pytest.raises(Unavailable) as caught:
        lane.commit({"a": b"2"}, parent=first)
    assert 43 * 60.0 == caught.value.retry_after_s
    sent = hub.counts().of("commit")
    fake_time.now_s += 60.0
    with pytest.raises(Unavailable) as caught:
        lane.commit({"a": b"2"}, parent=first)
    assert 42 * 60.0 == caught.value.retry_after_s
    assert sent == hub.counts().of("commit")
    assert first == lane.head()
    fake_time.now_s += 42 * 60.0
    lane.commit({"a": b"2"}, parent=first)

    assert [] == fake_time.waits


def test_unchanged_content_is_committed_and_compared(
    hub: HubEmulator, hub_lane: Callable[..., HubLane], first: str
) -> None:
    """The client's own function would send nothing, and report a success."""
    one, other = hub_lane(), hub_lane()
    second = one.commit({"a": b"1"}, parent=first)
    assert second != first
    with pytest.raises(Conflict):
        other.commit({"a": b"1"}, parent=first)


def test_an_add_is_not_left_out_because_an_old_head_had_it(
    hub: HubEmulator, hub_lane: Callable[..., HubLane], lane: HubLane, first: str
) -> None:
    """What the Hub says to be there before an upload may be of another revision."""
    second = lane.commit({"a": b"2"}, parent=first)
    hub.faults.inject("lagging-head", where="preupload", times=None)
    third = hub_lane().commit({"a": b"1"}, parent=second)

    assert b"1" == lane.read("a", third)


def test_what_is_not_there_cannot_be_deleted(
    hub: HubEmulator, lane: HubLane, first: str, repository: str
) -> None:
    """Also if it went between the look and the commit."""
    stage = lane._staging.stage

    def meanwhile(contents: Any) -> Any:
        hub.repo(repository).write({"a": None})
        return stage(contents)

    lane._staging.stage = meanwhile  # type: ignore[method-assign]
    with pytest.raises(Missing):
        lane.commit({"b": b"2"}, ["a"], parent=ANY)


def test_a_copy_is_of_what_is_committed_upon(
    hub: HubEmulator, hub_lane: Callable[..., HubLane], lane: HubLane, first: str
) -> None:
    """Even where nobody names a parent and the head is old."""
    other = hub_lane()
    other.head()
    lane.commit({"a": b"2"}, parent=first)
    hub.faults.inject("lagging-head", where="resolve-head")
    revision = other.commit({"b": Copy("a")}, parent=ANY)

    assert b"2" == lane.read("b", revision) == lane.read("a", revision)


def test_a_large_file_is_copied_without_its_bytes(
    hub: HubEmulator, lane: HubLane
) -> None:
    """By its sum."""
    blob = {"nodes/d.safetensors": b"delta" * 100}
    first = lane.commit(blob, parent=None)
    number = len(hub.log)
    adds = {"rounds/1/d.safetensors": Copy("nodes/d.safetensors")}
    lane.commit(adds, ["nodes/d.safetensors"], parent=first)
    endpoints = {entry.endpoint for entry in list(hub.log)[number:]}

    assert {"tree", "commit", "resolve-head"} == endpoints


def test_people_can_read_the_history(
    hub: HubEmulator, lane: HubLane, repository: str
) -> None:
    """The message is the title of the commit, in one line."""
    lane.commit({"a": b"1"}, parent=None, message="round 1\nof 10")
    lane.commit({"a": b"1"}, parent=ANY)

    titles = [commit.title for commit in hub.repo(repository).history]
    assert ["Speedtronic", "round 1 of 10", "initial commit"] == titles


def test_a_stop_after_a_lost_answer_leaves_it_unknown(
    hub: HubEmulator, lane: HubLane, first: str, fake_time: Any
) -> None:
    """Nobody says that nothing was written."""
    fake_time.stops_after = 0
    hub.faults.inject("dropped-reply", where="commit")
    hub.faults.inject("unavailable", where="commits")
    with pytest.raises(Unavailable, match="the history cannot be read"):
        lane.commit({"a": b"2"}, parent=first)


def test_a_squash_in_the_middle_of_a_commit_is_no_missing_name(
    hub: HubEmulator, lane: HubLane, first: str, repository: str
) -> None:
    """Without a parent it goes on top of what is there then."""
    hub.faults.inject("squash", where="resolve-head")
    second = lane.commit({"b": b"2"}, parent=ANY)

    assert {"a": 1, "b": 1} == lane.names("", second)


def test_wrong_bytes_are_not_copied(
    hub: HubEmulator, hub_lane: Callable[..., HubLane], first: str
) -> None:
    """A small file is part of the commit again, so it is read and checked before."""
    hub.faults.inject("flipped", times=None)
    with pytest.raises(Unavailable, match="nothing was written"):
        hub_lane().commit({"b": Copy("a")}, parent=first)
    assert hub_lane().head() == first
