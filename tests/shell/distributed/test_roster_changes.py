"""A roster that changes while a run goes on, as a reader of the run sees it."""

from functools import partial
from pathlib import Path

import attrs
from tests.shell.distributed.test_attackers import OWN, newest, node, work
from tests.shell.distributed.toy import Toy, until

from speedtronic.pure.round import names
from speedtronic.pure.round.manifest import Manifest
from speedtronic.pure.round.roster import Member, Roster, added, encode, removed
from speedtronic.pure.round.standing import Standing
from speedtronic.shell.distributed.replay import replay
from speedtronic.shell.distributed.status import _aside, status
from speedtronic.shell.distributed.trust import signed_roster
from speedtronic.shell.lanes.base import ANY
from speedtronic.shell.lanes.memory import MemoryLane

GUEST = Member(node="guest", key="5" * 64, role="worker", max_norm=3.0)


def roster_of(lane: MemoryLane) -> Roster:
    """The newest that is published."""
    found = newest(lane).roster
    assert found is not None
    return found


def published(lane: MemoryLane, roster: Roster) -> bool:
    """Whether it is the newest one now."""
    return roster_of(lane) == roster


def test_a_change_takes_effect_between_rounds_and_replay_names_it(
    tmp_path: Path,
) -> None:
    """A node is let in, gets another key, and is put out again."""
    lane, toy = MemoryLane(), Toy()
    rotated = attrs.evolve(GUEST, key="6" * 64)
    with node(lane, tmp_path / "node") as honest:
        until(honest, toy, lambda: honest.may_train)
        work(honest, toy, lane)
        for change in (
            lambda old: added(old, GUEST),
            lambda old: added(old, rotated),
            lambda old: removed(old, "guest"),
        ):
            asked = signed_roster(change(roster_of(lane)), OWN)
            lane.commit({names.ROSTER: encode(asked)}, parent=ANY)
            until(honest, toy, partial(published, lane, asked))
            assert names.ROSTER not in lane.names("", str(lane.head()))
            work(honest, toy, lane)
    found = replay(lane, owner=OWN.public)
    assert found.ok
    assert [
        (),
        ("guest joins the roster as worker, key 5555555555555555",),
        ("guest has another key, 6666666666666666",),
        ("guest is removed from the roster",),
    ] == [report.roster for report in found.rounds if report.round]
    told = status(lane, owner=OWN.public)
    assert told.roster == roster_of(lane)
    assert () == told.problems


def test_who_is_set_aside_is_told_with_the_reason(tmp_path: Path) -> None:
    """And who is on the way to it."""
    lane, toy = MemoryLane(), Toy()
    with node(lane, tmp_path / "node") as honest:
        until(honest, toy, lambda: honest.may_train)
    held = Standing(node="b", strikes=0, until=9, round=1, reason="not finite")
    warned = Standing(node="c", strikes=2, until=0, round=1, reason="too large")
    head: Manifest = attrs.evolve(newest(lane), standings=(held, warned))
    assert [
        "b: set aside up to round 9, not finite",
        "c: 2 of 3 strikes, too large",
    ] == _aside(head)
