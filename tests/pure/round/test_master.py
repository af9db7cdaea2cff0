"""The leader: beginning, leading, taking over, stepping down, stopping."""

from typing import Any

import attrs
import pytest
from tests.pure.round import values
from tests.pure.round.session import Session, kinds, leading, told
from tests.pure.round.test_admit import BOUNDS
from tests.pure.round.values import (
    LIFE,
    LIMITS,
    LINEAGE,
    OTHER,
    STREAM,
    accept,
    candidate,
    files,
    genesis,
    header,
    rounds,
)

from speedtronic.pure.round import chain
from speedtronic.pure.round import events as e
from speedtronic.pure.round.admit import Broken, admit
from speedtronic.pure.round.header import Header
from speedtronic.pure.round.manifest import Manifest
from speedtronic.pure.round.master import Genesis, leads
from speedtronic.pure.round.standing import Standing

START = genesis()  # led by this very process
FOREIGN = genesis(node="other", life="99" * 8, nonce=f"{'99' * 8}-0")
GENESIS = Genesis(weights=files(0)[0], momentum=files(0)[1])


def publish(effects: list[e.Effect]) -> e.Publish:
    """The one commit that is wanted."""
    [found] = [x for x in effects if isinstance(x, e.Publish)]
    return found


def gathered(session: Session, manifest: Manifest, *heads: Header, **facts: Any) -> Any:
    """Let it look, read these deltas, and look again."""
    names = [h.name for h in heads]
    session.look(manifest, *names)
    session.tell(e.Inspected, tuple(candidate(h, **facts) for h in heads))
    return session.look(manifest, *names)


def folded(session: Session, manifest: Manifest, *heads: Header) -> e.Publish:
    """Let the outer step be done, look again, and publish."""
    assert ["Look"] == kinds(session.tell(e.Folded, *files(manifest.round + 1)))
    return publish(session.look(manifest, *(h.name for h in heads)))


def test_an_empty_lane_is_begun() -> None:
    """With a commit on the empty lane, which only one can win."""
    session = leading(genesis=GENESIS)
    found = publish(session.look(None))
    assert (None, True, 0) == (found.parent, found.fresh, found.manifest.serial)
    assert ("manifest.json", "rounds/0/manifest.json") == found.names
    assert ("leader", LIFE) == (found.manifest.lease.node, found.manifest.lease.life)


def test_an_outage_is_not_an_empty_lane() -> None:
    """Nothing is begun because nothing answers."""
    session = leading(genesis=GENESIS)
    for _ in range(9):
        effects = session.tell(e.Failed, e.Look(), "timeout")
        assert "Publish" not in kinds(effects)
        session.wait(100.0)


def test_who_has_known_a_run_begins_none() -> None:
    """From its checkpoint, or seen by itself."""
    session = leading(run=START.run, genesis=GENESIS)
    assert [] == kinds(session.look(None))
    session = leading(genesis=GENESIS)
    session.look(START)
    session.wait(9.0)
    assert [] == kinds(session.look(None))


def test_who_may_not_begin_waits() -> None:
    """Until somebody else does."""
    assert [] == kinds(leading().look(None))


def test_the_loser_of_a_beginning_follows() -> None:
    """One lineage, one run."""
    session = leading(genesis=GENESIS)
    found = publish(session.look(None))
    assert ["Look"] == kinds(session.tell(e.Failed, found, "head moved"))
    assert ["Remember"] == kinds(session.look(FOREIGN))
    assert not leads(session.state)


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        (genesis(lineage="2b" * 32), f"this node's config is lineage {LINEAGE}"),
        (genesis(life="98" * 8), f"this node belongs to {START.run}"),
    ],
    ids=["config", "run"],
)
def test_another_run_halts(manifest: Manifest, reason: str) -> None:
    """It may be the wrong lane; nothing is written."""
    [halt] = leading(run=START.run).look(manifest)
    assert isinstance(halt, e.Halt)
    assert reason in halt.reason


