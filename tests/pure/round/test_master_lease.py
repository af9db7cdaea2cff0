"""Two who would lead: prepared rounds, renewals, take-overs, and lost races."""

import attrs
from tests.pure.round.session import kinds, leading, told
from tests.pure.round.test_master import FOREIGN, START, folded, gathered, publish
from tests.pure.round.values import (
    LIFE,
    OTHER,
    accept,
    files,
    header,
    renew,
)

from speedtronic.pure.round import chain
from speedtronic.pure.round import events as e
from speedtronic.pure.round.master import leads


def test_a_worker_in_between_only_costs_another_look() -> None:
    """The prepared round is published on the new head, with another nonce."""
    session = leading(grace_s=0.0)
    head, late = header(START), header(START, stream=OTHER, node="late")
    gathered(session, START, head)
    first = folded(session, START, head)
    assert ["Look"] == kinds(session.tell(e.Failed, first, "head moved"))
    second = publish(session.look(START, head.name, late.name, revision="r0b"))
    assert ("r0b", first.manifest.round_id) == (
        second.parent,
        second.manifest.round_id,
    )
    assert first.manifest.nonce != second.manifest.nonce


def test_a_renewal_does_not_spoil_a_prepared_round() -> None:
    """A fold may take longer than a lease lasts, so it is renewed meanwhile."""
    session = leading(grace_s=0.0)
    head = header(START)
    gathered(session, START, head)
    session.wait(25.0)
    renewal = publish(session.look(START, head.name))
    assert (0, False) == (renewal.manifest.round, renewal.fresh)
    session.tell(e.Published)
    session.look(renewal.manifest, head.name)
    found = folded(session, renewal.manifest, head)
    assert (1, renewal.manifest.id) == (found.manifest.round, found.manifest.previous)


def test_a_round_of_another_leader_spoils_a_prepared_one() -> None:
    """What was computed is of a round that is over."""
    session = leading(grace_s=0.0)
    head = header(START)
    gathered(session, START, head)
    other = accept(START, header(START, stream=OTHER, node="node-2"))
    assert "Publish" not in kinds(session.look(other, head.name))
    assert [] == [
        x for x in session.tell(e.Folded, *files(1)) if isinstance(x, e.Publish)
    ]
    assert "Fold" in kinds(session.look(other, head.name))


def test_a_delta_that_is_gone_spoils_a_prepared_round() -> None:
    """What a round lists must lie on the lane when it is published."""
    session = leading(grace_s=0.0)
    head = header(START)
    gathered(session, START, head)
    session.tell(e.Folded, *files(1))
    assert "Publish" not in kinds(session.look(START))


def test_a_fenced_leader_steps_down() -> None:
    """It drops what it prepared and says who leads now."""
    session = leading(grace_s=0.0)
    head = header(START)
    gathered(session, START, head)
    session.tell(e.Folded, *files(1))
    taken = attrs.evolve(
        renew(START),
        lease=attrs.evolve(START.lease, node="heir", life="99" * 8, epoch=1),
    )
    effects = session.look(taken, head.name)
    assert [] == kinds(effects)
    assert "heir has taken over; stepping down" == told(effects)
    assert session.state.prepared is None


def test_a_lease_is_renewed_in_time() -> None:
    """Three times as often as it would be needed."""
    session = leading(ttl_s=60.0)
    session.look(START)
    session.wait(19.0)
    assert "Publish" not in kinds(session.look(START))
    session.wait(5.0)
    assert 1 == publish(session.look(START)).manifest.lease.renewals


def test_a_silent_leader_is_replaced() -> None:
    """By the own clock since the manifest last changed, however slow it is."""
    session = leading(ttl_s=60.0)
    session.look(FOREIGN)
    for manifest in (FOREIGN, renew(FOREIGN)):
        session.wait(50.0)
        assert "Publish" not in kinds(session.look(manifest))
    session.wait(67.0)
    found = publish(session.look(renew(FOREIGN)))
    lease = found.manifest.lease
    assert ("leader", LIFE, 1) == (lease.node, lease.life, lease.epoch)
    assert ["Look"] == kinds(session.tell(e.Published))
    assert "leads the run, epoch 1" in told(session.look(found.manifest))


