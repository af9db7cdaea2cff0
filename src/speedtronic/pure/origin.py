"""Whose work a delta is, and what it may weigh.

An `Origin` is all that a rule of aggregation knows of a delta beside its tensors. Here
are numbers of origins: votes, discounts, factors that make deltas comparable.

Absent on purpose: tensors (see `speedtronic.pure.aggregate`).
"""

import math
from collections.abc import Callable, Sequence

import attrs


@attrs.frozen(order=True)
class Origin:
    """Who did the work of a delta, and how much of it; sorts in the order of sums."""

    node: str
    stream: str
    sequence: int  # number of the delta in its stream
    tokens: float = attrs.field(default=1, order=False)  # counted targets
    staleness: int = attrs.field(default=0, order=False)  # rounds since its base
    steps: int = attrs.field(default=1, order=False)  # inner steps in it


def alike(origins: Sequence[Origin]) -> list[float]:
    """The same weight for all.

    >>> alike([Origin("a", "s", 1), Origin("b", "s", 1)])
    [1.0, 1.0]
    """
    return [1.0 for _ in origins]


def one_vote(origins: Sequence[Origin]) -> list[float]:
    """The same weight for every node, however many deltas of it there are.

    A node may have several streams, and would have as many votes. Of its deltas the one
    with the newest base counts, of equally old ones the last in order.

    >>> two = Origin("a", "s1", 1, staleness=2), Origin("a", "s2", 1)
    >>> one_vote([*two, Origin("b", "s3", 1)])
    [0.0, 1.0, 1.0]
    """
    newest: dict[str, Origin] = {}
    for origin in sorted(origins):
        known = newest.get(origin.node)
        if known is None or origin.staleness <= known.staleness:
            newest[origin.node] = origin
    return [float(newest[origin.node] is origin) for origin in origins]


def discounted(
    weigh: Callable[[Sequence[Origin]], Sequence[float]],
) -> Callable[[Sequence[Origin]], list[float]]:
    """Weights as ``weigh`` gives them, times the `staleness_weight`.

    >>> discounted(alike)([Origin("a", "s", 1, staleness=3)])
    [0.5]
    """
    return lambda origins: [
        weight * staleness_weight(origin.staleness)
        for origin, weight in zip(origins, weigh(origins), strict=True)
    ]


def by_steps(origins: Sequence[Origin]) -> list[float]:
    """Factors that scale deltas of more inner steps than the median down to it.

    A node whose upload took long hands in the work of several rounds at once. Beside
    the others that looks like an outlier, and a bound that lets it pass lets the same
    length pass for everybody. Deltas of fewer steps stay as they are: whoever counts
    the own steps could grow by telling few.

    >>> steps = {"a": 50, "b": 200, "c": 50}
    >>> by_steps([Origin(node, "s", 1, steps=n) for node, n in steps.items()])
    [1.0, 0.25, 1.0]
    """
    usual = middle([origin.steps for origin in origins]) if origins else 0.0
    return [
        usual / origin.steps if 0 < usual < origin.steps else 1.0 for origin in origins
    ]


def middle(values: Sequence[float]) -> float:
    """The median; of an even number, the mean of the two in the middle.

    >>> middle([5.0, 1.0, 2.0]), middle([4, 1, 2, 9])
    (2.0, 3.0)
    """
    ordered = sorted(values)
    half = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[half]
    low, high = ordered[half - 1], ordered[half]
    return low + (high - low) / 2  # their sum may be too large for a float


def staleness_weight(staleness: int) -> float:
    """``(1 + s) ** -0.5`` for a delta whose base is s rounds old (arXiv:2401.09135).

    Written with a square root, which every machine rounds in the same way. It is a
    share of the mean: a round of equally stale deltas is not made smaller.

    >>> staleness_weight(0), staleness_weight(3)
    (1.0, 0.5)
    """
    return 1.0 / math.sqrt(1 + staleness)


def weight_problem(weight: float) -> str | None:
    """Why ``weight`` (or a number of tokens) cannot count; None when it can.

    >>> weight_problem(float("nan"))
    'nan is no weight, expected a finite number, at least 0'
    """
    if math.isfinite(weight) and weight >= 0:
        return None
    return f"{weight!r} is no weight, expected a finite number, at least 0"


def told(origin: Origin) -> str:
    """An origin as the beginning of a message.

    >>> told(Origin("a", "s", 1))
    "node 'a', stream 's', delta 1"
    """
    return f"node {origin.node!r}, stream {origin.stream!r}, delta {origin.sequence}"
