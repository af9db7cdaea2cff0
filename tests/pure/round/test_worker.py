"""The worker at its boundaries: joining, settling, re-basing, waiting, stopping."""

from typing import Any

import attrs
import pytest
from tests.pure.round.session import Session, joined, kinds, told, trained, working
from tests.pure.round.test_admit import BOUNDS
from tests.pure.round.values import (
    LINEAGE,
    accept,
    candidate,
    genesis,
    header,
    publish,
    renew,
    rounds,
)

from speedtronic.pure.round import events as e
from speedtronic.pure.round.admit import admit
from speedtronic.pure.round.header import Header
from speedtronic.pure.round.manifest import Manifest
from speedtronic.pure.round.record import Work, from_plain, to_plain
from speedtronic.pure.round.worker import may_save, may_train

START = genesis()
PAYLOAD = "7" * 64


def cut(session: Session, steps: int = 10) -> Header:
    """Take it to a pending delta that is durable and on its way."""
    assert "Cut" in kinds(trained(session, steps))
    [persist] = session.tell(e.CutDone, PAYLOAD, 400)
    assert isinstance(persist, e.Persist)
    assert persist.record.pending is not None
    assert [e.Upload(persist.record.pending.header)] == session.tell(e.Persisted)
    return persist.record.pending.header


def adopt(session: Session, manifest: Manifest, *listed: Any) -> list[e.Effect]:
    """Take in a newer manifest at the next boundary."""
    session.look(manifest, *listed)
    session.tell(e.Fetched)
    return trained(session, 0)


def refuse(old: Manifest, head: Header, **facts: Any) -> Manifest:
    """The manifest after a leader refused a delta."""
    return publish(old, admit(old, (candidate(head, **facts),), BOUNDS))


def install(effects: list[e.Effect]) -> e.Install:
    """The one change of local vectors."""
    [found] = [x for x in effects if isinstance(x, e.Install)]
    return found


def test_a_node_joins_before_it_trains() -> None:
    """Look, fetch at the pinned revision, install at a boundary, save."""
    session = working()
    assert not may_train(session.state)
    [fetch] = session.look(START)
    assert e.Fetch(revision="r0", weights=START.weights) == fetch
    assert [] == session.tell(e.Fetched)
    effects = trained(session, 0)
    assert ["Install", "Persist"] == kinds(effects)
    assert (START.weights, "drop", 0) == (
        install(effects).base,
        install(effects).settle,
        install(effects).cursor,
    )
    assert START.run == session.state.record.run
    assert not may_train(session.state)  # nothing could be cut before it is on disk
    session.tell(e.Persisted)
    assert may_train(session.state)


def test_a_joiner_reads_behind_what_its_node_has_on_the_lane() -> None:
    """Decided or listed: the same batches are not trained on again."""
    counted = accept(START, header(START, cursor=40))
    waiting = header(counted, stream="12" * 8, cursor=70)
    session = working()
    [fetch] = session.look(counted, waiting.name)
    assert isinstance(fetch, e.Fetch)
    assert (waiting.name,) == fetch.headers
    session.tell(e.Fetched, (70,))
    assert 70 == install(trained(session, 0)).cursor


def test_a_boundary_cuts_when_it_is_due() -> None:
    """After so many steps, not before."""
    session = joined(START)
    assert [] == kinds(trained(session, 9))
    assert ["Cut"] == kinds(trained(session, 1))


def test_a_boundary_may_be_due_by_time() -> None:
    """Nodes of different speed deliver at the same pace; never without a step."""
    session = joined(START, inner_steps=None, round_s=60.0)
    session.now_s += 59.0
    assert "Cut" not in kinds(trained(session, 5))
    session.now_s += 2.0
    assert "Cut" in kinds(trained(session, 1))
    idle = joined(START, inner_steps=None, round_s=60.0)
    idle.now_s += 90.0
    assert "Cut" not in kinds(trained(idle, 0))


def test_a_round_needs_an_end() -> None:
    """In steps or in seconds."""
    with pytest.raises(ValueError, match="inner_steps or round_s"):
        joined(START, inner_steps=None)


def test_an_accepted_delta_leaves_the_progress() -> None:
    """The cut is taken out, the rest is put on top of the new global."""
    session = joined(START)
    mine = cut(session)
    trained(session, 3)
    after = accept(START, mine)
    effects = adopt(session, after)
    found = install(effects)
    assert ("count", True, after.weights, True) == (
        found.settle,
        found.inside,
        found.base,
        found.carry,
    )
    record = session.state.record
    assert (Work(3, 48), None) == (record.fresh, record.pending)
    assert "delta 1 of base round 0 counts; base is now round 1" == told(effects)


def test_a_newer_global_is_adopted_in_the_middle_of_a_loop() -> None:
    """The base moves under the progress; nothing is cut before it is due."""
    session = joined(START)
    trained(session, 4)
    after = rounds(START, 1)
    found = install(adopt(session, after))
    assert ("keep", after.weights) == (found.settle, found.base)
    assert Work(4, 64) == session.state.record.fresh
    assert "Cut" in kinds(trained(session, 6))


