"""A lane whose root was overwritten, put back or deleted, and who mends it."""

from typing import Any

import attrs
import pytest
from tests.pure.round.session import Session, leading, told, working
from tests.pure.round.values import accept, genesis, header, renew

from speedtronic.pure.round import chain
from speedtronic.pure.round import events as e
from speedtronic.pure.round.manifest import Manifest
from speedtronic.pure.round.roster import founded

START = genesis()
NEWEST = accept(START, header(START))
TTL_S = 60.0
SPOILED: list[dict[str, Any]] = [
    {"manifest": None, "spoiled": "manifest.json: expected JSON"},
    {"manifest": None},
    {"manifest": START},
]


def looks(session: Session, number: int, spoiled: dict[str, Any]) -> list[e.Publish]:
    """What it publishes when it finds that so many times."""
    found: list[e.Publish] = []
    for _ in range(number):
        fields = {"revision": "bad", **spoiled}
        effects = session.tell(e.Looked, e.View(**fields))
        found += [x for x in effects if isinstance(x, e.Publish)]
    return found


@pytest.mark.parametrize("spoiled", SPOILED, ids=["forged", "gone", "older"])
def test_the_holder_puts_the_run_back(spoiled: dict[str, Any]) -> None:
    """On exactly what it found, with the files that it has, once it is no lag."""
    session = leading()
    session.look(NEWEST)
    assert [] == looks(session, 2, spoiled)
    (publish,) = looks(session, 1, spoiled)
    assert ("bad", True, False) == (publish.parent, publish.restores, publish.fresh)
    assert "" == chain.breaks(NEWEST, publish.manifest)


def test_a_look_that_finds_the_run_again_counts_anew() -> None:
    """It was a lag."""
    session = leading()
    session.look(NEWEST)
    looks(session, 2, SPOILED[0])
    session.look(NEWEST)
    assert [] == looks(session, 2, SPOILED[0])


def test_another_one_waits_for_the_lease_to_end() -> None:
    """Then it takes over from the newest manifest that it knows."""
    session = leading(node="other", life="98" * 8)
    session.look(NEWEST)
    assert [] == looks(session, 5, SPOILED[0])
    session.now_s += 2 * TTL_S
    (publish,) = looks(session, 1, SPOILED[0])
    assert ("other", 1) == (publish.manifest.lease.node, publish.manifest.lease.epoch)
    assert "" == chain.breaks(NEWEST, publish.manifest)


def test_who_may_not_lead_mends_nothing() -> None:
    """Its manifest would not be believed."""
    roster = founded(START.run, "9" * 64, {"leader": "2" * 64})
    session = leading(node="other", life="98" * 8)
    session.look(attrs.evolve(NEWEST, roster=roster))
    session.now_s += 2 * TTL_S
    assert [] == looks(session, 9, SPOILED[0])


def test_who_never_knew_the_run_begins_none_there() -> None:
    """An empty manifest is no invitation."""
    session = leading()
    assert [] == looks(session, 9, {"manifest": None})


def test_a_worker_goes_on_as_in_an_outage() -> None:
    """It tells once, and again when the run is back."""
    session = working()
    session.look(NEWEST)
    spoiled = e.View(revision="bad", manifest=None, spoiled="it is forged")
    (line,) = session.tell(e.Looked, spoiled)
    assert "it is forged" in line.text
    assert [] == session.tell(e.Looked, spoiled)
    later: Manifest = renew(NEWEST)
    assert "answers again after 2" in told(session.look(later))
