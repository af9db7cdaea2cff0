"""Faults come when the schedule says so, and only then."""

from collections.abc import Callable
from pathlib import Path

import pytest

from speedtronic.errors import Conflict, Denied, LaneError, Missing, Unavailable
from speedtronic.shell.lanes.base import ANY
from speedtronic.shell.lanes.faulty import (
    Fail,
    Fault,
    Flip,
    Late,
    Slow,
    Stale,
    Twice,
    at_random,
    between,
    faulty,
)
from speedtronic.shell.lanes.memory import MemoryLane


@pytest.fixture
def real() -> MemoryLane:
    return MemoryLane()


def test_a_failed_commit_is_not_applied(real: MemoryLane) -> None:
    """A request that never arrives."""
    lane = faulty(real, {0: Fail()})
    with pytest.raises(Unavailable, match=r"call 0 \(commit\)"):
        lane.commit({"a": b"1"}, parent=None)
    assert real.head() is None
    assert lane.commit({"a": b"1"}, parent=None) == real.head()


def test_a_lost_answer_is_applied(real: MemoryLane) -> None:
    """The commit is there, and the same one again meets a conflict."""
    lane = faulty(real, {0: Fail(applied=True)})
    with pytest.raises(Unavailable):
        lane.commit({"a": b"1"}, parent=None)
    assert list(real.names("", str(real.head()))) == ["a"]
    with pytest.raises(Conflict):
        lane.commit({"a": b"1"}, parent=None)


def test_a_lost_refusal_is_lost_too(real: MemoryLane) -> None:
    """The caller cannot tell a lost conflict from a lost success."""
    real.commit({"a": b"1"}, parent=None)
    lane = faulty(real, {0: Fail(applied=True)})
    with pytest.raises(Unavailable):
        lane.commit({"b": b"2"}, parent=None)


@pytest.mark.parametrize("error", [Conflict, Denied, Missing])
def test_any_failure_can_be_ordered(real: MemoryLane, error: type[LaneError]) -> None:
    """The type is the schedule's."""
    lane = faulty(real, {0: Fail(error)})
    with pytest.raises(error):
        lane.head()


@pytest.mark.parametrize(
    "call",
    [
        lambda lane, path: lane.head(),
        lambda lane, path: lane.names("", "1"),
        lambda lane, path: lane.read("a", "1"),
        lambda lane, path: lane.fetch("a", "1", path),
        lambda lane, path: lane.commit({"a": b""}, parent=None),
    ],
    ids=["head", "names", "read", "fetch", "commit"],
)
def test_a_partition_cuts_every_call(
    real: MemoryLane, tmp_path: Path, call: Callable[..., object]
) -> None:
    """Nothing gets through, neither way."""
    lane = faulty(real, between(0, 1, Fail()))
    with pytest.raises(Unavailable):
        call(lane, tmp_path / "target")
    assert real.head() is None
    assert [] == list(tmp_path.iterdir())
    assert lane.head() is None
    assert 2 == lane.calls


def test_a_stale_head_is_an_older_one(real: MemoryLane) -> None:
    """It was the head once, and what it holds can be read."""
    lane = faulty(real, {2: Stale(), 3: Stale(back=9)})
    lane.head()
    first = real.commit({"a": b"1"}, parent=None)
    assert lane.head() == first
    second = real.commit({"a": b"2"}, parent=first)
    assert lane.head() == first
    assert lane.head() is None
    assert lane.head() == second


def test_a_late_commit_comes_after_others(real: MemoryLane) -> None:
    """Requests overtake each other; the sender knows nothing."""
    lane = faulty(real, {0: Late(calls=1)})
    with pytest.raises(Unavailable):
        lane.commit({"a": b"first"}, parent=ANY)
    lane.commit({"a": b"second"}, parent=ANY)
    assert real.read("a", str(real.head())) == b"second"
    assert real.read("a", str(lane.head())) == b"first"


def test_a_late_commit_with_a_parent_loses(real: MemoryLane) -> None:
    """Compare-and-swap is what makes late requests harmless."""
    lane = faulty(real, {0: Late(calls=1)})
    with pytest.raises(Unavailable):
        lane.commit({"a": b"first"}, parent=None)
    second = lane.commit({"a": b"second"}, parent=None)
    assert lane.head() == second


def test_a_late_file_is_the_one_that_was_sent(real: MemoryLane, tmp_path: Path) -> None:
    """It does not matter what becomes of the file meanwhile."""
    source = tmp_path / "source"
    source.write_bytes(b"sent")
    lane = faulty(real, {0: Late(calls=0)})
    with pytest.raises(Unavailable):
        lane.commit({"a": source}, parent=ANY)
    source.unlink()
    assert real.read("a", str(lane.head())) == b"sent"


def test_a_commit_sent_twice(real: MemoryLane) -> None:
    """Without a parent it is applied twice, with one only once."""
    lane = faulty(real, lambda call, operation: Twice())
    first = lane.commit({"a": b"1"}, parent=ANY)
    assert real.head() != first
    head = real.head()
    second = lane.commit({"a": b"2"}, parent=head)
    assert real.head() == second


def test_flipped_content_is_wrong_by_one_bit(real: MemoryLane, tmp_path: Path) -> None:
    """Reading and fetching give other bytes, without saying so."""
    revision = real.commit({"a": b"abc"}, parent=None)
    lane = faulty(real, between(0, 2, Flip()))
    assert lane.read("a", revision) == b"acc"
    total = lane.fetch("a", revision, tmp_path / "target")
    assert (tmp_path / "target").read_bytes() == b"acc"
    assert total != lane.fetch("a", revision, tmp_path / "target")
    assert lane.read("a", revision) == b"abc"


def test_slow_calls_ask_the_clock(real: MemoryLane) -> None:
    """Nothing sleeps by itself; the call goes through."""
    slept: list[float] = []
    lane = faulty(real, {0: Slow(2.0)}, sleep=slept.append)
    revision = lane.commit({"a": b"1"}, parent=None)
    assert lane.head() == revision
    assert [2.0] == slept


def test_slow_calls_need_a_clock(real: MemoryLane) -> None:
    """A schedule that would do nothing is a mistake of the test."""
    with pytest.raises(TypeError, match="sleep"):
        faulty(real, {0: Slow(2.0)}).head()


@pytest.mark.parametrize("fault", [Stale(), Late(), Twice(), Flip()])
def test_faults_of_other_operations_do_nothing(real: MemoryLane, fault: Fault) -> None:
    """A stale listing of a pinned revision, say, does not exist."""
    revision = real.commit({"a": b"1"}, parent=None)
    lane = faulty(real, lambda call, operation: fault)
    assert lane.names("", revision) == {"a": 1}


def test_a_random_schedule_is_the_same_for_the_same_seed() -> None:
    """What failed once can be had again, and the rate is about right."""
    one, same, other = (at_random(seed, 0.3) for seed in (1, 1, 2))
    calls = [(n, op) for n in range(300) for op in ("head", "read", "commit")]
    drawn = [one(*call) for call in calls]
    assert drawn == [same(*call) for call in calls]
    assert drawn != [other(*call) for call in calls]
    assert 0.2 < sum(fault is not None for fault in drawn) / len(drawn) < 0.4
    kinds = {type(fault) for fault in drawn} - {type(None)}
    assert kinds == {Fail, Stale, Late, Twice, Flip}
