"""The worker and its lane: looking, fetching, sending, and everything that fails."""

import attrs
import pytest
from tests.pure.round.session import Session, joined, kinds, told, trained, working
from tests.pure.round.values import accept, genesis, header, renew, rounds

from speedtronic.pure.round import chain
from speedtronic.pure.round import events as e
from speedtronic.pure.round.roster import Member, added, founded, removed
from speedtronic.pure.round.worker import may_train

START = genesis()


def sending(**settings: object) -> Session:
    """A worker whose delta is on its way."""
    session = joined(START, **settings)
    trained(session, 10)
    session.tell(e.CutDone, "7" * 64, 400)
    assert ["Upload"] == kinds(session.tell(e.Persisted))
    return session


def test_it_looks_at_its_pace() -> None:
    """One look at a time, and then a pause."""
    session = joined(START)
    assert ["Look"] == kinds(session.wait(5.0))
    assert [] == kinds(session.wait(50.0))
    session.look(START)
    assert [] == kinds(session.wait(4.0))
    assert ["Look"] == kinds(session.wait(1.0))


def test_an_outage_is_told_once() -> None:
    """One line when it begins, one when it ends; training goes on."""
    session = joined(START)
    lines = []
    for _ in range(20):
        session.wait(100.0)
        lines.append(told(session.tell(e.Failed, e.Look(), "timeout")))
        assert may_train(session.state)
    assert "the lane does not answer (timeout); training goes on" == lines[0]
    assert {""} == set(lines[1:])
    session.wait(100.0)
    assert "after 20 failed looks" in told(session.look(START))


def test_a_long_outage_is_asked_less_often() -> None:
    """The pause grows up to its bound."""
    session = joined(START, retry_max_s=40.0)
    session.wait(5.0)
    waits = []
    for _ in range(12):
        session.tell(e.Failed, e.Look(), "timeout")
        waits.append(session.state.look_at_s - session.now_s)
        session.wait(waits[-1])
    assert 5.0 == min(waits)
    assert 20.0 <= max(waits) <= 40.0


def test_an_empty_lane_is_not_joined_nor_begun() -> None:
    """A worker waits and says so, once, and what for."""
    session = working()
    assert "waits for a master to begin it" in told(session.look(None))
    session.wait(5.0)
    assert "" == told(session.look(None))
    assert not may_train(session.state)
    session = working(begins=True)  # its own leader does
    assert [] == session.look(None)
    session = joined(START)
    session.wait(5.0)
    effects = session.look(None)
    assert f"this node belongs to {START.run}; it waits" in told(effects)
    assert may_train(session.state)
    session.wait(5.0)
    assert "" == told(session.look(None))


def test_an_older_manifest_is_not_taken_in() -> None:
    """A head may lag."""
    new = rounds(START, 2)
    session = joined(new)
    session.look(START)
    assert session.state.staged is None
    assert 2 == session.state.record.serial


def test_a_failed_fetch_looks_again() -> None:
    """The revision may be gone; the next look finds what is there now."""
    session = joined(START)
    session.look(rounds(START, 1))
    fetch = e.Fetch(revision="r1", weights=rounds(START, 1).weights)
    session.tell(e.Failed, fetch, "no such revision")
    assert session.state.staged is None
    assert ["Look"] == kinds(session.wait(1.0))
    assert ["Fetch"] == kinds(session.look(rounds(START, 2)))


def test_a_slow_download_is_not_started_anew() -> None:
    """Else a node slower than the rounds would never adopt any."""
    session = joined(START)
    first = rounds(START, 1)
    assert ["Fetch"] == kinds(session.look(first))
    assert [] == kinds(session.look(rounds(first, 1)))
    session.tell(e.Fetched)
    trained(session, 0)
    assert 1 == session.state.record.base_round
    assert ["Fetch"] == kinds(session.look(rounds(first, 1)))


def test_a_renewal_does_not_disturb_a_download() -> None:
    """The weights are those of the same round."""
    session = joined(START)
    first = rounds(START, 1)
    session.look(first)
    assert [] == kinds(session.look(renew(first)))
    session.tell(e.Fetched)
    trained(session, 0)
    assert (1, 2) == (session.state.record.base_round, session.state.record.serial)


def test_a_failed_upload_is_sent_again() -> None:
    """The same bytes, after growing pauses."""
    session = sending()
    head = session.state.record.pending.header
    waits = []
    for _ in range(4):
        assert [] == kinds(session.tell(e.Failed, e.Upload(head), "timeout"))
        waits.append(session.state.upload_at_s - session.now_s)
        session.now_s = session.state.upload_at_s
        assert e.Upload(head) in session.tell(e.Tick)
    assert waits == sorted(waits)


def test_an_answered_upload_is_not_repeated() -> None:
    """Until a manifest neither decides nor lists it: a hint is not a decision."""
    session = sending()
    head = session.state.record.pending.header
    session.tell(e.Uploaded)
    session.wait(5.0)
    assert [] == kinds(session.look(START, head.name))
    session.wait(5.0)
    session.look(renew(START))
    assert session.state.record.pending is not None
    assert e.Upload(head) in session.wait(2.0)


def test_a_listed_delta_is_known_to_have_arrived() -> None:
    """Also when the answer was lost."""
    session = sending()
    head = session.state.record.pending.header
    session.tell(e.Failed, e.Upload(head), "timeout")
    session.look(START, head.name)
    assert "Upload" not in kinds(session.wait(4.0))


