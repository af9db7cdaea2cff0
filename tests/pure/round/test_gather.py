"""Which deltas a leader downloads and holds: bounded, and fair."""

from tests.pure.round.session import kinds, leading, told
from tests.pure.round.values import accept, candidate, genesis, header

from speedtronic.pure.round import events as e
from speedtronic.pure.round.admit import Bounds
from speedtronic.pure.round.gather import inspect

START = genesis()


def test_what_is_known_is_not_read_again() -> None:
    """A delta never changes under its name."""
    session = leading(grace_s=1000.0)
    one, two = header(START), header(START, stream="12" * 8)
    session.look(START, one.name)
    session.tell(e.Inspected, (candidate(one),))
    [ask] = session.look(START, one.name, two.name)
    assert e.Inspect(revision="r0", names=(two.name,)) == ask


def test_one_request_at_a_time() -> None:
    """Nothing piles up behind a slow download."""
    session = leading()
    one, two = header(START), header(START, stream="12" * 8)
    assert "Inspect" in kinds(session.look(START, one.name))
    assert "Inspect" not in kinds(session.look(START, one.name, two.name))


def test_what_could_not_be_read_is_asked_again() -> None:
    """With the next look."""
    session = leading()
    head = header(START)
    session.look(START, head.name)
    session.tell(e.Inspected, ())
    assert "Inspect" in kinds(session.look(START, head.name))
    session.tell(e.Failed, e.Inspect(revision="r0", names=(head.name,)), "timeout")
    session.wait(9.0)
    assert "Inspect" in kinds(session.look(START, head.name))


def test_a_large_file_is_never_downloaded() -> None:
    """Its size is known from the listing."""
    session = leading(bounds=Bounds(payload_bytes=1000))
    view = e.View(
        revision="r0",
        manifest=START,
        deltas=(e.Listed(header(START).name, 2**20 + 1001),),
    )
    effects = session.tell(e.Looked, view)
    assert "Inspect" not in kinds(effects)
    assert "garbage, 1049577 bytes, at most 1049576 are read" in told(effects)


def test_memory_is_bounded_whatever_lies_there() -> None:
    """Four times what a round takes, three at a time here."""
    heads = [header(START, stream=f"{i:016x}", node=f"n{i}") for i in range(40)]
    by_name = {h.name: h for h in heads}
    session = leading(quorum=3, grace_s=1000.0)
    state = session.state
    view = e.View(
        revision="r0",
        manifest=START,
        deltas=tuple(e.Listed(h.name, 500) for h in heads),
    )
    asked = 0
    while True:
        state, effects = inspect(state, view, START)
        if not effects:
            break
        [ask] = effects
        assert isinstance(ask, e.Inspect)
        assert len(ask.names) <= 3
        asked += len(ask.names)
        found = tuple(candidate(by_name[name]) for name in ask.names)
        session.state = state
        session.tell(e.Inspected, found)
        state = session.state
    assert 12 == asked == len(state.candidates)


def test_the_longest_waiting_are_read_first() -> None:
    """A stream that was never served comes before one that just was."""
    served = header(START)
    manifest = accept(START, served)
    again = header(manifest)
    others = [header(manifest, stream=f"{i:016x}", node=f"n{i}") for i in range(3)]
    [*_, ask] = leading().look(manifest, again.name, *(h.name for h in others))
    assert isinstance(ask, e.Inspect)
    assert {h.name for h in others} == set(ask.names)


def test_what_is_no_longer_listed_is_forgotten() -> None:
    """It was decided or swept."""
    session = leading(quorum=3)
    head = header(START)
    session.look(START, head.name)
    session.tell(e.Inspected, (candidate(head),))
    session.look(START, head.name)
    assert 1 == len(session.state.candidates)
    session.look(START)
    assert () == session.state.candidates
