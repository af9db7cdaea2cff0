"""A leader and the roster: taking in a newer one, and keeping out of its way."""

import attrs
from tests.pure.round.session import Session, kinds, leading
from tests.pure.round.values import LIFE, accept, candidate, genesis, header

from speedtronic.pure.round import chain
from speedtronic.pure.round import events as e
from speedtronic.pure.round.manifest import Manifest
from speedtronic.pure.round.roster import Member, Roster, added, founded, removed

KEY, OWN, OWNER = "1" * 64, "2" * 64, "9" * 64
START = genesis()
ROSTER = founded(START.run, OWNER, {"leader": OWN, "other": "3" * 64})
SIGNED = attrs.evolve(START, roster=ROSTER)
MORE = added(ROSTER, Member(node="node-1", key=KEY, role="worker"))
TTL_S = 60.0


def published(effects: list[e.Effect]) -> Manifest:
    """The manifest that it wants to commit."""
    (found,) = (x for x in effects if isinstance(x, e.Publish))
    return found.manifest


def test_the_holder_publishes_what_the_owner_asks_for() -> None:
    """As a manifest of its own; the file that asked is removed with it."""
    session = leading(key=OWN)
    effects = session.look(SIGNED, proposal=MORE)
    (publish,) = (x for x in effects if isinstance(x, e.Publish))
    new = publish.manifest
    assert (MORE, SIGNED.round, 1) == (new.roster, new.round, new.serial)
    assert ("roster.json",) == publish.deletes
    assert "" == chain.breaks(SIGNED, new)


def test_an_older_roster_changes_nothing() -> None:
    """It may lie there still, or again."""
    session = leading(key=OWN)
    now = attrs.evolve(SIGNED, roster=MORE)
    assert [] == [
        x for x in session.look(now, proposal=ROSTER) if isinstance(x, e.Publish)
    ]


def test_a_prepared_round_gives_way() -> None:
    """What was decided by the old roster is decided again."""
    session = leading(grace_s=0.0, key=OWN)
    now = attrs.evolve(SIGNED, roster=MORE)
    work = header(now, node="node-1")
    session.look(now, work.name)
    session.tell(e.Inspected, (candidate(work, signed_by=KEY),))
    assert "Fold" in kinds(session.look(now, work.name))
    less = removed(MORE, "node-1")
    new = published(session.look(now, work.name, proposal=less))
    assert (less, now.round) == (new.roster, new.round)
    session.tell(e.Published)
    session.tell(e.Folded, *(attrs.evolve(f) for f in (now.weights, now.momentum)))
    effects = session.look(new, work.name)
    assert not [x for x in effects if isinstance(x, e.Publish | e.Fold)]


def test_a_holder_who_is_put_out_gives_the_lease_up() -> None:
    """It may not sign a manifest without itself."""
    session = leading(key=OWN)
    new = published(session.look(SIGNED, proposal=removed(ROSTER, "leader")))
    assert (True, ROSTER) == (new.lease.released, new.roster)
    session.tell(e.Published)
    assert not watched(session, new, removed(ROSTER, "leader"))


def watched(session: Session, manifest: Manifest, asked: Roster | None) -> bool:
    """Whether it takes the lead, at once or when the lease is old."""
    found = [*session.look(manifest, proposal=asked)]
    session.now_s += 3 * TTL_S
    session.tell(e.Tick)
    found += session.look(manifest, proposal=asked)
    return any(isinstance(x, e.Publish) for x in found)


def test_another_master_takes_over_for_the_one_put_out() -> None:
    """At once, with the new roster; that manifest is signed by itself."""
    session = leading(node="other", life="98" * 8, key="3" * 64)
    asked = removed(ROSTER, "leader")
    new = published(session.look(SIGNED, proposal=asked))
    assert ("other", 1, asked) == (new.lease.node, new.lease.epoch, new.roster)
    assert "" == chain.breaks(SIGNED, new)


def test_who_is_no_master_never_leads() -> None:
    """Neither a worker of the roster nor a stranger, however old the lease is."""
    for node in ("node-1", "stranger"):
        session = leading(node=node, life="98" * 8, key=KEY)
        assert not watched(session, attrs.evolve(SIGNED, roster=MORE), None)
    promoted = added(MORE, Member(node="node-1", key=KEY, role="master"))
    session = leading(node="node-1", life="98" * 8, key=KEY)
    assert watched(session, attrs.evolve(SIGNED, roster=MORE), promoted)


def test_another_key_leads_nothing() -> None:
    """Nobody would believe its manifests, and the run would stand still."""
    session = leading(node="other", life="98" * 8, key="7" * 64)
    assert not watched(session, SIGNED, None)
    session = leading(key="7" * 64)  # its own lease, from before
    assert not watched(session, SIGNED, None)


def test_a_leader_whose_key_is_replaced_steps_aside() -> None:
    """It may not sign with the old one; with the new one it takes over again."""
    new = Member(node="leader", key="7" * 64, role="master")
    asked = added(ROSTER, new)
    session = leading(key=OWN)
    given = published(session.look(SIGNED, proposal=asked))
    assert (True, ROSTER) == (given.lease.released, given.roster)
    session = leading(life="98" * 8, key="7" * 64)
    taken = published(session.look(given, proposal=asked))
    assert ("leader", asked) == (taken.lease.node, taken.roster)
    assert "" == chain.breaks(given, taken)


def test_a_run_begins_with_its_roster() -> None:
    """The run's id depends on its owner, so another owner has another run."""
    run = chain.run_id(START.lineage, START.weights, LIFE, OWNER)
    roster = founded(run, OWNER, {"leader": "2" * 64})
    assert run == genesis(roster=roster).run
    assert run != START.run


def test_what_a_chain_says_of_rosters() -> None:
    """A newer version alone, and never within a decision."""
    newer = chain.enrolled(SIGNED, MORE, f"{LIFE}-1")
    assert "" == chain.breaks(SIGNED, newer)
    older = chain.enrolled(attrs.evolve(SIGNED, roster=MORE), ROSTER, f"{LIFE}-1")
    assert "the roster was version 2" in chain.breaks(
        attrs.evolve(SIGNED, roster=MORE), older
    )
    foreign = attrs.evolve(MORE, owner="8" * 64)
    assert "of owner 8888" in chain.breaks(
        SIGNED, chain.enrolled(SIGNED, foreign, f"{LIFE}-1")
    )
    assert "here it is none" in chain.breaks(SIGNED, attrs.evolve(newer, roster=None))
    work = header(SIGNED, node="other")
    decided = attrs.evolve(accept(SIGNED, work), roster=MORE)
    assert "in the middle of a decision" in chain.breaks(SIGNED, decided)
