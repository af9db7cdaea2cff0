"""A cut: what its header says, and what happens when it cannot be made or saved."""

import pytest
from tests.pure.round.session import Session, joined, kinds, told, trained
from tests.pure.round.values import LIFE, accept, genesis, header, rounds

from speedtronic.pure.round import events as e
from speedtronic.pure.round.header import Header
from speedtronic.pure.round.record import Work
from speedtronic.pure.round.worker import may_save

START = genesis()


def persisted(session: Session, payload: str = "7" * 64) -> e.Persist:
    """What is to be saved after the payload is encoded."""
    [found] = session.tell(e.CutDone, payload, 400)
    assert isinstance(found, e.Persist)
    return found


def pending(session: Session) -> Header:
    """The pending delta's header."""
    found = session.state.record.pending
    assert found is not None
    header_: Header = found.header
    return header_


def test_a_header_says_what_the_delta_is() -> None:
    """As of the boundary of the cut, whatever was trained since."""
    first = rounds(START, 1)
    session = joined(first)
    session.tell(e.Boundary, 10, 160, 30)
    session.tell(e.Boundary, 2, 32, 36)
    saved = persisted(session).record
    head = pending(session)
    assert (first.run, first.lineage, "node-1", LIFE) == (
        head.run,
        head.lineage,
        head.node,
        head.life,
    )
    assert (1, first.round_id, None, 1) == (
        head.base_round,
        head.base_id,
        head.after,
        head.seq,
    )
    assert (30, 10, 160) == (head.cursor, head.inner_steps, head.tokens)
    assert (Work(), Work(2, 32)) == (saved.fresh, session.state.record.fresh)


def test_a_second_cut_follows_the_first() -> None:
    """By the decision that its stream is at."""
    session = joined(START)
    trained(session, 10)
    persisted(session)
    session.tell(e.Persisted)
    first = pending(session)
    session.look(accept(START, first))
    session.tell(e.Fetched)
    trained(session, 10)
    persisted(session, "8" * 64)
    second = pending(session)
    assert (first.id, 2, 1) == (second.after, second.seq, second.base_round)


def test_nothing_is_sent_before_it_is_durable() -> None:
    """A crash would leave a delta on the lane that nobody knows of."""
    session = joined(START)
    trained(session, 10)
    persisted(session)
    assert "Upload" not in kinds(session.wait(100.0))
    assert ["Upload"] == kinds(session.tell(e.Persisted))


@pytest.mark.parametrize("failing", ["cut", "persist"])
def test_what_cannot_be_made_or_saved_stays_in_the_model(failing: str) -> None:
    """A full disk costs no work: it goes out with the next boundary that is due."""
    session = joined(START)
    trained(session, 10)
    if failing == "cut":
        effects = session.tell(e.Failed, e.Cut(), "no space left on /tmp")
    else:
        persist = persisted(session)
        effects = session.tell(e.Failed, persist, "no space left on /tmp")
    assert "no space left on /tmp" in told(effects)
    assert may_save(session.state)
    record = session.state.record
    assert (Work(10, 160), None) == (record.fresh, record.pending)
    assert ["Cut"] == kinds(trained(session, 1))
    persisted(session)
    assert 11 == pending(session).inner_steps


def test_a_late_answer_to_a_cut_is_ignored() -> None:
    """Without a cut there is nothing to name."""
    session = joined(START)
    assert [] == session.tell(e.CutDone, "7" * 64, 400)
    assert session.state.record.pending is None


def test_owed_work_is_sent_without_new_steps() -> None:
    """However often it is cut and taken back, it stays the same work."""
    session = joined(START, carry=False)
    trained(session, 10)
    manifest = START
    for payload in "123":
        persisted(session, payload * 64)
        session.tell(e.Persisted)
        manifest = rounds(manifest, 1)
        session.look(manifest)
        session.tell(e.Fetched)
        assert ["Install"] == kinds(trained(session, 0))
        manifest = rounds(manifest, 2)
        session.look(manifest)
        session.tell(e.Fetched)
        assert ["Install", "Cut"] == kinds(trained(session, 0))
        assert (Work(), Work(10, 160)) == (
            session.state.cutting.fresh,
            session.state.cutting.owed,
        )
    persisted(session, "4" * 64)
    assert (10, 160) == (pending(session).inner_steps, pending(session).tokens)


def test_a_codec_is_named() -> None:
    """Whoever reads the delta has to know."""
    session = joined(START, codec="int8")
    trained(session, 10)
    persisted(session)
    assert "int8" == pending(session).codec
    assert header(START).codec == "none"
