"""Who is set aside: nodes whose deltas were refused or clipped several times in a row.

One bad delta is a bad luck; three in a row are broken hardware, a bug or an attack.
Such a node is not heard for some rounds: its deltas wait. What it does afterwards
decides anew. The counts stand in the manifest, so every leader goes on with them.
"""

from collections.abc import Mapping

import attrs

from speedtronic.pure.round.limits import Limits

MAX_REASON = 100  # characters


@attrs.frozen(kw_only=True)
class Standing:
    """What is held against a node; a node without one is in good standing."""

    node: str
    strikes: int  # refused or clipped in a row
    until: int  # it is set aside up to and with this round; 0 if it is not
    round: int  # that the last strike was for
    reason: str  # of the last strike, cut to `MAX_REASON`


def aside(standings: tuple[Standing, ...], node: str, round: int) -> Standing | None:
    """The entry of a node that is not heard in ``round``.

    >>> held = Standing(node="a", strikes=0, until=9, round=5, reason="too large")
    >>> aside((held,), "a", 9) == held, aside((held,), "a", 10)
    (True, None)
    """
    for standing in standings:
        if standing.node == node and round <= standing.until:
            return standing
    return None


def judged(
    standings: tuple[Standing, ...],
    round: int,
    good: frozenset[str],
    bad: Mapping[str, str],
    limits: Limits,
) -> tuple[Standing, ...]:
    """The standings after some decisions, sorted by node.

    Args:
        standings: before.
        round: the one that was decided for.
        good: nodes whose delta counted as it was.
        bad: nodes whose delta was refused for good or clipped, each with the reason.
        limits: of the run; ``strikes`` in a row set a node aside, 0 never do.

    >>> limits = Limits(strikes=1, aside=3)
    >>> after = judged((), 4, frozenset(), {"a": "too large"}, limits)
    >>> after[0].until
    7
    >>> judged(after, 8, frozenset({"a"}), {}, limits)
    ()
    """
    if not limits.strikes:
        return ()
    table = {s.node: s for s in standings}
    for node in good:
        table.pop(node, None)
    for node, reason in bad.items():
        before = table.get(node)
        count = (before.strikes if before else 0) + 1
        out = count >= limits.strikes
        table[node] = Standing(
            node=node,
            strikes=0 if out else count,
            until=round + limits.aside if out else before.until if before else 0,
            round=round,
            reason=reason[:MAX_REASON],
        )
    kept = [s for s in table.values() if _remembered(s, round, limits)]
    return tuple(sorted(kept, key=lambda s: s.node))


def _remembered(standing: Standing, round: int, limits: Limits) -> bool:
    """As long as a register would be, so that names of no end need no memory."""
    if standing.until >= round:
        return True
    return bool(standing.strikes) and round - standing.round < limits.window