def test_local_progress_may_be_given_up() -> None:
    """Classical DiLoCo: what was not cut ends with the round."""
    session = joined(START, carry=False)
    mine = cut(session)
    trained(session, 3)
    effects = adopt(session, rounds(START, 1))
    assert not install(effects).carry
    assert "3 steps after the cut are not carried over" in told(effects)
    record = session.state.record
    assert record.pending is not None
    assert (Work(), False) == (record.fresh, record.pending.inside)
    found = install(adopt(session, accept(rounds(START, 1), mine)))
    assert ("count", False) == (found.settle, found.inside)


def test_the_optimizer_is_reset_only_when_asked_for() -> None:
    """And only when the base moved."""
    for asked in (False, True):
        session = joined(START, reset_optimizer=asked)
        mine = cut(session)
        moved = install(adopt(session, rounds(START, 1)))
        assert asked == moved.reset_optimizer
        refused = refuse(rounds(START, 1), mine, finite=False)
        assert not install(adopt(session, refused)).reset_optimizer


def test_a_lease_renewal_installs_nothing() -> None:
    """It is read, and that is all."""
    session = joined(START)
    assert [] == session.look(renew(START))
    assert [] == kinds(trained(session, 1))
    assert 1 == session.state.record.serial


def test_a_refusal_for_good_drops_the_progress_loudly() -> None:
    """With the reason and the number of steps."""
    session = joined(START)
    mine = cut(session)
    trained(session, 3)
    session.look(refuse(START, mine, finite=False))
    effects = trained(session, 0)
    assert ("drop", None) == (install(effects).settle, install(effects).base)
    assert "refused for good: not finite after 10 steps" in told(effects)
    assert "13 steps of work are dropped" in told(effects)


def test_after_a_retry_the_work_goes_out_again() -> None:
    """At once, since a boundary's worth is there."""
    session = joined(START)
    mine = cut(session)
    session.look(refuse(START, mine, objection="over quota"))
    effects = trained(session, 2)
    assert ["Install", "Cut"] == kinds(effects)
    assert "undo" == install(effects).settle
    [persist] = session.tell(e.CutDone, "8" * 64, 400)
    assert isinstance(persist, e.Persist) and persist.record.pending
    second = persist.record.pending.header
    assert (12, mine.id, 2) == (second.inner_steps, second.after, second.seq)


def test_a_skipped_boundary_makes_one_larger_delta() -> None:
    """One pending delta at a time, however long it takes."""
    session = joined(START)
    mine = cut(session)
    for _ in range(5):
        assert "Cut" not in kinds(trained(session, 10))
    effects = adopt(session, accept(START, mine))
    assert ["Install", "Cut"] == kinds(effects)
    [persist] = session.tell(e.CutDone, "8" * 64, 400)
    assert isinstance(persist, e.Persist) and persist.record.pending
    assert 50 == persist.record.pending.header.inner_steps


def test_an_outage_makes_one_larger_delta() -> None:
    """What could not be sent in time is taken back and cut with all that followed."""
    session = joined(START)
    cut(session)
    session.tell(e.Failed, e.Upload(header(START)), "timeout")
    trained(session, 25)
    effects = adopt(session, rounds(START, 3))
    assert ["Install", "Cut"] == kinds(effects)
    assert "3 rounds behind" in told(effects)
    [persist] = session.tell(e.CutDone, "8" * 64, 400)
    assert isinstance(persist, e.Persist) and persist.record.pending
    assert 35 == persist.record.pending.header.inner_steps


def test_a_twin_makes_a_node_draw_a_new_stream() -> None:
    """It starts from the global, and its data behind what is decided and listed."""
    session = joined(START)
    mine = cut(session)
    copy = attrs.evolve(mine, cursor=99, life="77" * 8)
    old_stream = session.state.record.stream
    effects = adopt(session, accept(START, copy))
    found = install(effects)
    assert ("drop", 99) == (found.settle, found.cursor)
    record = session.state.record
    assert old_stream != record.stream
    assert (None, 0, None) == (record.known, record.seq, record.pending)
    assert "another process of this run" in told(effects)


def test_a_model_that_is_not_finite_is_not_sent() -> None:
    """Training goes on from the base, and says so."""
    session = joined(START)
    trained(session, 10)
    assert [] == kinds(session.tell(e.CutDone, PAYLOAD, 400, finite=False))
    effects = trained(session, 2)
    assert e.Install(settle="drop") == install(effects)
    assert "not finite; 12 steps of work are dropped" in told(effects)
    assert "Cut" not in kinds(trained(session, 9))


def test_nothing_is_adopted_while_a_cut_is_made() -> None:
    """The base of the delta stays where it is until the delta is durable."""
    session = joined(START)
    trained(session, 10)
    assert not may_save(session.state)
    session.look(rounds(START, 1))
    session.tell(e.Fetched)
    assert [] == kinds(trained(session, 1))
    session.tell(e.CutDone, PAYLOAD, 400)
    assert [] == kinds(trained(session, 1))
    session.tell(e.Persisted)
    assert may_save(session.state)
    assert ["Install"] == kinds(trained(session, 1))