def test_two_watchers_do_not_wake_together() -> None:
    """The patience differs by up to a tenth of the ttl."""
    waits = []
    for life in ("01" * 8, "02" * 8, "03" * 8):
        session = leading(ttl_s=100.0, life=life)
        session.look(FOREIGN)
        session.now_s += 99.0
        while "Publish" not in kinds(session.look(FOREIGN)):
            session.wait(0.5)
        waits.append(session.now_s)
    assert 3 == len(set(waits))
    assert 100.0 <= min(waits) and max(waits) <= 111.0


def test_a_restarted_leader_holds_nothing() -> None:
    """A lease names a life: an older commit of its own may still be on its way."""
    session = leading(life="55" * 8)
    assert ["Remember"] == kinds(session.look(START))
    assert not leads(session.state)


def test_an_older_manifest_is_not_acted_on() -> None:
    """A head may lag."""
    session = leading(ttl_s=60.0)
    newer = renew(START)
    session.look(newer)
    session.wait(30.0)
    assert [] == kinds(session.look(START))
    assert newer == session.state.manifest


def test_lost_races_are_retried_at_once_and_not_for_ever() -> None:
    """The window between look and commit is what is lost; then it pauses."""
    session = leading(ttl_s=60.0)
    session.look(START)
    session.wait(25.0)
    quick = 0
    for _ in range(20):
        found = publish(session.look(START))
        if "Look" not in kinds(session.tell(e.Failed, found, "head moved")):
            assert session.state.look_at_s > session.now_s
            assert "Look" in kinds(session.wait(60.0))
        else:
            quick += 1
    assert 8 == quick


RELEASED = chain.released(FOREIGN, f"{'99' * 8}-1")


def test_a_lease_that_was_given_up_is_taken_at_once() -> None:
    """Nobody has to wait until it expires."""
    session = leading()
    found = publish(session.look(RELEASED))
    assert (LIFE, 1, False) == (
        found.manifest.lease.life,
        found.manifest.lease.epoch,
        found.manifest.lease.released,
    )


def test_who_gave_the_lease_up_leads_no_more() -> None:
    """It would have to take it again, one epoch later."""
    session = leading()
    given_up = chain.released(START, f"{LIFE}-9")
    found = publish(session.look(given_up))
    assert 1 == found.manifest.lease.epoch


def test_who_stops_takes_a_free_lease_only_for_what_waits() -> None:
    """And only when nobody else does: the last node of a run."""
    session = leading()
    session.tell(e.Stop, 60.0)
    head = header(RELEASED)
    assert "Publish" not in kinds(session.look(RELEASED, head.name))
    session.wait(16.0)
    found = publish(session.look(RELEASED, head.name))
    assert 1 == found.manifest.lease.epoch
    session = leading()
    session.tell(e.Stop, 60.0)
    assert "Publish" not in kinds(session.look(RELEASED))


def test_who_stops_closes_no_round_that_is_too_small_for_its_rule() -> None:
    """Of two deltas nobody can tell which is wrong; so it does not take the lease."""
    two = [header(RELEASED), header(RELEASED, node="n2", stream="77" * 8)]
    two.append(header(RELEASED, node="n2", stream="88" * 8))  # a node has one vote
    for least, leaves in ((2, False), (3, True)):
        session = leading(least=least, quorum=3)
        session.tell(e.Stop, 60.0)
        session.look(RELEASED, *(head.name for head in two))
        session.wait(16.0)
        effects = session.look(RELEASED, *(head.name for head in two))
        assert leaves == ("Publish" not in kinds(effects))
        assert leaves == (session.state.ended == "stopped")
