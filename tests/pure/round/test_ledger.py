"""The ledger: a register moves once per decision, and is forgotten when it is safe."""

import attrs
from tests.pure.round.values import (
    LIMITS,
    OTHER,
    STREAM,
    accept,
    genesis,
    header,
    rounds,
)

from speedtronic.pure.round.ledger import advance, decide, position, remembered, room


def test_a_decision_is_a_compare_and_swap() -> None:
    """The register says what was decided and what that followed."""
    start = genesis()
    head = header(start)
    after = accept(start, head)
    register = after.register(STREAM)
    assert register is not None
    assert (head.id, None, "accepted", 1) == (
        register.decided,
        register.after,
        register.verdict,
        register.round,
    )
    second = decide(after, header(after), "retry")
    assert (head.id, "retry", 2) == (second.after, second.verdict, second.round)


def test_the_cursor_moves_only_with_what_counts() -> None:
    """The data of a refused delta is read again."""
    start = genesis()
    after = accept(start, header(start, cursor=50))
    refused = decide(after, header(after, cursor=90), "drop")
    assert 50 == refused.cursor
    assert 0 == decide(start, header(start, cursor=90), "drop").cursor


def test_a_register_stays_for_the_window() -> None:
    """Four rounds, here, counted from the round it was decided for."""
    start = genesis()
    after = accept(start, header(start))
    found = [rounds(after, n).register(STREAM) is not None for n in range(5)]
    assert [True, True, True, True, False] == found


def test_forgetting_is_safe() -> None:
    """When a register goes, what could follow an earlier decision is stale."""
    start = genesis()
    register = decide(start, header(start), "accepted")
    gone = next(r for r in range(20) if not remembered(LIMITS, register, r))
    newest_base = register.round - 1  # of whatever was cut before this decision
    assert gone - newest_base > LIMITS.staleness


def test_the_window_may_not_be_shorter_than_the_staleness() -> None:
    """With the shortest one allowed, forgetting is just safe."""
    limits = attrs.evolve(LIMITS, staleness=3, window=3)
    register = decide(genesis(), header(genesis()), "accepted")
    gone = next(r for r in range(20) if not remembered(limits, register, r))
    assert [] == limits.problems()
    assert gone - (register.round - 1) == limits.staleness + 1


def test_the_ledger_is_sorted_and_replaces() -> None:
    """One register per stream, in one order."""
    start = genesis()
    heads = [header(start, stream=s) for s in (OTHER, STREAM)]
    first = advance(start, tuple(decide(start, h, "accepted") for h in heads), 1)
    assert [STREAM, OTHER] == [r.stream for r in first]
    after = attrs.evolve(start, ledger=first)
    again = advance(after, (decide(after, header(after), "drop"),), 1)
    assert [STREAM, OTHER] == [r.stream for r in again]
    assert ["drop", "accepted"] == [r.verdict for r in again]


def test_room_for_refusals() -> None:
    """As many streams as a round may count."""
    start = genesis()
    assert 3 == room(start)
    refused = decide(start, header(start), "drop")
    assert 2 == room(attrs.evolve(start, ledger=(refused,)))


def test_a_new_stream_reads_behind_everything_of_its_node() -> None:
    """Decided or still listed; other nodes do not matter."""
    start = genesis()
    after = accept(
        start, header(start, cursor=50), header(start, stream=OTHER, node="b", cursor=9)
    )
    assert 50 == position(after, "node-1", ())
    assert 70 == position(after, "node-1", (60, 70))
    assert 9 == position(after, "b", ())
    assert 0 == position(after, "new", ())