def test_a_decided_delta_is_not_sent_again() -> None:
    """It is settled at the next boundary."""
    session = sending()
    head = session.state.record.pending.header
    session.tell(e.Uploaded)
    session.wait(5.0)
    session.look(accept(START, head))
    assert "Upload" not in kinds(session.wait(4.0))


def test_an_answer_to_an_older_upload_means_nothing() -> None:
    """Only the pending delta's own answer is a hint of it."""
    session = sending()
    session.look(rounds(START, 3))
    session.tell(e.Fetched)
    assert ["Install", "Cut"] == kinds(trained(session, 0))
    session.tell(e.CutDone, "8" * 64, 400)
    assert [] == kinds(session.tell(e.Persisted))
    assert ["Upload"] == kinds(session.tell(e.Uploaded))
    assert not session.state.sent


@pytest.mark.parametrize("effect", [e.Look(), e.Upload(header(START))])
def test_what_is_not_allowed_halts(effect: e.Effect) -> None:
    """Trying for ever would help nobody."""
    session = sending()
    [halt] = session.tell(e.Failed, effect, "403: token is read-only", permanent=True)
    assert e.Halt("403: token is read-only") == halt
    assert [] == session.wait(1000.0)


def test_only_a_few_headers_are_read() -> None:
    """However many files lie under a node's name."""
    names = [header(START, seq=n + 1).name for n in range(40)]
    session = working()
    [fetch] = session.look(START, *names)
    assert isinstance(fetch, e.Fetch)
    assert 16 == len(fetch.headers)
    assert attrs.evolve(names[-1]) in fetch.headers


def test_a_global_model_that_cannot_be_fetched_is_told_once() -> None:
    """A node that waits for it would otherwise hang without a word."""
    session = working()
    lines = []
    for _ in range(3):
        effects = session.look(START)
        [fetch] = [x for x in effects if isinstance(x, e.Fetch)]
        lines.append(told(session.tell(e.Failed, fetch, "model: other bytes")))
        session.wait(90.0)
    text = "the global model cannot be fetched (model: other bytes); trying again"
    assert [text, "", ""] == lines


def test_a_delta_that_cannot_be_sent_is_told_once() -> None:
    """The lane answers, but does not take it."""
    session = joined(START, inner_steps=2)
    trained(session, 2)
    session.tell(e.CutDone, "0" * 64, 8)
    effects = session.tell(e.Persisted)
    lines = []
    for _ in range(2):
        [upload] = [x for x in effects if isinstance(x, e.Upload)]
        lines.append(told(session.tell(e.Failed, upload, "next in 40 s")))
        effects = session.wait(90.0)
    assert ["a delta is not sent yet (next in 40 s); it is tried again", ""] == lines


def test_a_node_that_the_roster_has_not_waits() -> None:
    """It says once what its owner has to do, and joins when that is done."""
    session = working(key="1" * 64)
    start = genesis()
    roster = founded(start.run, "9" * 64, {"leader": "2" * 64})
    (told,) = session.look(attrs.evolve(start, roster=roster))
    assert isinstance(told, e.Tell)
    assert "node node-1 is not in the run's roster" in told.text
    assert f"speedtronic roster add LANE node-1 {'1' * 64}" in told.text
    assert [] == session.look(attrs.evolve(start, roster=roster))
    member = Member(node="node-1", key="1" * 64, role="worker")
    known = attrs.evolve(start, roster=added(roster, member))
    assert ["Fetch"] == kinds(session.look(known))


def test_a_node_that_is_put_out_ends() -> None:
    """Also one whose key was replaced; what it has stays where it is."""
    start = genesis()
    roster = founded(start.run, "9" * 64, {"leader": "2" * 64, "node-1": "1" * 64})
    signed = attrs.evolve(start, roster=roster)
    session = joined(signed, key="1" * 64)
    other = Member(node="node-1", key="3" * 64, role="worker")
    for changed in (removed(roster, "node-1"), added(roster, other)):
        now = chain.enrolled(signed, changed, f"{'ab' * 8}-1")
        (halt,) = attrs.evolve(session).look(now)
        assert isinstance(halt, e.Halt)
        assert "node-1" in halt.reason


def test_a_new_key_that_its_owner_asked_for_is_waited_for() -> None:
    """A leader has to publish it, perhaps the one of this very node."""
    start = genesis()
    roster = founded(start.run, "9" * 64, {"leader": "2" * 64, "node-1": "3" * 64})
    signed = attrs.evolve(start, roster=roster)
    session = joined(signed, key="3" * 64)
    asked = added(roster, Member(node="node-1", key="1" * 64, role="worker"))
    record = session.state.record
    again = working(record, key="1" * 64)
    assert [] == again.look(signed, proposal=asked)
    assert [] == again.look(chain.enrolled(signed, asked, f"{'ab' * 8}-1"))


def test_what_cannot_follow_is_not_believed() -> None:
    """A key of a master that was stolen for a moment signs anything."""
    session = joined(START)
    forged = attrs.evolve(renew(START), outer=(("learning_rate", 1e30),))
    assert "expected outer" in told(session.look(forged))
    assert session.state.staged is None
    leap = attrs.evolve(renew(START), serial=10**12)
    session.look(leap)
    assert session.state.staged is None
    assert session.state.seen == START


def test_an_older_manifest_that_stays_is_told_once() -> None:
    """A short lag is not."""
    session = joined(rounds(START, 2))
    lines = [told(session.look(rounds(START, 1))) for _ in range(30)]
    (line,) = filter(None, lines)
    assert "the lane is at serial 1, this node has seen 2" in line
