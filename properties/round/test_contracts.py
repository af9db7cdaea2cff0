"""Laws of admission, ledger and chain, over runs that could have been."""

from hypothesis import given
from hypothesis import strategies as st
from properties.round.histories import BOUNDS, after, candidates, histories

from speedtronic.pure.round.admit import admit, inadmissible
from speedtronic.pure.round.chain import breaks
from speedtronic.pure.round.manifest import Manifest, encode, parse


@given(st.data())
def test_admission_does_not_depend_on_the_order_of_arrival(data: st.DataObject) -> None:
    """The same deltas make the same round, whoever reads them in whatever order."""
    manifest = data.draw(histories())[-1]
    found = data.draw(candidates(manifest))
    shuffled = tuple(data.draw(st.permutations(found)))
    assert admit(manifest, found, BOUNDS) == admit(manifest, shuffled, BOUNDS)


@given(st.data())
def test_every_delta_has_at_most_one_fate(data: st.DataObject) -> None:
    """It counts, is refused, waits or is garbage; one of each stream is looked at."""
    manifest = data.draw(histories())[-1]
    found = data.draw(candidates(manifest))
    decisions = admit(manifest, found, BOUNDS)
    fates = [c.name for c in decisions.accepted]
    fates += [c.name for c, _ in decisions.refused]
    fates += [c.name for c in decisions.waiting]
    streams = [name.stream for name in fates]
    fates += [b.name for b in decisions.garbage]
    assert len(fates) == len(set(fates))
    assert len(streams) == len(set(streams))
    assert set(fates) <= {c.name for c in found}
    assert len(decisions.accepted) <= manifest.limits.per_round


@given(st.data())
def test_nothing_is_decided_twice(data: st.DataObject) -> None:
    """After a decision no delta of that round is admissible, also rounds later."""
    manifest = data.draw(histories())[-1]
    found = data.draw(candidates(manifest))
    decisions = admit(manifest, found, BOUNDS)
    decided = [*decisions.accepted, *(c for c, _ in decisions.refused)]
    new = after(manifest, found, 90)
    for number in range(manifest.limits.window + 3):
        assert all(inadmissible(new, c.header) for c in decided)
        new = after(new, data.draw(candidates(new)), 91 + number)


@given(st.data())
def test_garbage_stays_garbage(data: st.DataObject) -> None:
    """What no leader accepts now, none accepts later: deleting it loses nothing.

    A base that is ahead of its manifest cannot lie on a lane, so it is left out.
    """
    manifest = data.draw(histories())[-1]
    found = data.draw(candidates(manifest))
    garbage = {b.name for b in admit(manifest, found, BOUNDS).garbage}
    headers = [c.header for c in found if c.name in garbage]
    new = manifest
    for number in range(4):
        new = after(new, data.draw(candidates(new)), 90 + number)
        for header in headers:
            later = inadmissible(new, header)
            evicted = header.after is None and new.register(header.stream) is None
            assert later or evicted


@given(histories())
def test_every_run_is_a_chain(run: list[Manifest]) -> None:
    """Each manifest follows the one before, and no other."""
    for old, new in zip(run, run[1:], strict=False):
        assert "" == breaks(old, new)
    for i, old in enumerate(run):
        for j, new in enumerate(run):
            assert (j == i + 1) == ("" == breaks(old, new))


@given(histories())
def test_the_ledger_is_bounded(run: list[Manifest]) -> None:
    """Whatever comes and goes."""
    for manifest in run:
        limits = manifest.limits
        assert len(manifest.ledger) <= 2 * limits.per_round * limits.window


@given(histories())
def test_every_manifest_survives_the_lane(run: list[Manifest]) -> None:
    """What is written is read, with the same id."""
    for manifest in run:
        assert manifest == parse(encode(manifest))
