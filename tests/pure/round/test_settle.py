"""Settling: what each kind of news about the own stream does to local work."""

from typing import Any

import attrs
from tests.pure.round.test_admit import BOUNDS
from tests.pure.round.values import (
    LINEAGE,
    STREAM,
    accept,
    candidate,
    genesis,
    header,
    publish,
    renew,
    rounds,
)

from speedtronic.pure.round.admit import admit
from speedtronic.pure.round.manifest import Manifest
from speedtronic.pure.round.record import Pending, Record, Work, taken_in
from speedtronic.pure.round.settle import adopt, settle, undone


def record(manifest: Manifest, pending: bool = True, **changes: Any) -> Record:
    """A node that has joined and cut 50 steps, and has 7 more in its model."""
    empty = Record(node="node-1", lineage=LINEAGE, stream=STREAM)
    return attrs.evolve(
        taken_in(empty, manifest),
        known=manifest.register(STREAM),
        pending=Pending(header=header(manifest)) if pending else None,
        fresh=Work(7, 70),
        seq=1,
        **changes,
    )


def decide(manifest: Manifest, record: Record, **facts: Any) -> Manifest:
    """The manifest after a leader saw the pending delta."""
    assert record.pending is not None
    found = candidate(record.pending.header, **facts)
    return publish(manifest, admit(manifest, (found,), BOUNDS))


def test_an_accepted_delta_counts() -> None:
    """Its cut leaves the progress, the rest stays."""
    start = genesis()
    mine = record(start)
    found = settle(mine, decide(start, mine))
    assert ("count", False) == (found.action, found.leave)
    assert found.record.pending is None
    assert Work(7, 70) == found.record.fresh
    assert "delta 1 of base round 0 counts" == found.reason


def test_a_delta_refused_for_good_takes_the_progress_along() -> None:
    """Nothing that is held back may be sent; the reason is told."""
    start = genesis()
    mine = record(start)
    found = settle(mine, decide(start, mine, finite=False))
    assert ("drop", False) == (found.action, found.leave)
    assert Work() == found.record.unsent
    assert "refused for good: not finite" in found.reason


def test_a_delta_that_may_come_again_goes_back_into_the_progress() -> None:
    """It is sent with the next cut."""
    start = genesis()
    mine = record(start)
    found = settle(mine, decide(start, mine, objection="over quota"))
    assert ("undo", False) == (found.action, found.leave)
    assert (Work(57, 870), Work()) == (found.record.fresh, found.record.owed)
    assert "was refused: over quota" in found.reason


def test_no_news_is_no_news() -> None:
    """A renewal, or rounds of others, within the staleness."""
    start = genesis()
    mine = record(start)
    for manifest in (renew(start), rounds(start, 1), rounds(start, 2)):
        found = settle(mine, manifest)
        assert ("keep", mine.pending) == (found.action, found.record.pending)


def test_a_stale_delta_is_taken_back() -> None:
    """No leader can accept it any more, so its work may go out again."""
    start = genesis()
    found = settle(record(start), rounds(start, 3))
    assert ("undo", Work(57, 870)) == (found.action, found.record.fresh)
    assert "3 rounds behind" in found.reason


def test_an_evicted_register_is_no_loss() -> None:
    """Within the window nothing can have happened to the stream unseen."""
    joined = accept(genesis(), header(genesis()))
    later = rounds(joined, 3)
    mine = record(later)
    assert mine.known is not None
    found = settle(mine, rounds(later, 1))
    assert rounds(later, 1).register(STREAM) is None
    assert ("undo", False) == (found.action, found.leave)
    assert found.record.known is None


def test_who_was_away_too_long_leaves_the_stream() -> None:
    """What happened to it is no longer written down."""
    start = genesis()
    found = settle(record(start), rounds(start, 5))
    assert ("drop", True) == (found.action, found.leave)
    assert "away for 5 rounds" in found.reason


def test_an_accepted_delta_is_recognised_however_long_it_took() -> None:
    """As long as the register is there."""
    start = genesis()
    mine = record(start)
    found = settle(mine, rounds(decide(start, mine), 3))
    assert "count" == found.action


def test_a_copy_that_was_counted_makes_a_node_leave() -> None:
    """A second process of this run directory, or a newer checkpoint."""
    start = genesis()
    mine = record(start)
    copy = header(start, cursor=99)
    found = settle(mine, accept(start, copy))
    assert ("drop", True) == (found.action, found.leave)
    assert "another process of this run" in found.reason
    assert found.record.known is None


def test_a_copy_that_was_refused_counted_nothing() -> None:
    """The node goes on behind that decision."""
    start = genesis()
    mine = record(start)
    copy = candidate(header(start, cursor=99), finite=False)
    manifest = publish(start, admit(start, (copy,), BOUNDS))
    found = settle(mine, manifest)
    assert ("undo", False) == (found.action, found.leave)
    assert manifest.register(STREAM) == found.record.known


def test_what_is_given_up_with_the_base_is_not_in_the_record() -> None:
    """Without carry the cut leaves the model, and what was not cut is gone."""
    start = genesis()
    found = adopt(record(start), rounds(start, 1), carry=False)
    assert found.record.pending is not None
    assert (False, Work()) == (found.record.pending.inside, found.record.fresh)
    carried = adopt(record(start), rounds(start, 1), carry=True).record
    assert carried.pending is not None
    assert (True, Work(7, 70)) == (carried.pending.inside, carried.fresh)


def test_work_outside_of_the_model_is_owed() -> None:
    """A cut that left the model with the base comes back to the error buffer."""
    start = genesis()
    mine = adopt(record(start), rounds(start, 1), carry=False).record
    found = adopt(mine, rounds(start, 3), carry=False)
    assert ("undo", Work(), Work(50, 800)) == (
        found.action,
        found.record.fresh,
        found.record.owed,
    )


def test_a_cut_is_not_given_up_with_the_base() -> None:
    """Also when it becomes stale in the very moment in which the base moves."""
    start = genesis()
    found = adopt(record(start), rounds(start, 3), carry=False)
    assert (Work(), Work(50, 800)) == (found.record.fresh, found.record.owed)


def test_owed_work_comes_back_as_owed() -> None:
    """However often it is cut and undone."""
    start = genesis()
    mine = record(start)
    assert mine.pending is not None
    cut = attrs.evolve(mine, pending=attrs.evolve(mine.pending, owed=Work(20, 300)))
    assert (Work(37, 570), Work(20, 300)) == (undone(cut).fresh, undone(cut).owed)
    assert mine == attrs.evolve(undone(mine), pending=mine.pending, fresh=Work(7, 70))


def test_a_manifest_that_was_taken_in_is_remembered() -> None:
    """Run, serial and base."""
    start = genesis()
    newer = rounds(start, 1)
    found = adopt(record(start, pending=False), newer, carry=True)
    assert ("keep", "") == (found.action, found.reason)
    after = found.record
    assert (newer.run, newer.serial) == (after.run, after.serial)
    assert (newer.round, newer.round_id) == (after.base_round, after.base_id)
