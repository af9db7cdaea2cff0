"""Nodes that are set aside."""

from typing import Any

from speedtronic.pure.round.limits import Limits
from speedtronic.pure.round.standing import aside, judged

LIMITS = Limits(staleness=2, window=4, per_round=3, strikes=2, aside=5)


def after(*rounds: tuple[int, str]) -> Any:
    """The standings when node ``a`` did so in these rounds, the last one."""
    found: Any = ()
    for round, what in rounds:
        good = frozenset({"a"} if what == "good" else ())
        bad = {"a": what} if what != "good" else {}
        found = judged(found, round, good, bad, LIMITS)
    return found


def test_strikes_in_a_row_set_a_node_aside() -> None:
    """From the next round on, for as many as the run says."""
    (one,) = after((1, "nan"))
    assert (1, 0) == (one.strikes, one.until)
    (two,) = after((1, "nan"), (2, "nan"))
    assert (0, 7, "nan") == (two.strikes, two.until, two.reason)
    assert aside((two,), "a", 7)
    assert not aside((two,), "a", 8)
    assert not aside((two,), "b", 3)


def test_a_good_delta_wipes_the_slate() -> None:
    """In a row means in a row."""
    assert () == after((1, "nan"), (2, "good"))
    (one,) = after((1, "nan"), (2, "good"), (3, "large"))
    assert 1 == one.strikes


def test_strikes_are_forgotten_with_the_ledger() -> None:
    """So that names without end take no memory."""
    found = after((1, "nan"))
    assert judged(found, 4, frozenset(), {}, LIMITS)
    assert () == judged(found, 5, frozenset(), {}, LIMITS)


def test_a_term_that_is_over_leaves_nothing() -> None:
    """The node begins anew."""
    found = after((1, "nan"), (2, "nan"))
    assert judged(found, 7, frozenset(), {}, LIMITS)
    assert () == judged(found, 8, frozenset(), {}, LIMITS)


def test_no_strikes_no_standings() -> None:
    """A run may do without."""
    assert () == judged((), 1, frozenset(), {"a": "nan"}, Limits(strikes=0))