def test_a_round_is_gathered_folded_and_published() -> None:
    """Look, inspect, look, fold, look, publish, look."""
    session = leading(grace_s=0.0)
    head = header(START)
    assert ["Remember", "Inspect"] == kinds(session.look(START, head.name))
    assert ["Look"] == kinds(session.tell(e.Inspected, (candidate(head),)))
    [fold] = session.look(START, head.name)
    assert isinstance(fold, e.Fold)
    assert ("r0", START, [head.name]) == (
        fold.revision,
        fold.manifest,
        [c.name for c in fold.accepted],
    )
    found = folded(session, START, head)
    new = found.manifest
    assert ("r0", True, 1, (head.name,)) == (
        found.parent,
        found.fresh,
        new.round,
        new.accepted,
    )
    assert files(1) == (new.weights, new.momentum)
    assert (head.name.path,) == found.deletes
    assert (head.name.path, head.name.kept(1)) in found.copies
    assert ["Look"] == kinds(session.tell(e.Published))
    assert "round 1: 1 delta counts" in told(session.look(new))


def test_a_round_needs_its_quorum() -> None:
    """And then waits for others as long as the grace."""
    session = leading(quorum=2, grace_s=20.0)
    one = header(START)
    two = header(START, stream=OTHER, node="node-2")
    assert "Fold" not in kinds(gathered(session, START, one))
    session.wait(15.0)
    assert "Fold" not in kinds(gathered(session, START, one, two))
    session.wait(19.0)
    assert "Fold" not in kinds(session.look(START, one.name, two.name))
    session.wait(6.0)
    assert "Fold" in kinds(session.look(START, one.name, two.name))


def test_the_grace_ends_when_all_who_took_part_have_delivered() -> None:
    """Waiting for nobody would be a waste; a new node may come any time."""
    manifest = accept(START, header(START), header(START, stream=OTHER, node="node-2"))
    session = leading(grace_s=1000.0)
    one, two = header(manifest), header(manifest, stream=OTHER, node="node-2")
    assert "Fold" not in kinds(gathered(session, manifest, one))
    assert "Fold" in kinds(gathered(session, manifest, one, two))


def test_a_full_round_does_not_wait() -> None:
    """No more would fit."""
    heads = [header(START, stream=f"{i:016x}", node=f"n{i}") for i in range(3)]
    assert "Fold" in kinds(gathered(leading(grace_s=1000.0), START, *heads))


@pytest.mark.parametrize("quorum", [0, 4])
def test_a_quorum_that_no_round_can_have_is_refused(quorum: int) -> None:
    """At least one, at most what a round takes."""
    with pytest.raises(ValueError, match="quorum: expected 1 to per_round 3"):
        leading(quorum=quorum)


def test_a_round_needs_the_nodes_of_its_rule() -> None:
    """Even if it is full, for a node with several streams has one vote."""
    streams = [header(START, stream=f"{i:016x}", node="n1") for i in range(3)]
    session = leading(least=2, quorum=2, grace_s=0.0)
    assert "Fold" not in kinds(gathered(session, START, *streams))
    streams[2] = header(START, stream=f"{2:016x}", node="n2")
    session = leading(least=2, quorum=2, grace_s=0.0)
    assert "Fold" in kinds(gathered(session, START, *streams))


def test_a_quorum_below_what_the_rule_needs_is_refused() -> None:
    """A round of two deltas has no median."""
    with pytest.raises(ValueError, match="quorum: expected at least 3.* found 2"):
        leading(quorum=2, least=3)


def test_a_refusal_does_not_wait_for_a_round() -> None:
    """Its writer can send nothing else until then."""
    session = leading()
    head = header(START)
    found = publish(gathered(session, START, head, finite=False))
    assert (0, False, (head.name.path,)) == (
        found.manifest.round,
        found.fresh,
        found.deletes,
    )
    assert ["drop"] == [r.verdict for r in found.manifest.refused]


