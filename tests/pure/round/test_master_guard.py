"""A round that its leader's guard does not let through."""

import attrs
import pytest
from tests.pure.round.session import kinds, leading
from tests.pure.round.test_master import gathered
from tests.pure.round.values import OTHER, files, genesis, header

from speedtronic.pure.round import chain
from speedtronic.pure.round import events as e

START = genesis()


@pytest.mark.parametrize(
    ("certain", "verdict", "strikes"), [(True, "drop", 1), (False, "retry", 0)]
)
def test_who_did_harm_is_refused_and_the_others_make_a_round(
    certain: bool, verdict: str, strikes: int
) -> None:
    """With the reason in the manifest; where it is not certain, without a strike."""
    session = leading(grace_s=0.0)
    bad, good = header(START), header(START, node="other", stream=OTHER)
    listed = [bad.name, good.name]
    assert "Fold" in kinds(gathered(session, START, bad, good))
    session.tell(
        e.Suspected,
        names=(bad.name,),
        reason="harmful: with it the loss goes from 2 to 9",
        certain=certain,
    )
    [fold] = [x for x in session.look(START, *listed) if isinstance(x, e.Fold)]
    assert [good.name] == [c.name for c in fold.accepted]
    session.tell(e.Folded, *files(1))
    [publish] = [x for x in session.look(START, *listed) if isinstance(x, e.Publish)]
    new = publish.manifest
    assert "" == chain.breaks(START, new)
    assert (1, (good.name,)) == (new.round, new.accepted)
    assert [(bad.name, verdict)] == [(r.name, r.verdict) for r in new.refused]
    assert new.refused[0].reason.startswith("harmful: with it the loss")
    assert strikes == sum(s.strikes for s in new.standings)


def test_what_the_rule_made_much_smaller_is_a_strike() -> None:
    """It counts, and the manifest says that it was cut."""
    session = leading(grace_s=0.0)
    long, other = header(START), header(START, node="other", stream=OTHER)
    gathered(session, START, long, other)
    session.tell(e.Folded, *files(1), (long.name,))
    [publish] = session.look(START, long.name, other.name)
    assert isinstance(publish, e.Publish)
    new = publish.manifest
    assert ((long.name,), 2) == (new.clipped, len(new.accepted))
    [standing] = new.standings
    assert ("node-1", 1) == (standing.node, standing.strikes)
    assert "" == chain.breaks(START, new)
    innocent = attrs.evolve(new, standings=())
    assert "the standings are not those" in chain.breaks(START, innocent)