def test_training_may_wait_for_the_round() -> None:
    """For the decision on each delta, and not for ever."""
    session = joined(START, wait_s=30.0)
    mine = cut(session)
    assert not may_train(session.state)
    adopt(session, accept(START, mine))
    assert may_train(session.state)
    session = joined(START, wait_s=30.0)
    cut(session)
    session.now_s += 31.0
    trained(session, 0)
    assert may_train(session.state)


def test_a_restart_goes_on_from_its_record() -> None:
    """The checkpointed base wins; the same bytes are sent again."""
    session = joined(START)
    mine = cut(session)
    record = from_plain(to_plain(session.state.record))
    again = working(record)
    assert may_train(again.state)
    assert again.state.uploading == mine.id
    newer = accept(START, mine)
    again.tell(e.Uploaded)
    again.now_s += 9.0
    assert "count" == install(adopt(again, newer)).settle


@pytest.mark.parametrize("field", ["node", "lineage"])
def test_a_record_of_another_run_is_refused(field: str) -> None:
    """A renamed node or a changed config is not a resume."""
    record = joined(START).state.record
    other = {"node": "node-2", "lineage": "0" * 64}[field]
    with pytest.raises(ValueError, match=f"{field}: the checkpoint is of"):
        working(record, **{field: other})


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        (genesis(lineage="2b" * 32), f"this node's config is lineage {LINEAGE}"),
        (genesis(life="98" * 8), f"this node belongs to {START.run}"),
        (rounds(genesis(), 1, stream="34" * 8), "round 1 was"),
    ],
    ids=["config", "run", "fork"],
)
def test_another_history_halts(manifest: Manifest, reason: str) -> None:
    """A person has to look; nothing is sent or changed any more."""
    first = rounds(START, 1)
    session = joined(first)
    other = manifest
    while other.serial <= first.serial:
        other = renew(other)
    [halt] = session.look(other)
    assert isinstance(halt, e.Halt)
    assert reason in halt.reason
    assert not may_train(session.state)
    assert [] == session.wait(1000.0)


def test_a_stop_delivers_what_is_left() -> None:
    """A part of a round goes out too, and the stop is done when it is sent."""
    session = joined(START)
    trained(session, 3)
    assert [] == session.tell(e.Stop, 60.0)
    assert not may_train(session.state)
    assert ["Cut"] == kinds(trained(session, 0))
    [persist] = session.tell(e.CutDone, PAYLOAD, 400)
    assert isinstance(persist, e.Persist) and persist.record.pending
    assert 3 == persist.record.pending.header.inner_steps
    assert ["Upload"] == kinds(session.tell(e.Persisted))
    [stopped] = session.tell(e.Uploaded)
    assert e.Stopped(delivered=True, text="everything was delivered") == stopped
    assert [] == session.wait(1000.0)


def test_a_stop_ends_at_its_deadline() -> None:
    """What could not be sent is kept, in the record and in the model."""
    session = joined(START)
    trained(session, 3)
    session.tell(e.Stop, 60.0)
    trained(session, 0)
    session.tell(e.CutDone, PAYLOAD, 400)
    session.tell(e.Persisted)
    session.tell(e.Failed, e.Upload(header(START)), "timeout")
    [stopped] = session.wait(61.0)
    assert "3 steps of work are kept here for the next start" == told([stopped])
    assert session.state.record.pending is not None
    assert may_save(session.state)


def test_a_stop_in_the_middle_of_a_cut_keeps_the_work() -> None:
    """The cut is given up, its steps are in the model."""
    session = joined(START)
    trained(session, 10)
    session.tell(e.Stop, 60.0)
    [stopped] = session.wait(61.0)
    assert "10 steps of work are kept" in told([stopped])
    record = session.state.record
    assert (Work(10, 160), None) == (record.fresh, record.pending)
    assert may_save(session.state)
    assert [] == session.tell(e.CutDone, PAYLOAD, 400)


def test_a_stop_waits_for_the_decision_if_more_is_left() -> None:
    """One pending delta at a time, also at the end."""
    session = joined(START)
    mine = cut(session)
    session.tell(e.Uploaded)
    trained(session, 4)
    assert [] == kinds(session.tell(e.Stop, 60.0))
    assert "Look" in kinds(session.wait(6.0))
    effects = adopt(session, accept(START, mine))
    assert ["Install", "Cut"] == kinds(effects)


def test_a_stop_with_nothing_left_is_immediate() -> None:
    """Nothing is committed for it."""
    session = joined(START)
    assert ["Stopped"] == kinds(session.tell(e.Stop, 60.0))


def test_an_event_of_a_leader_is_a_mistake() -> None:
    """Whoever mixes up the two machines hears of it."""
    with pytest.raises(TypeError, match="a worker takes no Published"):
        working().tell(e.Published)