def test_garbage_is_swept_and_told_once() -> None:
    """No manifest remembers it, so the leader says why it cannot count."""
    late = rounds(START, 3)
    session = leading()
    head = header(START)
    lines = [told(gathered(session, late, head)), told(session.look(late, head.name))]
    assert f"{head.node}, delta 1: garbage, stale: 3 rounds behind" in lines[0]
    assert "garbage" not in lines[1]
    session.wait(25.0)
    assert (head.name.path,) == publish(session.look(late, head.name)).deletes


def test_much_garbage_does_not_wait_for_the_renewal() -> None:
    """It would keep a leader from reading what may count."""
    late = rounds(START, 3)
    heads = [header(START, seq=n + 1) for n in range(30)]
    session = leading(limits=attrs.evolve(START.limits, per_round=20))
    session.look(late, *(h.name for h in heads))
    session.tell(e.Inspected, tuple(candidate(h) for h in heads))
    found = publish(session.look(late, *(h.name for h in heads)))
    assert {h.name.path for h in heads} == set(found.deletes)


def test_a_file_that_is_no_delta_is_garbage() -> None:
    """It is named with the reason, and swept with the next renewal."""
    session = leading()
    name = header(START).name
    session.look(START, name)
    session.tell(e.Inspected, (), (Broken(name, "header: expected JSON"),))
    assert "garbage, header: expected JSON" in told(session.look(START, name))
    session.wait(25.0)
    assert (name.path,) == publish(session.look(START, name)).deletes


def test_what_is_not_allowed_halts() -> None:
    """Trying for ever would help nobody."""
    session = leading(genesis=GENESIS)
    found = publish(session.look(None))
    [halt] = session.tell(e.Failed, found, "403: read-only token", permanent=True)
    assert e.Halt("403: read-only token") == halt
    assert [] == session.wait(1000.0)


def test_a_fold_that_fails_is_told_and_tried_again() -> None:
    """Nothing is published."""
    session = leading(grace_s=0.0)
    head = header(START)
    [fold] = gathered(session, START, head)
    effects = session.tell(e.Failed, fold, "momentum: other bytes")
    assert "a round could not be computed (momentum: other bytes)" in told(effects)
    session.wait(9.0)
    assert "Fold" in kinds(session.look(START, head.name))


def test_an_outage_is_told_once() -> None:
    """By the worker of the same node, so not by its leader."""
    session = leading()
    lines = []
    for _ in range(9):
        lines.append(told(session.tell(e.Failed, e.Look(), "timeout")))
        session.wait(100.0)
    assert [""] * 9 == lines
    assert "answer" not in told(session.look(FOREIGN))


def test_refusals_are_told_to_who_reads_them() -> None:
    """With the node, the delta and the reason."""
    session = leading()
    poor = candidate(header(FOREIGN), finite=False)
    session.look(FOREIGN)
    session.wait(9.0)
    refused = values.publish(FOREIGN, admit(FOREIGN, (poor,), BOUNDS))
    line = "node-1, delta 1: drop, not finite after 50 steps"
    assert line == told(session.look(refused))


def test_a_stop_leaves_an_open_round_to_others() -> None:
    """Whoever takes the free lease counts these deltas with those of the others."""
    session = leading(quorum=3, grace_s=1000.0)
    head = header(START)
    gathered(session, START, head)
    assert ["Look"] == kinds(session.tell(e.Stop, 60.0))
    given_up = publish(session.look(START, head.name))
    assert (0, True) == (given_up.manifest.round, given_up.manifest.lease.released)
    session.tell(e.Published)
    assert [] == kinds(session.look(given_up.manifest, head.name))
    taken = chain.taken_over(given_up.manifest, "heir", OTHER, f"{OTHER}-0")
    session.wait(0.5)
    [*_, stopped] = session.look(taken, head.name)
    assert e.Stopped(delivered=True, text="did not lead") == stopped


def test_the_last_one_counts_what_is_there() -> None:
    """Without waiting for quorum or grace, if nobody takes the free lease."""
    session = leading(quorum=3, grace_s=1000.0)
    head = header(START)
    gathered(session, START, head)
    session.tell(e.Stop, 60.0)
    given_up = publish(session.look(START, head.name)).manifest
    session.tell(e.Published)
    session.look(given_up, head.name)
    session.wait(16.0)
    taken = publish(session.look(given_up, head.name)).manifest
    assert (LIFE, 1) == (taken.lease.life, taken.lease.epoch)
    session.tell(e.Published)
    assert "Fold" in kinds(session.look(taken, head.name))
    closed = folded(session, taken, head).manifest
    session.tell(e.Published)
    again = publish(session.look(closed)).manifest
    assert (1, True) == (again.round, again.lease.released)
    session.tell(e.Published)
    [*_, stopped] = session.look(again)
    assert e.Stopped(delivered=True, text="gave the lead up") == stopped


def test_a_stop_closes_a_round_that_is_complete() -> None:
    """As it would have been without."""
    session = leading(expected=1, grace_s=1000.0)
    head = header(START)
    session.look(START, head.name)
    session.tell(e.Stop, 60.0)
    session.tell(e.Inspected, (candidate(head),))
    assert "Fold" in kinds(session.look(START, head.name))


def test_a_stop_of_a_follower_takes_one_look() -> None:
    """For the lease may have been given up, and nobody else be there."""
    session = leading()
    session.look(FOREIGN)
    assert ["Look"] == kinds(session.tell(e.Stop, 60.0))
    assert ["Stopped"] == kinds(session.look(FOREIGN))
    session = leading()
    assert [] == kinds(session.tell(e.Stop, 60.0))
    assert ["Remember", "Stopped"] == kinds(session.look(FOREIGN))


def test_a_stop_begins_no_run() -> None:
    """A node that is about to leave."""
    session = leading(genesis=GENESIS)
    session.tell(e.Stop, 60.0)
    assert ["Stopped"] == kinds(session.look(None))


def test_a_stop_ends_at_its_deadline() -> None:
    """Whatever the lane does."""
    session = leading()
    session.look(START)
    session.tell(e.Stop, 60.0)
    [stopped] = session.wait(61.0)
    assert isinstance(stopped, e.Stopped)
    assert not stopped.delivered


def test_an_event_of_a_worker_is_a_mistake() -> None:
    """Whoever mixes up the two machines hears of it."""
    with pytest.raises(TypeError, match="a leader takes no Persisted"):
        leading().tell(e.Persisted)


def test_a_stream_is_told_apart_from_its_node() -> None:
    """Two streams of a node count one after the other."""
    session = leading(grace_s=0.0)
    heads = [header(START, stream=s) for s in (STREAM, OTHER)]
    [fold] = gathered(session, START, *heads)
    assert 1 == len(fold.accepted)


def test_a_quorum_that_stays_away_is_told_once() -> None:
    """With who is there, after as long as a lease lasts."""
    session = leading(quorum=2, grace_s=0.0)
    head = header(START)
    gathered(session, START, head)
    lines = []
    for _ in range(6):
        session.now_s += 30.0
        effects = session.look(START, head.name)
        session.tell(e.Published)  # the renewals
        lines += [x.text for x in effects if isinstance(x, e.Tell)]
    assert [
        "round 1 waits for its quorum: 1 of 2 nodes have delivered, node-1"
    ] == lines


@pytest.mark.parametrize(
    ("quorum", "heard"), [(1, ["other"]), (2, ["node-1", "other"])]
)
def test_nodes_that_are_set_aside_count_where_others_are_too_few(
    quorum: int, heard: list[str]
) -> None:
    """Else no round would ever end their term."""
    limits = attrs.evolve(LIMITS, strikes=1, aside=3)
    start = genesis(limits=limits)
    standing = Standing(node="node-1", strikes=0, until=4, round=1, reason="nan")
    start = attrs.evolve(start, standings=(standing,))
    session = leading(quorum=quorum, grace_s=0.0, limits=limits)
    heads = [header(start), header(start, node="other", stream=OTHER)]
    [fold] = gathered(session, start, *heads)
    assert heard == sorted(c.name.node for c in fold.accepted)
